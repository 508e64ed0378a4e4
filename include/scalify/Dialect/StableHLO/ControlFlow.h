//===- ControlFlow.h - What loops and branches do to values -----*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_CONTROLFLOW_H
#define SCALIFY_DIALECT_STABLEHLO_CONTROLFLOW_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <optional>

namespace scalify::stablehlo {

/// Whether the op runs its regions as code of the program: while, case, if, and
/// the manual computation of a sharded program.
/// The bodies of reductions and their like belong to their op instead.
bool isControlFlow(mlir::Operation *op);

/// Whether the op is code of a function, if only inside of loops and branches.
bool isProgramCode(mlir::Operation *op);

/// How often a loop runs, where a counter tells: it starts from a constant,
/// is compared with a constant, and moves by a constant.
std::optional<int64_t> getTripCount(WhileOp loop);

/// Whether the body returns carry `index` as it came.
bool isInvariantCarry(WhileOp loop, unsigned index);

/// Where the body writes slices of a carry and reads nothing of it: the value
/// written in each iteration, as in the stacked results of a scan. Else null.
mlir::Value getStackedUpdate(WhileOp loop, unsigned index);

/// The values that hold what a use takes: the results of its op, and across
/// the borders of loops and branches their results and arguments.
llvm::SmallVector<mlir::Value> getFollowers(mlir::OpOperand &use);

/// What of an op or of the regions above an argument or a result of control
/// flow takes its value from: the other way round. Of other ops the operands.
llvm::SmallVector<mlir::Value> getSources(mlir::Value value);

/// The loop or branches again with more operands and results, for which its
/// regions are prepared already. The old op is erased, or taken out and given
/// away: then no new value has the address of one of its results, by which maps
/// may know them.
mlir::Operation *
extendControlFlow(mlir::Operation *op, mlir::ValueRange operands,
                  mlir::TypeRange types,
                  mlir::OwningOpRef<mlir::Operation *> *replaced = nullptr);

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_CONTROLFLOW_H
