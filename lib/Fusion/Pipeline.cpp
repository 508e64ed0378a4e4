//===- Pipeline.cpp - The order of the fusion stage -----------------------===//

#include "scalify/Fusion/Passes.h"

#include "mlir/Pass/PassManager.h"

void scalify::buildFusionPipeline(mlir::OpPassManager &pm) {
  mlir::OpPassManager &functions = pm.nest<mlir::func::FuncOp>();
  functions.addPass(createPreparePlan());
  functions.addPass(createFormGemms());
  pm.addPass(createFormPlan());
  pm.addPass(createAssignBuffers());
}
