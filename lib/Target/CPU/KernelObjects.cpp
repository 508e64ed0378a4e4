//===- KernelObjects.cpp - Object code of kernels, by contents ------------===//
//
// Each kernel is compiled apart from the others, so that its code can be kept,
// and on any thread.
//
//===----------------------------------------------------------------------===//

#include "scalify/Target/CPU/KernelObjects.h"

#include "scalify/Codegen/KeptCode.h"
#include "scalify/Codegen/MachineCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/ThreadPool.h"

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

namespace {
/// A kernel whose code was not kept: its contents in LLVM, then its code.
struct NewKernel {
  std::string symbol;
  Location loc;
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  SmallVector<char> code;
  std::string error;
};
} // namespace

static LogicalResult translate(ModuleOp kernel, NewKernel &made,
                               StringRef mcpu) {
  made.context = std::make_unique<llvm::LLVMContext>();
  made.module = translateModuleToLLVMIR(kernel, *made.context, "kernels");
  if (!made.module)
    return failure();
  for (llvm::Function &function : *made.module)
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
  return success();
}

/// Runs on any thread. A code generator is of one thread, and costs a hundredth
/// of a kernel.
static void generateCode(NewKernel &kernel, StringRef mcpu) {
  std::unique_ptr<llvm::TargetMachine> machine =
      createMachine(mcpu, kernel.error);
  if (machine &&
      !emitMachineCode(*kernel.module, *machine, kPasses,
                       llvm::CodeGenFileType::ObjectFile, kernel.code))
    kernel.error = "it cannot write an object";
  // Of large steps, those of all kernels are much memory.
  kernel.module.reset();
  kernel.context.reset();
}

/// MLIR stays on its thread, so that diagnostics come in order.
static LogicalResult generateCodes(MLIRContext *context,
                                   std::vector<NewKernel> &kernels,
                                   llvm::StringMap<Code> &codes,
                                   StringRef mcpu) {
  if (context->isMultithreadingEnabled() && kernels.size() > 1) {
    llvm::ThreadPoolTaskGroup tasks(context->getThreadPool());
    for (NewKernel &kernel : kernels)
      tasks.async([&kernel, mcpu] { generateCode(kernel, mcpu); });
  } else {
    for (NewKernel &kernel : kernels)
      generateCode(kernel, mcpu);
  }
  for (NewKernel &kernel : kernels) {
    if (!kernel.error.empty())
      return emitError(kernel.loc)
             << "the code generator for x86-64 fails: " << kernel.error;
    codes[kernel.symbol] =
        addCode(kernel.loc, kernel.symbol,
                std::string(kernel.code.begin(), kernel.code.end()));
  }
  return success();
}

FailureOr<SmallVector<KernelObject>>
scalify::compileKernelObjects(ModuleOp kernels, StringRef mcpu) {
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  SmallVector<LLVM::LLVMFuncOp> entries;
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>())
    if (function.getLinkage() != LLVM::Linkage::Internal)
      entries.push_back(function);
  SmallVector<KernelObject> objects;
  llvm::StringMap<Code> codes;
  std::vector<NewKernel> made;
  for (LLVM::LLVMFuncOp entry : entries) {
    std::string name = entry.getName().str();
    OwningOpRef<ModuleOp> kernel = takeKernel(entry);
    std::string symbol = renameByContents(*kernel, entry, mcpu);
    objects.push_back({name, symbol, nullptr});
    if (!codes.try_emplace(symbol, findCode(entry.getLoc(), symbol)).second ||
        codes[symbol])
      continue;
    made.push_back({symbol, entry.getLoc(), nullptr, nullptr, {}, {}});
    if (failed(translate(*kernel, made.back(), mcpu)))
      return failure();
  }
  if (failed(generateCodes(kernels.getContext(), made, codes, mcpu)))
    return failure();
  for (KernelObject &object : objects)
    object.code = codes[object.symbol];
  return objects;
}
