//===- Places.h - Places of ops in the source program -----------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_PLACES_H
#define SCALIFY_LIB_PRECISION_PLACES_H

#include "mlir/IR/Operation.h"

#include <string>

namespace scalify {

/// Returns the place of a location in the source program: the same for the
/// layers of a stack, in a loop or unrolled, and for values that a checkpoint
/// rematerialises. Empty if the location has no file or no names.
std::string getPlace(mlir::Location location);

/// Returns the place of a dot. A forward dot and its gradients are on one
/// source line, so types and dimension numbers are part of the place.
std::string getDotPlace(mlir::Operation *dot);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_PLACES_H
