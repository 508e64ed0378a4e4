//===- Collectives.h - Ops that move data between devices -------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_COLLECTIVES_H
#define SCALIFY_DIALECT_STABLEHLO_COLLECTIVES_H

#include "mlir/IR/Operation.h"

namespace scalify::stablehlo {

/// True if an op moves data between devices.
bool isCollective(mlir::Operation *op);

/// Checks that a collective's ids name devices of a mesh. Without a channel, or
/// without global ids if the op supports them, they name replicas, of which the
/// program has only one.
llvm::LogicalResult checkNamesDevices(mlir::Operation *collective);

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_COLLECTIVES_H
