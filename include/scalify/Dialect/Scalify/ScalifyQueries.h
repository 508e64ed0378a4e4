//===- ScalifyQueries.h - Queries on values and ops -------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_SCALIFYQUERIES_H
#define SCALIFY_DIALECT_SCALIFY_SCALIFYQUERIES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include <optional>
#include <string>

namespace scalify {

/// Returns the name of a function's argument for reports and diagnostics: its
/// `scalify.name`, or `argN`.
std::string getArgumentName(mlir::BlockArgument argument);

/// Returns an attribute of a function's argument; null if the value is no
/// argument, or has no attribute of that name.
mlir::Attribute getArgumentAttr(mlir::Value value, llvm::StringRef name);

/// Returns the role of a function's argument; null if it has none.
RoleAttr getRoleAttr(mlir::FunctionOpInterface function, unsigned index);
RoleAttr getRoleAttr(mlir::Value argument);

/// True if the role is one of `roles`.
bool isOneOf(RoleAttr role, llvm::ArrayRef<Role> roles);

/// Returns the phase of an op; null if it has none.
PhaseAttr getPhaseAttr(mlir::Operation *op);

/// Returns the phase of an op, or the forward if it has none.
Phase getPhase(mlir::Operation *op);

/// True if the op's attribute is this phase.
bool isInPhase(mlir::Operation *op, Phase phase);

void setPhase(mlir::Operation *op, Phase phase);

/// Returns the accumulation of a dot on FP8 data: its attribute, or the default
/// of fast for the forward and precise for gradients.
Accumulation getAccumulation(mlir::Operation *dot);

/// Gives `to` the phase of `from`, if that is an op with a phase.
void copyPhase(mlir::Operation *from, mlir::Operation *to);

/// Gives the phase of `op` to all ops between `before`, or the start of the
/// block, and `op`: to those built to replace it.
void copyPhaseToInserted(mlir::Operation *op, mlir::Operation *before);

/// Returns the uses of a value by products, also through moves, conversions and
/// hints of scales.
llvm::SmallVector<mlir::OpOperand *> findProducts(mlir::Value value);

/// Returns log2 of a constant scale; none for a scale that the step measures.
std::optional<int64_t> getScaleExponent(mlir::Value scale);

/// Returns the largest finite magnitude of a format.
double getLargestFinite(mlir::FloatType format);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_SCALIFYQUERIES_H
