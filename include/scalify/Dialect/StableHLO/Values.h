//===- Values.h - Types of values, and constants ----------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_VALUES_H
#define SCALIFY_DIALECT_STABLEHLO_VALUES_H

#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

inline int64_t countOf(mlir::Value value) {
  return typeOf(value).getNumElements();
}

/// Returns the bytes of a value; an element takes whole bytes.
inline int64_t countBytes(mlir::Value value) {
  return countOf(value) *
         ((stablehlo::getElementBits(value.getType()) + 7) / 8);
}

namespace stablehlo {

/// Calls `visit` with each element of a constant of floats, as a double; once
/// for a splat. Constants may be data sets that a program closes over: numbers
/// of F32 and F64 are read as they are stored, since an APFloat for each of 16
/// million took two thirds of a compilation.
template <typename Visit>
void visitNumbers(mlir::DenseElementsAttr values, Visit visit) {
  mlir::Type element = values.getElementType();
  if (values.isSplat())
    visit(values.getSplatValue<llvm::APFloat>().convertToDouble());
  else if (element.isF32())
    for (float number : values.getValues<float>())
      visit(static_cast<double>(number));
  else if (element.isF64())
    for (double number : values.getValues<double>())
      visit(number);
  else
    for (const llvm::APFloat &number : values.getValues<llvm::APFloat>())
      visit(number.convertToDouble());
}

/// Builds a constant: of one number for all elements, or of one for each.
template <typename T>
ConstantOp buildConstant(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Type type, const T &values) {
  return ConstantOp::create(
      builder, loc,
      mlir::cast<mlir::ElementsAttr>(mlir::DenseElementsAttr::get(
          mlir::cast<mlir::ShapedType>(type), values)));
}
template <typename T>
ConstantOp buildConstant(mlir::ImplicitLocOpBuilder &builder, mlir::Type type,
                         const T &values) {
  return buildConstant(builder, builder.getLoc(), type, values);
}

/// Builds a tensor of floating-point elements that are all `number`, rounded.
inline ConstantOp buildNumber(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Type type, double number) {
  return buildConstant(
      builder, loc, type,
      builder.getFloatAttr(mlir::getElementTypeOrSelf(type), number));
}

/// Builds one F32.
inline ConstantOp buildScalar(mlir::OpBuilder &builder, mlir::Location loc,
                              float number) {
  return buildConstant(builder, loc,
                       mlir::RankedTensorType::get({}, builder.getF32Type()),
                       number);
}

/// Builds one I32.
inline ConstantOp buildIndex(mlir::OpBuilder &builder, mlir::Location loc,
                             int64_t number) {
  return buildConstant(builder, loc,
                       mlir::RankedTensorType::get({}, builder.getI32Type()),
                       static_cast<int32_t>(number));
}

inline ConstantOp buildZeros(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::Type type) {
  return ConstantOp::create(
      builder, loc, mlir::cast<mlir::ElementsAttr>(builder.getZeroAttr(type)));
}

/// Builds the zero of one element.
inline ConstantOp buildZero(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Type element) {
  return buildZeros(builder, loc, mlir::RankedTensorType::get({}, element));
}

} // namespace stablehlo
} // namespace scalify

#endif // SCALIFY_DIALECT_STABLEHLO_VALUES_H
