//===- CompileKernels.cpp - LLVM functions to a shared object -------------===//

#include "scalify/Target/CPU/CPUTarget.h"

#include "scalify/Codegen/MachineCode.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"

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
  return createTargetMachine(kTriple, options.mcpu, "", llvm::Reloc::PIC_,
                             llvm::CodeGenOptLevel::Default, error);
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
  for (llvm::Function &function : *module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", options.mcpu);
      // Loops stay loops: there is no memcpy to call.
      function.addFnAttr("no-builtins");
    }
  SmallVector<char> object;
  if (!emitMachineCode(*module, *machine, llvm::OptimizationLevel::O2,
                       llvm::CodeGenFileType::ObjectFile, object))
    return kernels.emitError("the code generator cannot write an object");
  FailureOr<std::string> linked = link(kernels.getLoc(), object, options);
  if (failed(linked) || failed(checkClosed(kernels.getLoc(), *linked)))
    return failure();
  return linked;
}
