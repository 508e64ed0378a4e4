//===- KernelObjects.cpp - Object code of kernels, by contents ------------===//
//
// Each kernel is compiled apart from the others, so that its code can be kept.
//
//===----------------------------------------------------------------------===//

#include "scalify/Target/CPU/KernelObjects.h"

#include "scalify/Codegen/KeptCode.h"
#include "scalify/Codegen/MachineCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace scalify;

static constexpr llvm::StringLiteral kTriple = "x86_64-unknown-linux-gnu";

// What -O2 does for loop nests over arrays, each once, in less than half the
// time. A body is inlined into its entry last: loops can tell its arguments
// apart, but not the pointers that the entry loads.
static constexpr llvm::StringLiteral kPasses =
    // Descriptors of memrefs become scalars.
    "function<eager-inv>(sroa<modify-cfg>,early-cse<memssa>,"
    "simplifycfg<keep-loops;switch-range-to-icmp>,"
    "instcombine<max-iterations=1;no-verify-fixpoint>,"
    // Loops with their tests at the end, and short ones written out.
    "loop-mssa(licm<no-allowspeculation>,loop-rotate<header-duplication>,"
    "licm<allowspeculation>,simple-loop-unswitch<no-nontrivial;trivial>),"
    "loop(indvars,loop-deletion,loop-unroll-full),sroa<modify-cfg>,"
    // What that has made equal or constant.
    "gvn<>,instcombine<max-iterations=1;no-verify-fixpoint>,dse,"
    "loop-mssa(licm<allowspeculation>),"
    "simplifycfg<keep-loops;switch-range-to-icmp;switch-to-arithmetic;"
    "hoist-common-insts;sink-common-insts>,"
    // Hoists invariant selects, which were branches until here: the vectorizer
    // takes exponential time to prove that a chain of them is uniform.
    "loop-mssa(licm<allowspeculation>),"
    // Vectors.
    "loop-vectorize,instcombine<max-iterations=1;no-verify-fixpoint>,"
    "vector-combine,loop-unroll<O2>,"
    "instcombine<max-iterations=1;no-verify-fixpoint>,"
    "loop-mssa(licm<allowspeculation>),"
    "simplifycfg<keep-loops;switch-range-to-icmp>),"
    "always-inline,globaldce";

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
  std::string symbol = "kernel_" + hashOf({mcpu, textWithoutLocations(kernel)});
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
      function.setDoesNotThrow();
      if (function.hasLocalLinkage())
        function.addFnAttr(llvm::Attribute::AlwaysInline);
      else
        function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    }
  SmallVector<char> object;
  if (!emitMachineCode(*module, machine, kPasses,
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
  for (LLVM::LLVMFuncOp entry : entries) {
    std::string name = entry.getName().str();
    OwningOpRef<ModuleOp> kernel = takeKernel(entry);
    std::string symbol = renameByContents(*kernel, entry, mcpu);
    auto code = keepCode(entry.getLoc(), symbol,
                         [&] { return compileOne(*kernel, *machine, mcpu); });
    if (failed(code))
      return failure();
    objects.push_back({name, symbol, *code});
  }
  return objects;
}
