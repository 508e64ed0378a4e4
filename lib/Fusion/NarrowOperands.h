//===- NarrowOperands.h - Narrow data behind the operands of dots -*- C++ -*-=//

#ifndef SCALIFY_LIB_FUSION_NARROWOPERANDS_H
#define SCALIFY_LIB_FUSION_NARROWOPERANDS_H

#include "StridedView.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Values.h"

namespace scalify {

/// 16 bytes: in FP8 elements, the alignment of an FP8 product's strides,
/// offsets and contracting dimensions, and in F32 elements, that of its result
/// rows.
inline constexpr int64_t kFP8Alignment = 16, kRowAlignment = 4;

inline mlir::Type elementOf(mlir::Value value) {
  return typeOf(value).getElementType();
}

/// An operand of a dot, and the narrow data behind it.
struct NarrowOperand {
  mlir::Value value; // as the dot reads it, F32 or narrow
  mlir::Value data;  // the source of the views
  mlir::Value scale; // none for 1
  mlir::Attribute entry;
  llvm::SmallVector<int64_t> batch, free, sum;
  bool isWidened = false; // the value is not the data
  DequantizeOp byBlocks;  // where the data have many scales
};

/// True for ops that only move, repeat or pad data with zeros (the windows of a
/// convolution): the data of an operand are found behind them.
bool isDataView(mlir::Operation *op);

NarrowOperand getNarrowLhs(stablehlo::DotGeneralOp op);
NarrowOperand getNarrowRhs(stablehlo::DotGeneralOp op);

/// Returns the product of the extents of the operand's dimensions `dims`.
int64_t extentOf(const NarrowOperand &operand, llvm::ArrayRef<int64_t> dims);

/// True if the contracting dimension must be padded with zeros.
bool isFilled(const NarrowOperand &operand);

/// True if the library reads the operand in its present layout.
bool hasSumInnermost(const StridedView &view, const NarrowOperand &operand);

/// Pads the rows of a value with zeros to the library's alignment.
mlir::Value padRows(mlir::Value value, mlir::OpBuilder &b);

/// True if the view holds all elements of its base, contiguous in this order.
bool isWhole(const StridedView &lies, llvm::ArrayRef<int64_t> order);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_NARROWOPERANDS_H
