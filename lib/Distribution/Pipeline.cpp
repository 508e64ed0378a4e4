//===- Pipeline.cpp - The order of the Distribution stage -----------------===//

#include "scalify/Distribution/Passes.h"

#include "mlir/Pass/PassManager.h"

void scalify::buildDistributionPipeline(mlir::OpPassManager &pm,
                                        const DistributionOptions &options) {
  if (options.narrowCollectives)
    pm.addPass(createNarrowCollectivesPass());
  if (options.simulateRanks) {
    pm.addPass(createSimulateRanksPass({*options.simulateRanks}));
    return;
  }
  pm.addPass(createBucketCollectivesPass({options.bucketBytes}));
  if (options.orderSums)
    pm.addPass(createOrderSumsPass());
}
