//===- CHLOOps.cpp - Types of chlo ops ------------------------------------===//

#include "../StableHLO/Verification.h"

#include "scalify/Dialect/CHLO/CHLO.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::chlo;

// The unary ops differ only in their names.
#define DEFINE_UNARY(Op, RESULT)                                               \
  LogicalResult Op::inferReturnTypes(MLIRContext *context,                     \
                                     std::optional<Location>, Adaptor adaptor, \
                                     SmallVectorImpl<Type> &types) {           \
    auto type = cast<RankedTensorType>(adaptor.getOperand().getType());        \
    types.push_back(RESULT);                                                   \
    return success();                                                          \
  }

DEFINE_UNARY(AcosOp, type)
DEFINE_UNARY(AcoshOp, type)
DEFINE_UNARY(AsinOp, type)
DEFINE_UNARY(AsinhOp, type)
DEFINE_UNARY(AtanOp, type)
DEFINE_UNARY(AtanhOp, type)
DEFINE_UNARY(BesselI1eOp, type)
DEFINE_UNARY(ConjOp, type)
DEFINE_UNARY(CoshOp, type)
DEFINE_UNARY(DigammaOp, type)
DEFINE_UNARY(ErfInvOp, type)
DEFINE_UNARY(ErfOp, type)
DEFINE_UNARY(ErfcOp, type)
DEFINE_UNARY(LgammaOp, type)
DEFINE_UNARY(SinhOp, type)
DEFINE_UNARY(SquareOp, type)
DEFINE_UNARY(TanOp, type)
DEFINE_UNARY(IsInfOp, type.clone(IntegerType::get(context, 1)))
DEFINE_UNARY(IsNegInfOp, type.clone(IntegerType::get(context, 1)))
DEFINE_UNARY(IsPosInfOp, type.clone(IntegerType::get(context, 1)))
#undef DEFINE_UNARY

LogicalResult TopKOp::inferReturnTypes(MLIRContext *context,
                                       std::optional<Location> location,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  int64_t k = adaptor.getK();
  if (operand.getRank() == 0)
    return emitOptionalError(location, "'", getOperationName(),
                             "' op needs a tensor of rank 1 or more");
  SmallVector<int64_t> shape(operand.getShape());
  if (ShapedType::isStatic(shape.back()) && shape.back() < k)
    return emitOptionalError(location, "'", getOperationName(), "' op takes ",
                             k, " of the ", shape.back(),
                             " elements in the last dimension");
  shape.back() = k;
  types.push_back(operand.clone(shape));
  types.push_back(operand.clone(shape, IntegerType::get(context, 32)));
  return success();
}

/// Checks that the dimensions of each list are in range, and each in one list
/// only.
static LogicalResult checkRaggedDims(RaggedDotOp op) {
  RaggedDotDimensionNumbersAttr dims = op.getRaggedDotDimensionNumbers();
  auto check = [&](StringRef what, Value value,
                   std::initializer_list<ArrayRef<int64_t>> lists) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> all;
    for (ArrayRef<int64_t> list : lists)
      llvm::append_range(all, list);
    return stablehlo::checkDims(op.getLoc(), op.getOperationName(), what, all,
                                type.getRank());
  };
  if (failed(check("lhs batching or contracting dimension", op.getLhs(),
                   {dims.getLhsBatchingDimensions(),
                    dims.getLhsContractingDimensions()})) ||
      failed(check("lhs ragged dimension", op.getLhs(),
                   {dims.getLhsRaggedDimensions()})))
    return failure();
  return check("rhs batching, contracting or group dimension", op.getRhs(),
               {dims.getRhsBatchingDimensions(),
                dims.getRhsContractingDimensions(),
                dims.getRhsGroupDimensions()});
}

/// Checks that the sizes of paired dimensions agree.
static LogicalResult checkRaggedPairs(RaggedDotOp op, StringRef what,
                                      ArrayRef<int64_t> lhsDims,
                                      ArrayRef<int64_t> rhsDims) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType());
  auto rhs = cast<RankedTensorType>(op.getRhs().getType());
  if (lhsDims.size() != rhsDims.size())
    return op.emitOpError()
           << "needs as many lhs as rhs " << what << " dimensions but got "
           << lhsDims.size() << " and " << rhsDims.size();
  for (auto [l, r] : llvm::zip(lhsDims, rhsDims))
    if (!stablehlo::sizesAgree(lhs.getDimSize(l), rhs.getDimSize(r)))
      return op.emitOpError()
             << "needs equal sizes in " << what << " dimensions but got "
             << lhs.getDimSize(l) << " in dimension " << l << " of " << lhs
             << " and " << rhs.getDimSize(r) << " in dimension " << r << " of "
             << rhs;
  return success();
}

