//===- EmitPTX.cpp - PTX from kernels in the NVVM dialect -----------------===//
//
// Uses LLVM's code generator without NVIDIA's libdevice: math functions are
// polynomials by now.
//
//===----------------------------------------------------------------------===//

#include "scalify/Target/CUDA/Passes.h"

#include "scalify/Codegen/KeptCode.h"
#include "scalify/Codegen/MachineCode.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Support/TargetSelect.h"

namespace scalify {
#define GEN_PASS_DEF_EMITPTX
#include "scalify/Target/CUDA/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static constexpr llvm::StringLiteral kTriple = "nvptx64-nvidia-cuda";
// Supported by the drivers of CUDA 12.6 and later.
static constexpr llvm::StringLiteral kFeatures = "+ptx86";

static std::unique_ptr<llvm::TargetMachine> createMachine(StringRef chip,
                                                          std::string &error) {
  static const bool initialised = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialised;
  return createTargetMachine(kTriple, chip, kFeatures, std::nullopt,
                             llvm::CodeGenOptLevel::Aggressive,
                             llvm::FPOpFusion::Fast, error);
}

static LogicalResult checkClosed(gpu::GPUModuleOp kernels,
                                 const llvm::Module &module) {
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic())
      return kernels.emitError("kernels call '")
             << function.getName() << "', which no kernel defines";
  return success();
}

static FailureOr<std::string> makePTX(gpu::GPUModuleOp kernels,
                                      StringRef chip) {
  MLIRContext &mlirContext = *kernels.getContext();
  registerBuiltinDialectTranslation(mlirContext);
  registerLLVMDialectTranslation(mlirContext);
  registerNVVMDialectTranslation(mlirContext);
  registerGPUDialectTranslation(mlirContext);
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return failure();
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(chip, error);
  if (!machine)
    return kernels.emitError("no code generator for PTX: ") << error;
  if (failed(checkClosed(kernels, *module)))
    return failure();
  SmallVector<char> text;
  if (!emitMachineCode(*module, *machine, "default<O3>",
                       llvm::CodeGenFileType::AssemblyFile, text))
    return kernels.emitError("the code generator cannot write PTX");
  return std::string(text.data(), text.size());
}

FailureOr<std::string> scalify::emitPTX(gpu::GPUModuleOp kernels,
                                        StringRef chip) {
  std::string key = "ptx_" + hashOf({chip, textWithoutLocations(kernels)});
  auto ptx =
      keepCode(kernels.getLoc(), key, [&] { return makePTX(kernels, chip); });
  if (failed(ptx))
    return failure();
  return **ptx;
}

namespace {
struct EmitPTXPass : scalify::impl::EmitPTXBase<EmitPTXPass> {
  using EmitPTXBase::EmitPTXBase;

  void runOnOperation() override {
    SmallVector<gpu::GPUModuleOp> modules(
        getOperation().getOps<gpu::GPUModuleOp>());
    for (gpu::GPUModuleOp kernels : modules) {
      FailureOr<std::string> ptx = emitPTX(kernels, chip);
      if (failed(ptx))
        return signalPassFailure();
      OpBuilder b(kernels);
      auto target = NVVM::NVVMTargetAttr::get(&getContext(), /*O=*/3, kTriple,
                                              chip, kFeatures);
      auto object = gpu::ObjectAttr::get(
          target, gpu::CompilationTarget::Assembly, b.getStringAttr(*ptx));
      gpu::BinaryOp::create(b, kernels.getLoc(), kernels.getName(), nullptr,
                            ArrayRef<Attribute>{object});
      kernels.erase();
    }
  }
};
} // namespace
