//===- BatchDims.h - Batches of matrices ------------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_BATCHDIMS_H
#define SCALIFY_LIB_DISTRIBUTION_BATCHDIMS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <optional>

namespace scalify {

/// Returns how many leading dimensions of all operands and results number the
/// matrices on which the op works one by one: of StableHLO's solvers, and of
/// custom calls on which JAX notes it. None for other ops.
inline std::optional<int64_t> getBatchRank(mlir::Operation *op) {
  using namespace mlir;
  auto rankOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getRank();
  };
  if (isa<stablehlo::CholeskyOp, stablehlo::TriangularSolveOp>(op))
    return rankOf(op->getResult(0)) - 2;
  auto notes = op->getAttrOfType<DictionaryAttr>("mhlo.frontend_attributes");
  auto note = notes ? notes.getAs<StringAttr>("num_batch_dims") : StringAttr();
  int64_t rank = 0;
  if (!isa<stablehlo::CustomCallOp>(op) || !note ||
      note.getValue().getAsInteger(10, rank) || rank < 0)
    return std::nullopt;
  auto hasBatch = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() >= rank;
  };
  if (!llvm::all_of(op->getOperandTypes(), hasBatch) ||
      !llvm::all_of(op->getResultTypes(), hasBatch))
    return std::nullopt;
  return rank;
}

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_BATCHDIMS_H
