//===- Locations.h - Names in JAX's locations -------------------*- C++ -*-===//

#ifndef SCALIFY_IMPORT_LOCATIONS_H
#define SCALIFY_IMPORT_LOCATIONS_H

#include "mlir/IR/Location.h"

#include <string>

namespace scalify {

/// The stack of names under which JAX traced an op, outermost first and joined
/// by '/', such as `jit(step)/transpose(jvp())/silu/mul`. An inlined op has its
/// callers' names before its own. Empty where the location holds no name.
std::string getNameStack(mlir::Location location);

/// The innermost place in a file: the line of the user's program that called
/// JAX, or the place in the text. Null where the location holds none.
mlir::FileLineColLoc getFileLocation(mlir::Location location);

/// `file:line:column (stack of JAX names)`, or the part of it that there is:
/// how diagnostics, the report and the artefact name an op.
std::string describeLocation(mlir::Location location);

} // namespace scalify

#endif // SCALIFY_IMPORT_LOCATIONS_H
