//===- ExpandBroadcasts.cpp - chlo ops that broadcast ---------------------===//
//
// The last dimensions of both operands belong together, as in NumPy, unless an
// attribute says where those of the operand of lower rank go.
//
//===----------------------------------------------------------------------===//

#include "ExpandBroadcasts.h"

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;

static constexpr StringLiteral kPrefix = "chlo.broadcast_";

static bool isStatic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

/// Returns `value` in the shape of `type`, or null where it does not fit.
static Value spread(OpBuilder &b, Location loc, Value value,
                    RankedTensorType type, DenseI64ArrayAttr places) {
  RankedTensorType from = typeOf(value);
  int64_t first = type.getRank() - from.getRank();
  SmallVector<int64_t> dims;
  if (first > 0 && places)
    dims.assign(places.asArrayRef().begin(), places.asArrayRef().end());
  else
    dims = llvm::to_vector(llvm::seq<int64_t>(first, type.getRank()));
  if (first < 0 || int64_t(dims.size()) != from.getRank())
    return {};
  for (auto [dim, size] : llvm::zip_equal(dims, from.getShape()))
    if (dim < 0 || dim >= type.getRank() ||
        (size != 1 && size != type.getDimSize(dim)))
      return {};
  RankedTensorType to = type.clone(from.getElementType());
  if (to == from)
    return value;
  return stablehlo::BroadcastInDimOp::create(b, loc, to, value, dims);
}

namespace {
struct ExpandBroadcast : RewritePattern {
  ExpandBroadcast(RegisteredOperationName name, MLIRContext *context)
      : RewritePattern(name.getStringRef(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!llvm::all_of(op->getOperandTypes(), isStatic) ||
        !isStatic(op->getResult(0).getType()))
      return rewriter.notifyMatchFailure(op, "a shape is not static");
    auto places = op->getAttrOfType<DenseI64ArrayAttr>("broadcast_dimensions");
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      Value whole = spread(rewriter, op->getLoc(), operand, type, places);
      if (!whole)
        return rewriter.notifyMatchFailure(op, "an operand does not fit");
      operands.push_back(whole);
    }
    StringRef plain = op->getName().getStringRef().drop_front(kPrefix.size());
    bool isOfCHLO =
        plain == "next_after" || plain == "polygamma" || plain == "zeta";
    OperationState state(op->getLoc(),
                         ((isOfCHLO ? "chlo." : "stablehlo.") + plain).str());
    state.addOperands(operands);
    state.addTypes(type);
    rewriter.replaceOp(op, rewriter.create(state));
    return success();
  }
};
} // namespace

static LogicalResult expandConstant(chlo::ConstantOp op,
                                    PatternRewriter &rewriter) {
  rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(op, op.getValue());
  return success();
}

static LogicalResult expandConstantLike(chlo::ConstantLikeOp op,
                                        PatternRewriter &rewriter) {
  auto type = cast<RankedTensorType>(op.getType());
  auto value = dyn_cast<TypedAttr>(op.getValue());
  if (!type.hasStaticShape() || !value ||
      value.getType() != type.getElementType() ||
      !isa<IntegerAttr, FloatAttr>(value))
    return rewriter.notifyMatchFailure(op, "not one number of a known shape");
  rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(
      op, DenseElementsAttr::get(type, Attribute(value)));
  return success();
}

void scalify::import::populateBroadcastExpansions(RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.getStringRef().starts_with(kPrefix))
      patterns.add<ExpandBroadcast>(name, context);
  patterns.add(expandConstant).add(expandConstantLike);
}
