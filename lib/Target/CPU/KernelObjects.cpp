//===- KernelObjects.cpp - Object code of kernels, by contents ------------===//
//
// LLVM takes most of a compilation's time, and programs of one process have
// most kernels in common: a step that is compiled again with other scales, for
// other shapes, or beside its evaluation. So each kernel is compiled apart from
// the others, and its code is kept.
//
//===----------------------------------------------------------------------===//

#include "scalify/Target/CPU/KernelObjects.h"

#include "scalify/Codegen/MachineCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/TargetSelect.h"

#include <limits>
#include <mutex>

using namespace mlir;
using namespace scalify;

static constexpr llvm::StringLiteral kTriple = "x86_64-unknown-linux-gnu";

namespace {
/// The code that this process has compiled, by symbol.
class KnownObjects {
public:
  static KnownObjects &get() {
    static KnownObjects known;
    return known;
  }

  std::shared_ptr<const std::string> find(StringRef symbol) {
    std::lock_guard<std::mutex> lock(mutex);
    return objects.lookup(symbol);
  }

  void add(StringRef symbol, std::shared_ptr<const std::string> code) {
    std::lock_guard<std::mutex> lock(mutex);
    // Whatever is dropped is only compiled again.
    if (bytes + code->size() > kMostBytes) {
      objects.clear();
      bytes = 0;
    }
    bytes += code->size();
    objects[symbol] = std::move(code);
  }

private:
  static constexpr size_t kMostBytes = size_t(64) << 20;
  std::mutex mutex;
  llvm::StringMap<std::shared_ptr<const std::string>> objects;
  size_t bytes = 0;
};
} // namespace

static std::unique_ptr<llvm::TargetMachine> createMachine(StringRef mcpu,
                                                          std::string &error) {
  static const bool initialised = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)initialised;
  // Results must not depend on which ops share a kernel.
  return createTargetMachine(kTriple, mcpu, "", llvm::Reloc::PIC_,
                             llvm::CodeGenOptLevel::Default,
                             llvm::FPOpFusion::Strict, error);
}

// Moves a kernel, its entry and its body, into a module of its own.
static OwningOpRef<ModuleOp> takeKernel(LLVM::LLVMFuncOp entry) {
  auto kernels = entry->getParentOfType<ModuleOp>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(entry.getLoc());
  entry.walk([&](LLVM::CallOp call) {
    auto body = kernels.lookupSymbol<LLVM::LLVMFuncOp>(*call.getCallee());
    body.setName("body");
    call.setCallee("body");
    body->remove();
    module->push_back(body);
  });
  entry->remove();
  module->push_back(entry);
  return module;
}

// Gives an entry the symbol of its kernel's contents.
static std::string renameByContents(ModuleOp kernel, LLVM::LLVMFuncOp entry,
                                    StringRef mcpu) {
  entry.setName("kernel");
  std::string text = mcpu.str();
  llvm::raw_string_ostream os(text);
  // All elements of constants, whatever the command line says of printing.
  kernel.print(
      os, OpPrintingFlags()
              .useLocalScope()
              .enableDebugInfo(false)
              .elideLargeElementsAttrs(std::numeric_limits<int64_t>::max()));
  auto digest = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  std::string symbol =
      "kernel_" + llvm::toHex(ArrayRef(digest).take_front(16), true);
  entry.setName(symbol);
  return symbol;
}

static FailureOr<std::string>
compileOne(ModuleOp kernel, llvm::TargetMachine &machine, StringRef mcpu) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernel, context, "kernels");
  if (!module)
    return failure();
  for (llvm::Function &function : *module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", mcpu);
      // Keeps loops: there is no memcpy to call.
      function.addFnAttr("no-builtins");
      if (!function.hasLocalLinkage())
        function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    }
  SmallVector<char> object;
  if (!emitMachineCode(*module, machine, llvm::OptimizationLevel::O2,
                       llvm::CodeGenFileType::ObjectFile, object))
    return kernel.emitError("the code generator cannot write an object");
  return std::string(object.begin(), object.end());
}

FailureOr<SmallVector<KernelObject>>
scalify::compileKernelObjects(ModuleOp kernels, StringRef mcpu) {
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(mcpu, error);
  if (!machine)
    return kernels.emitError("no code generator for x86-64: ") << error;
  SmallVector<LLVM::LLVMFuncOp> entries;
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>())
    if (function.getLinkage() != LLVM::Linkage::Internal)
      entries.push_back(function);
  SmallVector<KernelObject> objects;
  // Of this module; what is known may be dropped at any time.
  llvm::StringMap<std::shared_ptr<const std::string>> own;
  for (LLVM::LLVMFuncOp entry : entries) {
    std::string name = entry.getName().str();
    OwningOpRef<ModuleOp> kernel = takeKernel(entry);
    std::string symbol = renameByContents(*kernel, entry, mcpu);
    std::shared_ptr<const std::string> &code = own[symbol];
    if (!code)
      code = KnownObjects::get().find(symbol);
    if (!code) {
      FailureOr<std::string> compiled = compileOne(*kernel, *machine, mcpu);
      if (failed(compiled))
        return failure();
      code = std::make_shared<const std::string>(std::move(*compiled));
      KnownObjects::get().add(symbol, code);
    }
    objects.push_back({name, symbol, code});
  }
  return objects;
}
