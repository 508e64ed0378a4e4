//===- ScalifyQueries.h - What values say of themselves ---------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_SCALIFYQUERIES_H
#define SCALIFY_DIALECT_SCALIFY_SCALIFYQUERIES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

#include <optional>
#include <string>

namespace scalify {

/// How an argument of a function is called in reports and diagnostics: its
/// `scalify.name`, or `argN`.
std::string getArgumentName(mlir::BlockArgument argument);

/// An attribute of a function's argument; null if the value is none, or has
/// none of that name.
mlir::Attribute getArgumentAttr(mlir::Value value, llvm::StringRef name);

/// The phase of the step that an op is of; one that says nothing is of the
/// forward.
llvm::StringRef getPhase(mlir::Operation *op);

/// log2 of a constant scale; none for one that the step measures.
std::optional<int64_t> getScaleExponent(mlir::Value scale);

/// The largest finite magnitude of a format.
double getLargestFinite(mlir::FloatType format);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_SCALIFYQUERIES_H
