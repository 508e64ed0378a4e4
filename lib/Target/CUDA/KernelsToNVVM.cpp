//===- KernelsToNVVM.cpp - Lowering of GPU kernel functions to NVVM -------===//

#include "scalify/Codegen/GuardConversions.h"
#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Target/CUDA/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/LoweringOptions.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_KERNELSTONVVM
#include "scalify/Target/CUDA/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
class KernelsToNVVMPass
    : public scalify::impl::KernelsToNVVMBase<KernelsToNVVMPass> {
public:
  using KernelsToNVVMBase::KernelsToNVVMBase;
  void getDependentDialects(DialectRegistry &registry) const override;
  void runOnOperation() override;

private:
  LogicalResult expandReductions(gpu::GPUModuleOp kernels);
  LogicalResult convert(gpu::GPUModuleOp kernels);
};
} // namespace

static void buildPreparation(OpPassManager &pm) {
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vectors;
  vectors.reassociateFPReductions = false;
  kernels.addPass(createConvertVectorToLLVMPass(vectors));
}

static void buildCleaning(OpPassManager &pm) {
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
}

void KernelsToNVVMPass::getDependentDialects(DialectRegistry &registry) const {
  registry.insert<LLVM::LLVMDialect, NVVM::NVVMDialect, gpu::GPUDialect>();
  OpPassManager pm("builtin.module");
  buildPreparation(pm);
  buildCleaning(pm);
  pm.getDependentDialects(registry);
}

// Shared memory is a workgroup attribution of the kernel, aligned for vectors
// of 16 bytes.
static void moveToWorkgroup(Block &body, gpu::GPUFuncOp kernel) {
  auto shared = static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared);
  for (auto memory :
       llvm::make_early_inc_range(body.getOps<memref::AllocaOp>())) {
    if (memory.getType().getMemorySpaceAsInt() != shared)
      continue;
    Value place =
        kernel.addWorkgroupAttribution(memory.getType(), memory.getLoc());
    kernel.setWorkgroupAttributionAttr(kernel.getNumWorkgroupAttributions() - 1,
                                       LLVM::LLVMDialect::getAlignAttrName(),
                                       OpBuilder(memory).getI64IntegerAttr(16));
    memory.replaceAllUsesWith(place);
    memory.erase();
  }
}

/// Moves the body to a gpu.func kernel without lo and hi, which grids do not
/// need.
static gpu::GPUFuncOp outline(func::FuncOp function, OpBuilder &b) {
  Block &body = function.getBody().front();
  unsigned count = body.getNumArguments();
  body.eraseArguments(count - 3, 2);
  FunctionType type =
      FunctionType::get(function.getContext(), body.getArgumentTypes(), {});
  auto kernel =
      gpu::GPUFuncOp::create(b, function.getLoc(), function.getName(), type);
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  if (auto threads = function->getAttrOfType<IntegerAttr>(plan::kThreadsAttr))
    kernel.setKnownBlockSizeAttr(
        b.getDenseI32ArrayAttr({static_cast<int32_t>(threads.getInt()), 1, 1}));
  Block &entry = kernel.getBody().front();
  moveToWorkgroup(body, kernel);
  for (auto [from, to] : llvm::zip(body.getArguments(), entry.getArguments()))
    from.replaceAllUsesWith(to);
  entry.getOperations().splice(entry.end(), body.getOperations());
  Operation *end = entry.getTerminator();
  OpBuilder at(end);
  gpu::ReturnOp::create(at, end->getLoc());
  end->erase();
  function.erase();
  return kernel;
}

// Expands reductions across threads to shuffles within warps and one step
// between warps.
LogicalResult KernelsToNVVMPass::expandReductions(gpu::GPUModuleOp kernels) {
  RewritePatternSet patterns(&getContext());
  populateGpuRewritePatterns(patterns);
  return applyPatternsGreedily(kernels, std::move(patterns));
}

// Like MLIR's pass of this kind, except that square roots, roundings and fused
// multiply-adds are instructions: MLIR calls NVIDIA's library for them.
LogicalResult KernelsToNVVMPass::convert(gpu::GPUModuleOp kernels) {
  MLIRContext *context = &getContext();
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  options.overrideIndexBitwidth(64);
  LLVMTypeConverter converter(context, options);
  configureGpuToNVVMTypeConverter(converter);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
  populateGpuToNVVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns,
                                       /*approximateLog1p=*/false,
                                       /*benefit=*/2);
  LLVMConversionTarget target(*context);
  configureGpuToNVVMConversionLegality(target);
  target.addLegalOp<LLVM::CopySignOp, LLVM::FAbsOp, LLVM::FCeilOp,
                    LLVM::FFloorOp, LLVM::RoundEvenOp, LLVM::SqrtOp>();
  return applyPartialConversion(kernels, target, std::move(patterns));
}

// By default ptxas spills to fit more blocks into a multiprocessor. Given the
// number of blocks that must fit, it gives threads the registers that they
// need, up to 128 here.
static void boundRegisters(gpu::GPUModuleOp kernels) {
  constexpr int32_t kThreads = 512, kMaxBlocks = 32;
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>()) {
    auto threads = kernel->getAttrOfType<DenseI32ArrayAttr>(
        NVVM::NVVMDialect::getMaxntidAttrName());
    if (!threads)
      continue;
    int32_t blocks = std::clamp(kThreads / threads[0], 1, kMaxBlocks);
    kernel->setAttr(
        NVVM::NVVMDialect::getMinctasmAttrName(),
        IntegerAttr::get(IntegerType::get(kernel.getContext(), 32), blocks));
  }
}

void KernelsToNVVMPass::runOnOperation() {
  ModuleOp module = getOperation();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto kernels = gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
  b.setInsertionPointToStart(kernels.getBody());
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    outline(function, b);
  OpPassManager preparation("builtin.module"), cleaning("builtin.module");
  buildPreparation(preparation);
  buildCleaning(cleaning);
  if (failed(expandReductions(kernels)) ||
      failed(runPipeline(preparation, module)) || failed(convert(kernels)) ||
      failed(runPipeline(cleaning, module)))
    return signalPassFailure();
  codegen::guardConversions(kernels);
  boundRegisters(kernels);
  // A partially lowered op would be dropped or miscompiled later on.
  WalkResult walk = kernels.walk([&](Operation *op) {
    if (op == kernels ||
        isa_and_nonnull<LLVM::LLVMDialect, NVVM::NVVMDialect>(op->getDialect()))
      return WalkResult::advance();
    op->emitOpError("is left after lowering to NVVM");
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    signalPassFailure();
}
