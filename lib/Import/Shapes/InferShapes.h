//===- InferShapes.h - Types of results from those of operands --*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_SHAPES_INFERSHAPES_H
#define SCALIFY_LIB_IMPORT_SHAPES_INFERSHAPES_H

#include "mlir/IR/Operation.h"

namespace scalify::import {

/// Sets the types of the results that follow from the types of the operands,
/// and from operands that are constant shapes. Emits an error if they disagree
/// with what the program says. Ops with loops and branches are left to the
/// caller.
llvm::LogicalResult inferShapes(mlir::Operation *op);

/// Sets the shape of a value. Emits an error on `op` if the value's type has
/// another one.
llvm::LogicalResult setShape(mlir::Operation *op, mlir::Value value,
                             llvm::ArrayRef<int64_t> shape);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_SHAPES_INFERSHAPES_H
