//===- ExpandScatters.cpp - Scatters of one element a row as selects ------===//
//
// A scatter works in the memory of its input, so that zeros which it adds to
// are stored first, and what reads the result is another kernel. Where each row
// of a constant gets one element, as in the gradient of a cross entropy, a
// comparison of places computes the same in any kernel, and nothing is stored.
//
//===----------------------------------------------------------------------===//

#include "scalify/Fusion/Passes.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
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

/// Whether the body adds an update to what is there.
static bool addsUpdate(stablehlo::ScatterOp op) {
  Block &body = op.getUpdateComputation().front();
  auto add = dyn_cast<stablehlo::AddOp>(body.front());
  return add && body.getTerminator()->getOperand(0) == add.getResult() &&
         ((add.getLhs() == body.getArgument(0) &&
           add.getRhs() == body.getArgument(1)) ||
          (add.getLhs() == body.getArgument(1) &&
           add.getRhs() == body.getArgument(0)));
}

/// The dimension along which a row's one element is placed, where all others
/// are rows that the indices name in order; -1 for other scatters.
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
  unsigned bits = indices.getElementTypeBitWidth();
  bool holdsPlaces = bits >= 32 || type.getDimSize(placed[0]) < 1 << (bits - 1);
  return indices.getNumElements() == elements && holdsPlaces ? placed[0] : -1;
}

static void expand(stablehlo::ScatterOp op, int64_t dim) {
  OpBuilder b(op);
  Operation *before = op->getPrevNode();
  Location loc = op.getLoc();
  Value input = op.getInputs()[0];
  auto type = cast<RankedTensorType>(input.getType());
  ArrayRef<int64_t> rows =
      op.getScatterDimensionNumbers().getInputBatchingDims();
  SmallVector<int64_t> shape;
  for (int64_t d : rows)
    shape.push_back(type.getDimSize(d));
  auto spread = [&](Value value) -> Value {
    auto element = cast<RankedTensorType>(value.getType()).getElementType();
    value = stablehlo::ReshapeOp::create(
        b, loc, RankedTensorType::get(shape, element), value);
    return stablehlo::BroadcastInDimOp::create(b, loc, type.clone(element),
                                               value, rows);
  };
  Value wanted = spread(op.getScatterIndices());
  Value place = stablehlo::IotaOp::create(b, loc, wanted.getType(), dim);
  Value isPlace = stablehlo::CompareOp::create(
      b, loc, place, wanted, stablehlo::ComparisonDirection::EQ);
  Value sum =
      stablehlo::AddOp::create(b, loc, type, input, spread(op.getUpdates()[0]));
  Value result = stablehlo::SelectOp::create(b, loc, type, isPlace, sum, input);
  if (Attribute phase = op->getAttr(kPhaseAttr))
    for (Operation *made = op->getPrevNode(); made != before;
         made = made->getPrevNode())
      made->setAttr(kPhaseAttr, phase);
  op.getResult(0).replaceAllUsesWith(result);
  op.erase();
}

namespace {
struct ExpandScattersPass
    : scalify::impl::ExpandScattersBase<ExpandScattersPass> {
  using ExpandScattersBase::ExpandScattersBase;

  void runOnOperation() override {
    Block &block = getOperation().getBody().front();
    for (auto op :
         llvm::make_early_inc_range(block.getOps<stablehlo::ScatterOp>())) {
      if (op.getInputs().size() != 1 || !isSplat(op.getInputs()[0]) ||
          !addsUpdate(op))
        continue;
      if (int64_t dim = getPlacedDim(op); dim >= 0) {
        expand(op, dim);
        ++numExpanded;
      }
    }
  }
};
} // namespace
