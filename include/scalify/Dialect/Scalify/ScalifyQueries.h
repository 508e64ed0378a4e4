//===- ScalifyQueries.h - What values say of themselves ---------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_SCALIFYQUERIES_H
#define SCALIFY_DIALECT_SCALIFY_SCALIFYQUERIES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include <optional>
#include <string>

namespace scalify {

/// How an argument of a function is called in reports and diagnostics: its
/// `scalify.name`, or `argN`.
std::string getArgumentName(mlir::BlockArgument argument);

/// An attribute of a function's argument; null if the value is none, or has
/// none of that name.
mlir::Attribute getArgumentAttr(mlir::Value value, llvm::StringRef name);

/// The role of a function's argument; null if nothing says it.
RoleAttr getRoleAttr(mlir::FunctionOpInterface function, unsigned index);
RoleAttr getRoleAttr(mlir::Value argument);

/// Whether the attribute says one of the roles.
bool isOneOf(RoleAttr role, llvm::ArrayRef<Role> roles);

/// The phase of the step that an op is of; null if it says nothing.
PhaseAttr getPhaseAttr(mlir::Operation *op);

/// The same; an op that says nothing is of the forward.
Phase getPhase(mlir::Operation *op);

/// Whether the op says that it is of the phase.
bool isInPhase(mlir::Operation *op, Phase phase);

void setPhase(mlir::Operation *op, Phase phase);

/// How a dot on FP8 data is summed: as it says, else activations fast, and
/// gradients precisely.
Accumulation getAccumulation(mlir::Operation *dot);

/// Gives `to` the phase of `from`, if that is an op and says one.
void copyPhase(mlir::Operation *from, mlir::Operation *to);

/// Gives the phase of `op` to all between `before`, or the start of the block,
/// and `op`: to what was built in its place.
void copyPhaseToBuilt(mlir::Operation *op, mlir::Operation *before);

/// log2 of a constant scale; none for one that the step measures.
std::optional<int64_t> getScaleExponent(mlir::Value scale);

/// The largest finite magnitude of a format.
double getLargestFinite(mlir::FloatType format);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_SCALIFYQUERIES_H
