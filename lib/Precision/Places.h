//===- Places.h - Where in the program an op comes from ---------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_PLACES_H
#define SCALIFY_LIB_PRECISION_PLACES_H

#include "mlir/IR/Operation.h"

#include <string>

namespace scalify {

/// The place of the program that a location says, the same for the layers of a
/// stack, in a loop or written out, and for what a checkpoint evaluates once
/// more; empty where it says none.
std::string getPlace(mlir::Location location);

/// The place of a product. That of the forward and those of its gradients are
/// of one line: types and dimensions tell them apart.
std::string getDotPlace(mlir::Operation *dot);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_PLACES_H
