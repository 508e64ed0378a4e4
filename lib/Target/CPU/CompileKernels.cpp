//===- CompileKernels.cpp - LLVM functions to a shared object -------------===//

#include "scalify/Target/CPU/CPUTarget.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace scalify;

static constexpr llvm::StringLiteral kTriple = "x86_64-unknown-linux-gnu";

static std::unique_ptr<llvm::TargetMachine>
createMachine(const CPUTargetOptions &options, std::string &error) {
  static const bool initialised = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)initialised;
  llvm::Triple triple(kTriple);
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions targetOptions;
  // Products and sums may round once: what GEMMs and XLA do as well.
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, options.mcpu, "", targetOptions, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Default));
}

static void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
}

static bool emitObject(llvm::Module &module, llvm::TargetMachine &machine,
                       SmallVectorImpl<char> &object) {
  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr,
                                  llvm::CodeGenFileType::ObjectFile))
    return false;
  passes.run(module);
  return true;
}

namespace {
/// A file that is removed when it goes out of scope.
struct TemporaryFile {
  SmallString<128> path;
  explicit TemporaryFile(StringRef suffix) {
    if (llvm::sys::fs::createTemporaryFile("scalify", suffix, path))
      path.clear();
  }
  ~TemporaryFile() {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }
};
} // namespace

static std::string findLinker(const CPUTargetOptions &options) {
  if (!options.linker.empty())
    return options.linker;
  for (StringRef name : {"ld.lld-22", "ld.lld"}) {
    StringRef directories[] = {"/usr/lib/llvm-22/bin"};
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
    if (auto found = llvm::sys::findProgramByName(name, directories))
      return *found;
  }
  return "";
}

// A kernel that calls something would fail only when it is loaded.
static LogicalResult checkClosed(Location loc, StringRef elf) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(elf, "kernels"));
  if (!file)
    return emitError(loc) << "kernels are no ELF file: "
                          << llvm::toString(file.takeError());
  auto &object = cast<llvm::object::ELFObjectFileBase>(**file);
  for (const llvm::object::ELFSymbolRef symbol :
       object.getDynamicSymbolIterators()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (flags && name && !name->empty() &&
        (*flags & llvm::object::SymbolRef::SF_Undefined))
      return emitError(loc)
             << "kernels call '" << *name << "', which no library provides";
  }
  return success();
}

static FailureOr<std::string> link(Location loc, ArrayRef<char> object,
                                   const CPUTargetOptions &options) {
  std::string linker = findLinker(options);
  if (linker.empty())
    return emitError(loc) << "no linker found: install lld-22 or pass its path";
  TemporaryFile input("o"), output("so"), log("txt");
  if (input.path.empty() || output.path.empty() || log.path.empty())
    return emitError(loc) << "cannot create a temporary file";
  std::error_code error;
  {
    llvm::raw_fd_ostream os(input.path, error);
    if (!error)
      os.write(object.data(), object.size());
  }
  if (error)
    return emitError(loc) << "cannot write '" << input.path
                          << "': " << error.message();
  StringRef arguments[] = {linker, "-shared", "--build-id=none", "-z",
                           "now",  "-o",      output.path,       input.path};
  std::optional<StringRef> redirects[] = {std::nullopt, StringRef(log.path),
                                          StringRef(log.path)};
  std::string message;
  if (llvm::sys::ExecuteAndWait(linker, arguments, std::nullopt, redirects, 0,
                                0, &message)) {
    auto text = llvm::MemoryBuffer::getFile(log.path);
    return emitError(loc) << "'" << linker << "' failed: " << message
                          << (text ? (*text)->getBuffer() : StringRef());
  }
  auto linked = llvm::MemoryBuffer::getFile(output.path);
  if (!linked)
    return emitError(loc) << "cannot read '" << output.path << "'";
  return (*linked)->getBuffer().str();
}

FailureOr<std::string>
scalify::compileKernels(ModuleOp kernels, const CPUTargetOptions &options) {
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return failure();
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(options, error);
  if (!machine)
    return kernels.emitError("no code generator for x86-64: ") << error;
  module->setTargetTriple(llvm::Triple(kTriple));
  module->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", options.mcpu);
      // Loops stay loops: there is no memcpy to call.
      function.addFnAttr("no-builtins");
    }
  optimise(*module, *machine);
  SmallVector<char> object;
  if (!emitObject(*module, *machine, object))
    return kernels.emitError("the code generator cannot write an object");
  FailureOr<std::string> linked = link(kernels.getLoc(), object, options);
  if (failed(linked) || failed(checkClosed(kernels.getLoc(), *linked)))
    return failure();
  return linked;
}
