//===- CompileKernels.cpp - Shared objects from LLVM functions ------------===//

#include "scalify/Codegen/MachineCode.h"
#include "scalify/Target/Artefact/ToolRun.h"
#include "scalify/Target/CPU/Passes.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace scalify;

static constexpr llvm::StringLiteral kTriple = "x86_64-unknown-linux-gnu";

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

// A kernel with an undefined symbol would fail only at load.
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

static FailureOr<std::string> link(Location loc, ArrayRef<char> object) {
  std::string linker =
      findTool({"ld.lld-22", "ld.lld"}, {"/usr/lib/llvm-22/bin"});
  if (linker.empty())
    return emitError(loc) << "no linker found: install lld-22";
  return runTool(
      loc, linker,
      {"-shared", "--build-id=none", "-z", "now", "-o", "@out", "@in"},
      StringRef(object.data(), object.size()));
}

FailureOr<std::string> scalify::compileKernels(ModuleOp kernels,
                                               StringRef mcpu) {
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return failure();
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(mcpu, error);
  if (!machine)
    return kernels.emitError("no code generator for x86-64: ") << error;
  for (llvm::Function &function : *module)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", mcpu);
      // Keeps loops: there is no memcpy to call.
      function.addFnAttr("no-builtins");
    }
  SmallVector<char> object;
  if (!emitMachineCode(*module, *machine, llvm::OptimizationLevel::O2,
                       llvm::CodeGenFileType::ObjectFile, object))
    return kernels.emitError("the code generator cannot write an object");
  FailureOr<std::string> linked = link(kernels.getLoc(), object);
  if (failed(linked) || failed(checkClosed(kernels.getLoc(), *linked)))
    return failure();
  return linked;
}
