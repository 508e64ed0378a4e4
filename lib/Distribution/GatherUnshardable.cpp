//===- GatherUnshardable.cpp - Gather what an op needs whole --------------===//
//
// Shardy shards these ops along all dimensions, since XLA's partitioner, for
// which it was made, exchanges halos with neighbours. Here a device computes
// such an op on whole dimensions and keeps its shard of the result.
//
//===----------------------------------------------------------------------===//

#include "BatchDims.h"
#include "ValueShardings.h"
#include "WindowDims.h"

#include "scalify/Distribution/Passes.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/TypeSwitch.h"

namespace scalify {
#define GEN_PASS_DEF_GATHERUNSHARDABLEPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

using Dims = SmallVector<int64_t>;

//===----------------------------------------------------------------------===//
// Dimensions that an op needs whole
//===----------------------------------------------------------------------===//

namespace {
struct WholeDims {
  SmallVector<Dims> operands; // of the leading operands
  Dims results;               // of each result
};
} // namespace

static Dims filterDims(Value value, function_ref<bool(int64_t)> needsWhole) {
  auto type = cast<RankedTensorType>(value.getType());
  return llvm::filter_to_vector(llvm::seq<int64_t>(type.getRank()), needsWhole);
}

/// Returns the dimensions in which two values of one rank differ in size.
static Dims getUnequalDims(Value one, Value other) {
  auto a = cast<RankedTensorType>(one.getType());
  auto b = cast<RankedTensorType>(other.getType());
  return filterDims(
      one, [&](int64_t dim) { return a.getDimSize(dim) != b.getDimSize(dim); });
}

/// Returns the dimensions that operands and results need whole alike.
static Dims getSharedDims(Operation *op) {
  return TypeSwitch<Operation *, Dims>(op)
      .Case([](ConcatenateOp concat) {
        return Dims{static_cast<int64_t>(concat.getDimension())};
      })
      .Case([](ReverseOp reverse) { return Dims(reverse.getDimensions()); })
      .Case([](SliceOp slice) {
        return getUnequalDims(slice.getOperand(), slice.getResult());
      })
      .Case([](DynamicUpdateSliceOp update) {
        return getUnequalDims(update.getOperand(), update.getUpdate());
      })
      .Case([](PadOp pad) {
        return filterDims(pad.getOperand(), [&](int64_t dim) {
          return pad.getEdgePaddingLow()[dim] != 0 ||
                 pad.getEdgePaddingHigh()[dim] != 0 ||
                 pad.getInteriorPadding()[dim] != 0;
        });
      })
      .Case<ReduceWindowOp, SelectAndScatterOp>([](auto windows) {
        return filterDims(windows->getOperand(0),
                          [&](int64_t dim) { return !isKept(windows, dim); });
      })
      .Default([](Operation *) { return Dims(); });
}

/// True if a collective can combine the devices' partial results.
static bool isCombinable(ReduceOp reduce) {
  Block &body = reduce.getBody().front();
  return llvm::hasNItems(body, 2) &&
         isa<AddOp, MaxOp, MinOp, AndOp, OrOp>(body.front());
}

static WholeDims getWholeDims(Operation *op) {
  if (auto conv = dyn_cast<ConvolutionOp>(op)) {
    ConvDimensionNumbersAttr dims = conv.getDimensionNumbers();
    return {{Dims(dims.getInputSpatialDimensions()),
             Dims(dims.getKernelSpatialDimensions())},
            Dims(dims.getOutputSpatialDimensions())};
  }
  // Matrices are whole, on the devices that share a batch of them.
  if (std::optional<int64_t> batch = getBatchRank(op)) {
    Dims matrix{*batch, *batch + 1};
    return {SmallVector<Dims>(op->getNumOperands(), matrix), matrix};
  }
  // The results lack the reduced dimensions.
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return {SmallVector<Dims>(isCombinable(reduce) ? 0 : reduce.getNumResults(),
                              Dims(reduce.getDimensions())),
            {}};
  Dims dims = getSharedDims(op);
  return {SmallVector<Dims>(op->getNumOperands(), dims), dims};
}

//===----------------------------------------------------------------------===//
// Reshards
//===----------------------------------------------------------------------===//

/// Returns the sharding of a value without axes on these dimensions; null if it
/// has none there.
static sdy::TensorShardingAttr getGathered(Value value,
                                           ArrayRef<int64_t> dims) {
  sdy::TensorShardingAttr sharding =
      dims.empty() ? sdy::TensorShardingAttr() : getSharding(value);
  if (!sharding)
    return {};
  auto gathered = sharding.keepAxes([&](int64_t dim, auto axes) {
    return llvm::is_contained(dims, dim) ? axes.take_front(0) : axes;
  });
  return gathered == sharding ? sdy::TensorShardingAttr() : gathered;
}

static void setShardings(Operation *op,
                         ArrayRef<sdy::TensorShardingAttr> shardings) {
  op->setAttr(kShardingAttr, sdy::TensorShardingPerValueAttr::get(
                                 op->getContext(), shardings));
}

/// Returns a value in another sharding, for the use of an op. A clone of a
/// constant needs no communication.
static Value buildReshard(Operation *op, Value value,
                          sdy::TensorShardingAttr sharding) {
  OpBuilder builder(op);
  if (isa_and_present<IotaOp, sdy::ConstantOp>(value.getDefiningOp())) {
    Operation *clone = builder.clone(*value.getDefiningOp());
    setShardings(clone, sharding);
    return clone->getResult(0);
  }
  return sdy::ReshardOp::create(builder, op->getLoc(), value, sharding);
}

/// Gathers an op's results along dimensions, and shards them again for their
/// users.
static void gatherResults(Operation *op, ArrayRef<int64_t> dims) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  bool changes = false;
  SmallVector<sdy::TensorShardingAttr> shardings;
  for (Value result : op->getResults()) {
    sdy::TensorShardingAttr sharding = getSharding(result);
    sdy::TensorShardingAttr gathered = getGathered(result, dims);
    shardings.push_back(gathered ? gathered : sharding);
    if (!gathered)
      continue;
    auto reshard =
        sdy::ReshardOp::create(builder, op->getLoc(), result, sharding);
    result.replaceAllUsesExcept(reshard, reshard);
    changes = true;
  }
  if (changes)
    setShardings(op, shardings);
}

static void gather(Operation *op) {
  WholeDims dims = getWholeDims(op);
  for (auto [operand, whole] : llvm::zip(op->getOpOperands(), dims.operands))
    if (sdy::TensorShardingAttr sharding = getGathered(operand.get(), whole))
      operand.set(buildReshard(op, operand.get(), sharding));
  gatherResults(op, dims.results);
}

namespace {

struct GatherUnshardable
    : scalify::impl::GatherUnshardablePassBase<GatherUnshardable> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk<WalkOrder::PreOrder>(
        [&](Operation *op) { ops.push_back(op); });
    llvm::for_each(ops, gather);
  }
};

} // namespace
