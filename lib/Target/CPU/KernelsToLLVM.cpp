//===- KernelsToLLVM.cpp - Lowering of kernel functions to LLVM -----------===//

#include "scalify/Codegen/GuardConversions.h"
#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Target/CPU/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <set>

namespace scalify {
#define GEN_PASS_DEF_KERNELSTOLLVM
#include "scalify/Target/CPU/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
class KernelsToLLVMPass
    : public scalify::impl::KernelsToLLVMBase<KernelsToLLVMPass> {
public:
  using KernelsToLLVMBase::KernelsToLLVMBase;
  void getDependentDialects(DialectRegistry &registry) const override;
  void runOnOperation() override;
};
} // namespace

static void buildLowering(OpPassManager &pm) {
  pm.nest<func::FuncOp>().addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vectors;
  vectors.reassociateFPReductions = false;
  pm.addPass(createConvertVectorToLLVMPass(vectors));
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  ConvertFuncToLLVMPassOptions functionOptions;
  functionOptions.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(functionOptions));
  pm.addPass(createReconcileUnrealizedCastsPass());
}

void KernelsToLLVMPass::getDependentDialects(DialectRegistry &registry) const {
  registry.insert<LLVM::LLVMDialect>();
  OpPassManager pm("builtin.module");
  buildLowering(pm);
  pm.getDependentDialects(registry);
}

// void k(void *const *bufs, int64_t lo, int64_t hi, uint64_t *counters)
static void addEntry(LLVM::LLVMFuncOp body, const std::set<int64_t> &shared,
                     int64_t buffers) {
  OpBuilder b(body);
  Location loc = body.getLoc();
  MLIRContext *context = body.getContext();
  std::string name = body.getName().str();
  body.setName(name + "_body");
  body.setLinkage(LLVM::Linkage::Internal);
  for (int64_t i = 0; i < buffers; ++i) {
    body.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                    b.getI64IntegerAttr(1));
    if (!shared.count(i))
      body.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                      b.getUnitAttr());
  }
  body.setArgAttr(buffers + 2, LLVM::LLVMDialect::getNoAliasAttrName(),
                  b.getUnitAttr());
  auto ptr = LLVM::LLVMPointerType::get(context);
  auto i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                          {ptr, i64, i64, ptr});
  auto entry = LLVM::LLVMFuncOp::create(b, loc, name, type);
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  SmallVector<Value> arguments;
  for (int64_t i = 0; i < buffers; ++i) {
    Value place = LLVM::GEPOp::create(b, loc, ptr, ptr, block->getArgument(0),
                                      ArrayRef<LLVM::GEPArg>{int32_t(i)});
    arguments.push_back(LLVM::LoadOp::create(b, loc, ptr, place));
  }
  for (unsigned i = 1; i < 4; ++i)
    arguments.push_back(block->getArgument(i));
  LLVM::CallOp::create(b, loc, body, arguments);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

void KernelsToLLVMPass::runOnOperation() {
  ModuleOp module = getOperation();
  struct Signature {
    int64_t buffers;
    std::set<int64_t> shared;
  };
  llvm::StringMap<Signature> signatures;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto count = [&](StringRef name) {
      auto attr = function->getAttrOfType<IntegerAttr>(name);
      return attr ? attr.getInt() : 0;
    };
    int64_t reads = count(plan::kReadsAttr);
    Signature signature{reads + count(plan::kWritesAttr), {}};
    if (auto pairs =
            function->getAttrOfType<DenseI64ArrayAttr>(plan::kInPlaceAttr))
      for (size_t i = 0; i + 1 < size_t(pairs.size()); i += 2) {
        signature.shared.insert(reads + pairs[i]);
        signature.shared.insert(pairs[i + 1]);
      }
    signatures[function.getName()] = signature;
    for (StringRef name :
         {plan::kReadsAttr, plan::kWritesAttr, plan::kInPlaceAttr})
      function->removeAttr(name);
  }
  OpPassManager pm("builtin.module");
  buildLowering(pm);
  if (failed(runPipeline(pm, module)))
    return signalPassFailure();
  codegen::guardConversions(module);
  SmallVector<LLVM::LLVMFuncOp> functions(module.getOps<LLVM::LLVMFuncOp>());
  for (LLVM::LLVMFuncOp function : functions) {
    auto found = signatures.find(function.getName());
    if (found != signatures.end())
      addEntry(function, found->second.shared, found->second.buffers);
  }
  // A partially lowered op would be dropped or miscompiled later on.
  WalkResult walk = module.walk([&](Operation *op) {
    if (op == module || isa_and_nonnull<LLVM::LLVMDialect>(op->getDialect()))
      return WalkResult::advance();
    op->emitOpError("is left after lowering to LLVM");
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    signalPassFailure();
}
