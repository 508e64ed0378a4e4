//===- ExpandScatters.cpp - Scatters of one element per row as selects ----===//
//
// A scatter works in the memory of its input, so zeros that it adds to are
// stored first, and its users are other kernels. If each row of a constant gets
// one element, as in the gradient of a cross entropy, a comparison of positions
// computes the same in any kernel, and nothing is stored.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/IR/Matchers.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDSCATTERS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static bool isSplat(Value value) {
  if (auto broadcast = value.getDefiningOp<stablehlo::BroadcastInDimOp>())
    value = broadcast.getOperand();
  SplatElementsAttr splat;
  return matchPattern(value, m_Constant(&splat));
}

/// Returns the dimension along which the indices place a row's one element, if
/// all other dimensions are batching dimensions in order; -1 for other
/// scatters.
static int64_t getPlacedDim(stablehlo::ScatterOp op) {
  stablehlo::ScatterDimensionNumbersAttr numbers =
      op.getScatterDimensionNumbers();
  auto type = cast<RankedTensorType>(op.getInputs()[0].getType());
  auto indices = cast<RankedTensorType>(op.getScatterIndices().getType());
  ArrayRef<int64_t> placed = numbers.getScatterDimsToOperandDims();
  ArrayRef<int64_t> rows = numbers.getInputBatchingDims();
  if (placed.size() != 1 || !numbers.getUpdateWindowDims().empty() ||
      placed != numbers.getInsertedWindowDims() ||
      int64_t(rows.size()) + 1 != type.getRank() || !llvm::is_sorted(rows) ||
      !llvm::is_sorted(numbers.getScatterIndicesBatchingDims()))
    return -1;
  int64_t elements = 1;
  for (int64_t d : rows)
    elements *= type.getDimSize(d);
  unsigned bits = indices.getElementTypeBitWidth() -
                  (stablehlo::hasUnsignedElements(indices) ? 0 : 1);
  bool holdsPlaces = bits >= 31 || type.getDimSize(placed[0]) <= int64_t(1)
                                                                     << bits;
  return indices.getNumElements() == elements && holdsPlaces ? placed[0] : -1;
}

static FailureOr<SmallVector<Value>> expandScatter(ImplicitLocOpBuilder &b,
                                                   Operation *op) {
  auto scatter = cast<stablehlo::ScatterOp>(op);
  Value input = scatter.getInputs()[0];
  auto type = cast<RankedTensorType>(input.getType());
  ArrayRef<int64_t> rows =
      scatter.getScatterDimensionNumbers().getInputBatchingDims();
  SmallVector<int64_t> shape;
  for (int64_t d : rows)
    shape.push_back(type.getDimSize(d));
  auto spread = [&](Value value) -> Value {
    auto element = cast<RankedTensorType>(value.getType()).getElementType();
    value = stablehlo::ReshapeOp::create(
        b, RankedTensorType::get(shape, element), value);
    return stablehlo::BroadcastInDimOp::create(b, type.clone(element), value,
                                               rows);
  };
  Value wanted = spread(scatter.getScatterIndices());
  Value place =
      stablehlo::IotaOp::create(b, wanted.getType(), getPlacedDim(scatter));
  Value isPlace = stablehlo::CompareOp::create(
      b, place, wanted, stablehlo::ComparisonDirection::EQ);
  Value sum =
      stablehlo::AddOp::create(b, type, input, spread(scatter.getUpdates()[0]));
  return SmallVector<Value>{
      stablehlo::SelectOp::create(b, type, isPlace, sum, input)};
}

static bool addsOneElementPerRow(Operation *op) {
  auto scatter = dyn_cast<stablehlo::ScatterOp>(op);
  return scatter && scatter.getInputs().size() == 1 &&
         isSplat(scatter.getInputs()[0]) &&
         stablehlo::isSum(scatter.getUpdateComputation()) &&
         getPlacedDim(scatter) >= 0;
}

namespace {
struct ExpandScattersPass
    : scalify::impl::ExpandScattersBase<ExpandScattersPass> {
  void runOnOperation() override;
};
} // namespace

void ExpandScattersPass::runOnOperation() {
  auto count = expandOps(getOperation(), addsOneElementPerRow, expandScatter);
  if (failed(count))
    return signalPassFailure();
  numExpanded += *count;
}
