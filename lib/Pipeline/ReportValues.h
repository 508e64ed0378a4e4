//===- ReportValues.h - Descriptions of one value for reports ---*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_REPORTVALUES_H
#define SCALIFY_LIB_PIPELINE_REPORTVALUES_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Returns the element type as text.
std::string getElement(mlir::Value value);
/// Returns why an argument has its scale, which no op's attribute records.
std::string explainArgument(mlir::func::FuncOp main, unsigned index);
/// True if each step measures the scale of the argument.
bool isMeasuredArgument(mlir::func::FuncOp main, unsigned index);
/// True if the initial scale of the cast depends on priors.
bool isByPrior(QuantizeOp quantize);
/// Returns `f8E4M3FN x f8E5M2 -> f32` of a dot or a convolution.
std::string describeDotFormats(mlir::Operation *dot);
/// Returns `stays wide: ...` or `not in FP8: ...`, or an empty string.
std::string getWideReason(mlir::Operation *dot);
/// True if the recipe or a pass kept the dot from narrow operands.
bool staysWide(mlir::Operation *dot);
/// Returns the rule that set a cast's scale.
std::string describeCastRule(mlir::func::FuncOp main, QuantizeOp quantize);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_REPORTVALUES_H
