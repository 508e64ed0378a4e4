//===- ExpandUpdates.cpp - Updates of slices in place as scatters ---------===//
//
// A kernel of a `dynamic_update_slice` stores every element of its result. A
// scatter works in the memory of its input, and stores the update alone. A loop
// that writes one slice of a stack per iteration needs that.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDUPDATES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::DynamicUpdateSliceOp;

/// Returns the dimensions in which the update is smaller than its operand.
static SmallVector<int64_t> getSlicedDims(DynamicUpdateSliceOp op) {
  SmallVector<int64_t> dims;
  for (auto [dim, sizes] :
       llvm::enumerate(llvm::zip_equal(typeOf(op.getUpdate()).getShape(),
                                       typeOf(op.getOperand()).getShape())))
    if (std::get<0>(sizes) != std::get<1>(sizes))
      dims.push_back(static_cast<int64_t>(dim));
  return dims;
}

/// Returns the index vector: the starts of the sliced dimensions, within the
/// bounds that keep the update inside, as the op itself moves them.
static Value clampStarts(ImplicitLocOpBuilder &b, DynamicUpdateSliceOp op,
                         ArrayRef<int64_t> dims) {
  SmallVector<Value> starts;
  for (int64_t dim : dims) {
    Value start = op.getStartIndices()[dim];
    auto type = cast<RankedTensorType>(start.getType());
    unsigned bits = type.getElementTypeBitWidth();
    int64_t room = typeOf(op.getOperand()).getDimSize(dim) -
                   typeOf(op.getUpdate()).getDimSize(dim);
    // A start cannot be more than its type holds.
    if (bits < 64)
      room = std::min(room, type.getElementType().isUnsignedInteger()
                                ? int64_t(llvm::maxUIntN(bits))
                                : llvm::maxIntN(bits));
    auto constant = [&](int64_t number) {
      return stablehlo::buildConstant(
          b, type, b.getIntegerAttr(type.getElementType(), number));
    };
    Value inside =
        stablehlo::ClampOp::create(b, type, constant(0), start, constant(room));
    starts.push_back(stablehlo::ReshapeOp::create(b, type.clone({1}), inside));
  }
  if (starts.size() == 1)
    return starts.front();
  return stablehlo::ConcatenateOp::create(b, starts, 0);
}

static FailureOr<SmallVector<Value>> expandUpdate(ImplicitLocOpBuilder &b,
                                                  Operation *op) {
  auto update = cast<DynamicUpdateSliceOp>(op);
  SmallVector<int64_t> dims = getSlicedDims(update);
  Value indices = clampStarts(b, update, dims);
  Value input = update.getOperand(), part = update.getUpdate();
  SmallVector<int64_t> all =
      llvm::to_vector(llvm::seq<int64_t>(0, typeOf(part).getRank()));
  auto numbers = stablehlo::ScatterDimensionNumbersAttr::get(
      b.getContext(), all, {}, {}, {}, dims, 0);
  auto scatter = stablehlo::ScatterOp::create(
      b, TypeRange{input.getType()}, ValueRange{input}, indices,
      ValueRange{part}, numbers, b.getBoolAttr(true), b.getBoolAttr(true));
  Block &body = scatter.getUpdateComputation().emplaceBlock();
  auto element = RankedTensorType::get({}, typeOf(part).getElementType());
  body.addArguments({element, element}, {b.getLoc(), b.getLoc()});
  OpBuilder inner = OpBuilder::atBlockEnd(&body);
  stablehlo::ReturnOp::create(inner, b.getLoc(), body.getArgument(1));
  return SmallVector<Value>{scatter.getResult(0)};
}

namespace {
struct ExpandUpdatesPass : scalify::impl::ExpandUpdatesBase<ExpandUpdatesPass> {
  void runOnOperation() override;
};
} // namespace

void ExpandUpdatesPass::runOnOperation() {
  func::FuncOp function = getOperation();
  llvm::DenseSet<Operation *> chosen;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    OpOperand *next = getNextValue(function, i);
    if (!next)
      continue;
    // A result that a chain of updates makes from its own argument.
    SmallVector<Operation *> chain;
    Value value = next->get();
    while (auto update = value.getDefiningOp<DynamicUpdateSliceOp>()) {
      if (!update->hasOneUse() || getSlicedDims(update).empty())
        break;
      chain.push_back(update);
      value = update.getOperand();
    }
    if (value == function.getArgument(i))
      chosen.insert(chain.begin(), chain.end());
  }
  auto count = expandOps(
      function, [&](Operation *op) { return chosen.contains(op); },
      expandUpdate);
  if (failed(count))
    return signalPassFailure();
  numExpanded += *count;
}
