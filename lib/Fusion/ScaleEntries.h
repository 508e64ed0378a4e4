//===- ScaleEntries.h - Scales of casts in a plan ---------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_SCALEENTRIES_H
#define SCALIFY_LIB_FUSION_SCALEENTRIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// On a cast or its inverse: which entry of the scales its scale is, an i64.
inline constexpr llvm::StringLiteral kScaleEntryAttr = "plan.scale_entry";
/// On the multiply of a dot's result by the scale of an operand.
inline constexpr llvm::StringLiteral kOperandScaleAttr = "plan.operand_scale";

/// Gives the casts that read an entry of the scales the constant that it
/// starts from, marked with the entry, and makes equal constant scales one. So
/// a step is planned alike whether its scales are constants or an argument,
/// and computes the same bits.
void shareScales(mlir::func::FuncOp function);

/// The index of the argument that holds the scales of casts, or -1.
int64_t findScalesArgument(mlir::func::FuncOp function);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_SCALEENTRIES_H
