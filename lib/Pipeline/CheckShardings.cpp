//===- CheckShardings.cpp - Reject programs for several devices -----------===//
//
// Import leaves shardings over several devices in the program. Shardy's are
// constraints within it, which partitioning replaces by collectives; those of
// arguments remain afterwards and specify a device's shard. GSPMD's are calls
// and attributes that only its own partitioner reads.
//
//===----------------------------------------------------------------------===//

#include "CheckShardings.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace scalify;

static constexpr StringLiteral kGSPMDSharding = "mhlo.sharding";
static constexpr StringLiteral kRemedy =
    ": an artefact is for one device; 'python -m scalify.partition IN' makes "
    "the program of each, and scalify.jit(mesh=) does both";
static constexpr StringLiteral kGSPMDRemedy =
    "; lower it with JAX's Shardy partitioner, its default, for that";

static bool isGSPMDCall(Operation *op) {
  auto call = dyn_cast<stablehlo::CustomCallOp>(op);
  return call && llvm::is_contained({"Sharding", "SPMDFullToShardShape",
                                     "SPMDShardToFullShape"},
                                    call.getCallTargetName());
}

/// True if the attribute shards a value: "{replicated}" and one device do not.
static bool cuts(Attribute sharding) {
  auto text = dyn_cast_or_null<StringAttr>(sharding);
  return text && text.getValue().contains("devices=[");
}

LogicalResult scalify::checkIsSingleDevice(ModuleOp module) {
  WalkResult result = module.walk([](Operation *op) -> WalkResult {
    if (isa<sdy::ShardingConstraintOp, sdy::ReshardOp>(op))
      return op->emitError("the program is sharded over several devices")
             << kRemedy;
    if (isGSPMDCall(op))
      return op->emitError("the program is sharded over several devices, in "
                           "GSPMD's form")
             << kRemedy << kGSPMDRemedy;
    auto func = dyn_cast<FunctionOpInterface>(op);
    for (unsigned i = 0; func && i < func.getNumArguments(); ++i)
      if (cuts(func.getArgAttr(i, kGSPMDSharding)))
        return emitError(func.getArgument(i).getLoc())
               << "argument " << i << " of '" << func.getName()
               << "' is sharded over several devices, in GSPMD's form"
               << kRemedy << kGSPMDRemedy;
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
