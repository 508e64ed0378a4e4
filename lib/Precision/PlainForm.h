//===- PlainForm.h - What is decided on a step's plain form -----*- C++ -*-===//
//
// The plain form of a step has its loops written out and computes nothing
// twice: one form for a scan, for layers written one after the other, and for
// either under a checkpoint. The decisions of delayed scaling are made on it,
// so that they do not depend on how the step was written.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_PRECISION_PLAINFORM_H
#define SCALIFY_LIB_PRECISION_PLAINFORM_H

#include "mlir/IR/Operation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace scalify {

class Caster;

/// On a function: decisions of its plain form are on its dots.
inline constexpr llvm::StringLiteral kPlainFormAttr = "scalify.plain_form";
/// On a dot: log2 of the scales of its operands in the plain form.
inline constexpr llvm::StringLiteral kPlainScalesAttr = "scalify.plain_scales";
/// On a dot that a model keeps from FP8 in the plain form: the part of the
/// recipe that says so, and the model's figures.
inline constexpr llvm::StringLiteral kPlainDecisionAttr =
    "scalify.plain_decision";
/// On a dot: its role in the plain form.
inline constexpr llvm::StringLiteral kPlainRoleAttr = "scalify.plain_role";
/// On a dot: the number of those that are decided together.
inline constexpr llvm::StringLiteral kPlainClassAttr = "scalify.plain_class";

/// Puts the scales of the plain form in place of those that the operands of
/// dots have in this one.
void applyPlainScales(mlir::FunctionOpInterface func, Caster &caster);
/// Takes the marks away.
void dropPlainForm(mlir::FunctionOpInterface func);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_PLAINFORM_H
