//===- ControlFlow.h - Data flow through loops and branches -----*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_CONTROLFLOW_H
#define SCALIFY_DIALECT_STABLEHLO_CONTROLFLOW_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <optional>

namespace scalify::stablehlo {

/// True if the op's regions are code of the program: while, case, if, and the
/// manual computation of a sharded program. Bodies of reductions and similar
/// ops belong to their op instead.
bool isControlFlow(mlir::Operation *op);

/// True if the op belongs to a function, directly or in loops and branches.
bool isProgramCode(mlir::Operation *op);

/// Returns the trip count of a loop with a counter that starts from a constant,
/// is compared with a constant, and changes by a constant.
std::optional<int64_t> getTripCount(WhileOp loop);

/// Returns the constant that is added to a carry, given as the argument of a
/// loop's body, to make its next value.
std::optional<int64_t> getCarryStep(mlir::Value carry, mlir::Value next);

/// Returns the ops of all iterations of a loop and of the loops in it, as far
/// as their trip counts are known; at most 2^40.
int64_t countUnrolledOps(WhileOp loop);

/// True if the body returns carry `index` unchanged.
bool isInvariantCarry(WhileOp loop, unsigned index);

/// Returns the value that each iteration writes to a slice of a carry, as in
/// the stacked results of a scan; null if the body also reads the carry, or
/// does not write it so.
mlir::Value getStackedUpdate(WhileOp loop, unsigned index);

/// Returns the values that a use flows into: the results of its op, and across
/// the boundaries of loops and branches their results and arguments.
llvm::SmallVector<mlir::Value> getFollowers(mlir::OpOperand &use);

/// The reverse: returns the values that flow into an argument or a result of
/// control flow; for other ops, the operands.
llvm::SmallVector<mlir::Value> getSources(mlir::Value value);

/// Rebuilds a loop or branches with more operands and results, for which the
/// regions are already prepared. The old op is erased, or removed and returned
/// in `replaced`: then no new value has the address of one of its results,
/// which may be keys of maps.
mlir::Operation *
extendControlFlow(mlir::Operation *op, mlir::ValueRange operands,
                  mlir::TypeRange types,
                  mlir::OwningOpRef<mlir::Operation *> *replaced = nullptr);

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_CONTROLFLOW_H
