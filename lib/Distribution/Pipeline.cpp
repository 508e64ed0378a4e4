//===- Pipeline.cpp - The order of the Distribution stage -----------------===//

#include "scalify/Distribution/Passes.h"

#include "mlir/Pass/PassManager.h"

void scalify::buildDistributionPipeline(mlir::OpPassManager &pm,
                                        const DistributionOptions &options) {
  // One process sends no messages.
  bool slices = options.sliceStacks && !options.simulateRanks;
  if (slices)
    pm.addPass(createSliceCollectivesPass({/*gathers=*/false}));
  if (options.narrowCollectives)
    pm.addPass(createNarrowCollectivesPass());
  if (options.simulateRanks) {
    pm.addPass(createSimulateRanksPass({*options.simulateRanks}));
    return;
  }
  // Narrow first: all that read a gather are to cast it alike.
  if (slices)
    pm.addPass(createSliceCollectivesPass({/*gathers=*/true}));
  pm.addPass(createBucketCollectivesPass(
      {options.bucketBytes, options.bucketsByChunk}));
  if (options.orderSums)
    pm.addPass(createOrderSumsPass());
}