/// The result: the groups if they sum over the ragged dimension, then batch,
/// the free dimensions of lhs, and those of rhs.
static SmallVector<int64_t> raggedShape(RaggedDotOp op) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType());
  auto rhs = cast<RankedTensorType>(op.getRhs().getType());
  auto sizes = cast<RankedTensorType>(op.getGroupSizes().getType());
  RaggedDotDimensionNumbersAttr dims = op.getRaggedDotDimensionNumbers();
  SmallVector<int64_t> shape;
  auto add = [&](RankedTensorType type, ArrayRef<int64_t> batch,
                 ArrayRef<int64_t> summed, ArrayRef<int64_t> groups) {
    for (auto [dim, size] : llvm::enumerate(type.getShape()))
      if (int64_t d = dim; !llvm::is_contained(batch, d) &&
                           !llvm::is_contained(summed, d) &&
                           !llvm::is_contained(groups, d))
        shape.push_back(size);
  };
  if (llvm::is_contained(dims.getLhsContractingDimensions(),
                         dims.getLhsRaggedDimensions().front()))
    shape.push_back(sizes.getShape().back());
  for (int64_t dim : dims.getLhsBatchingDimensions())
    shape.push_back(lhs.getDimSize(dim));
  add(lhs, dims.getLhsBatchingDimensions(), dims.getLhsContractingDimensions(),
      {});
  add(rhs, dims.getRhsBatchingDimensions(), dims.getRhsContractingDimensions(),
      dims.getRhsGroupDimensions());
  return shape;
}

LogicalResult RaggedDotOp::verify() {
  RaggedDotDimensionNumbersAttr dims = getRaggedDotDimensionNumbers();
  if (dims.getLhsRaggedDimensions().size() != 1)
    return emitOpError() << "needs one ragged dimension but got "
                         << dims.getLhsRaggedDimensions().size();
  if (dims.getRhsGroupDimensions().size() > 1)
    return emitOpError() << "needs at most one group dimension but got "
                         << dims.getRhsGroupDimensions().size();
  if (failed(checkRaggedDims(*this)) ||
      failed(checkRaggedPairs(*this, "batching",
                              dims.getLhsBatchingDimensions(),
                              dims.getRhsBatchingDimensions())) ||
      failed(checkRaggedPairs(*this, "contracting",
                              dims.getLhsContractingDimensions(),
                              dims.getRhsContractingDimensions())) ||
      failed(stablehlo::checkPrecisions(*this, getPrecisionConfig())))
    return failure();
  auto sizes = cast<RankedTensorType>(getGroupSizes().getType());
  if (sizes.getRank() == 0)
    return emitOpError() << "needs group sizes of rank 1 or more but got "
                         << sizes;
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  for (int64_t dim : dims.getRhsGroupDimensions())
    if (!stablehlo::sizesAgree(rhs.getDimSize(dim), sizes.getShape().back()))
      return emitOpError() << "needs one size per group in dimension " << dim
                           << " of " << rhs << " but got " << sizes;
  return stablehlo::checkResultShape(*this, raggedShape(*this),
                                     cast<RankedTensorType>(getType()));
}

/// Checks that operands broadcast to the result as NumPy's do, or where
/// `places` says for those of lower rank.
static LogicalResult checkBroadcasts(Operation *op,
                                     std::optional<ArrayRef<int64_t>> places) {
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  for (Type type : op->getOperandTypes()) {
    auto operand = cast<RankedTensorType>(type);
    int64_t first = result.getRank() - operand.getRank();
    if (first < 0)
      return op->emitOpError() << "cannot broadcast " << operand << " to "
                               << result << " of lower rank";
    auto dims =
        first > 0 && places
            ? llvm::to_vector(*places)
            : llvm::to_vector(llvm::seq<int64_t>(first, result.getRank()));
    if (failed(stablehlo::checkBroadcast(
            op, operand, dims, result.clone(operand.getElementType()))))
      return failure();
  }
  return success();
}

#define DEFINE_BROADCAST(Op)                                                   \
  LogicalResult Op::verify() {                                                 \
    return checkBroadcasts(*this, getBroadcastDimensions());                   \
  }

DEFINE_BROADCAST(BroadcastAddOp)
DEFINE_BROADCAST(BroadcastAndOp)
DEFINE_BROADCAST(BroadcastAtan2Op)
DEFINE_BROADCAST(BroadcastComplexOp)
DEFINE_BROADCAST(BroadcastDivOp)
DEFINE_BROADCAST(BroadcastMaxOp)
DEFINE_BROADCAST(BroadcastMinOp)
DEFINE_BROADCAST(BroadcastMulOp)
DEFINE_BROADCAST(BroadcastNextAfterOp)
DEFINE_BROADCAST(BroadcastOrOp)
DEFINE_BROADCAST(BroadcastPolygammaOp)
DEFINE_BROADCAST(BroadcastPowOp)
DEFINE_BROADCAST(BroadcastRemOp)
DEFINE_BROADCAST(BroadcastShiftLeftOp)
DEFINE_BROADCAST(BroadcastShiftRightArithmeticOp)
DEFINE_BROADCAST(BroadcastShiftRightLogicalOp)
DEFINE_BROADCAST(BroadcastSubOp)
DEFINE_BROADCAST(BroadcastXorOp)
DEFINE_BROADCAST(BroadcastZetaOp)
#undef DEFINE_BROADCAST

LogicalResult BroadcastSelectOp::verify() {
  return checkBroadcasts(*this, std::nullopt);
}

LogicalResult ConstantLikeOp::verify() {
  auto value = cast<TypedAttr>(getValue());
  Type element = cast<RankedTensorType>(getType()).getElementType();
  if (value.getType() != element)
    return emitOpError() << "needs a value of type " << element << " but got "
                         << value;
  return success();
}

void ConstantOp::build(OpBuilder &builder, OperationState &state,
                       ElementsAttr value) {
  build(builder, state, cast<RankedTensorType>(value.getType()), value);
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

#define GET_OP_CLASSES
#include "scalify/Dialect/CHLO/CHLOOps.cpp.inc"
