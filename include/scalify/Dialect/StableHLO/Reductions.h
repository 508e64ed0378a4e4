//===- Reductions.h - Reductions by one op ----------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_REDUCTIONS_H
#define SCALIFY_DIALECT_STABLEHLO_REDUCTIONS_H

#include "scalify/Dialect/StableHLO/Values.h"

#include "mlir/IR/TypeUtilities.h"

namespace scalify::stablehlo {

/// On a reduction over the first dimension that holds the contributions of
/// ranks, and on the cast that rounds its result. Elements are reduced in order
/// on every machine, and as soon as all are available, since until then all are
/// in memory.
inline constexpr llvm::StringLiteral kInOrderAttr = "scalify.in_order";

/// True if the init value is neutral in a reduction of one tensor by this
/// region: combining it once more changes nothing.
bool hasNeutralInit(mlir::Region &reducer, mlir::ValueRange inits);
inline bool hasNeutralInit(ReduceOp reduce) {
  return hasNeutralInit(reduce.getBody(), reduce.getInitValues());
}

/// True if the region of a reduction only adds its two arguments.
bool isSum(mlir::Region &reducer);

/// True if neither the order of the elements nor partial reductions from the
/// init value change a bit of the result: maxima, sums of integers.
bool isOrderFree(ReduceOp reduce);

/// Fills the empty region of a reduction with `Op`, such as MaxOp, on scalars.
template <typename Op>
void buildReducer(mlir::OpBuilder &builder, mlir::Location loc,
                  mlir::Region &region, mlir::Type element) {
  mlir::OpBuilder::InsertionGuard guard(builder);
  auto scalar = mlir::RankedTensorType::get({}, element);
  mlir::Block *body =
      builder.createBlock(&region, {}, {scalar, scalar}, {loc, loc});
  mlir::Value result =
      Op::create(builder, loc, body->getArgument(0), body->getArgument(1));
  ReturnOp::create(builder, loc, result);
}

/// Reduces `value` over `dims` by `Op`, such as MaxOp, from the rank-0 `init`.
template <typename Op>
mlir::Value buildReduce(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value value, mlir::Value init,
                        llvm::ArrayRef<int64_t> dims) {
  auto reduce = ReduceOp::create(builder, loc, value, init, dims);
  buildReducer<Op>(builder, loc, reduce.getBody(),
                   mlir::getElementTypeOrSelf(init));
  return reduce->getResult(0);
}

/// Builds the maximum over `dims` of F32 that are not negative.
inline mlir::Value buildMaximum(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value value,
                                llvm::ArrayRef<int64_t> dims) {
  mlir::Value zero = buildScalar(builder, loc, 0.0f);
  return buildReduce<MaxOp>(builder, loc, value, zero, dims);
}

/// Builds the maximum over all dimensions from `first` on.
inline mlir::Value buildMaximum(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value value, int64_t first = 0) {
  return buildMaximum(
      builder, loc, value,
      llvm::to_vector(llvm::seq<int64_t>(first, typeOf(value).getRank())));
}

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_REDUCTIONS_H
