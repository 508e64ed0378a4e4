//===- PlainForm.h - Decisions made on a step's plain form ------*- C++ -*-===//
//
// The plain form of a step has its loops unrolled and computes nothing twice. A
// scan, a sequence of layers, and either of them under a checkpoint have the
// same plain form. Delayed scaling decides on it, so that the decisions do not
// depend on how the step was written.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_PRECISION_PLAINFORM_H
#define SCALIFY_LIB_PRECISION_PLAINFORM_H

#include "mlir/IR/Operation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace scalify {

class Caster;

/// On a function whose dots carry decisions made on its plain form.
inline constexpr llvm::StringLiteral kPlainFormAttr = "scalify.plain_form";
/// On a dot: log2 of its operands' scales in the plain form.
inline constexpr llvm::StringLiteral kPlainScalesAttr = "scalify.plain_scales";
/// On a dot that a model keeps out of FP8 in the plain form: the part of the
/// recipe that decides, and the model's figures.
inline constexpr llvm::StringLiteral kPlainDecisionAttr =
    "scalify.plain_decision";
/// On a dot: the number of its class, whose dots are decided together.
inline constexpr llvm::StringLiteral kPlainClassAttr = "scalify.plain_class";

/// Returns log2 of the scale of a dot's operand, by the plain form if that has
/// one; none if the step measures it.
std::optional<int64_t> getOperandExponent(mlir::Operation *dot,
                                          unsigned operand);
/// Replaces the scales of dots' operands by those of the plain form.
void applyPlainScales(mlir::FunctionOpInterface func, Caster &caster);
/// Removes the attributes above.
void dropPlainForm(mlir::FunctionOpInterface func);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_PLAINFORM_H
