//===- Locations.h - Names in JAX's locations -------------------*- C++ -*-===//

#ifndef SCALIFY_IMPORT_LOCATIONS_H
#define SCALIFY_IMPORT_LOCATIONS_H

#include "mlir/IR/Location.h"

#include <string>

namespace scalify {

/// Returns the stack of names under which JAX traced an op, outermost first and
/// joined by '/', such as `jit(step)/transpose(jvp())/silu/mul`. An inlined op
/// has its callers' names before its own. Empty if the location has no name.
std::string getNameStack(mlir::Location location);

/// Returns the innermost file location: the line of the user's program that
/// called JAX, or the line of the IR text. Null if the location has none.
mlir::FileLineColLoc getFileLocation(mlir::Location location);

/// Returns `file:line:column (stack of JAX names)`, or the part of it that the
/// location has. Diagnostics, the report and the artefact name ops so.
std::string describeLocation(mlir::Location location);

} // namespace scalify

#endif // SCALIFY_IMPORT_LOCATIONS_H
