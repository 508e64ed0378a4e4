//===- StaticIndices.h - Indices that are known -----------------*- C++ -*-===//
//
// In an iteration that stands by itself the counter is a constant, and so is
// what is computed from it: a dynamic slice becomes a slice, and a slice of a
// stack becomes the value that was put there.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_IMPORT_STATICINDICES_H
#define SCALIFY_IMPORT_STATICINDICES_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "mlir/Rewrite/PatternApplicator.h"

namespace scalify {

/// Folds ops one by one, in program order: linear in the ops, where a greedy
/// driver would visit the users of users.
class IndexFolder : mlir::RewriterBase::Listener {
public:
  explicit IndexFolder(mlir::MLIRContext *context);

  /// Folds `op`, whose operands are folded already, as far as it goes. Its
  /// users see what replaces it; returned are the values in place of its
  /// results.
  llvm::SmallVector<mlir::Value> fold(mlir::Operation *op);

private:
  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint from) override;
  void notifyOperationErased(mlir::Operation *op) override;
  void notifyOperationReplaced(mlir::Operation *op,
                               mlir::ValueRange values) override;

  mlir::FrozenRewritePatternSet patterns;
  mlir::PatternApplicator applicator;
  mlir::PatternRewriter rewriter;
  llvm::SmallVector<mlir::Operation *> inserted, pending;
  llvm::SmallVector<mlir::Value> values;
};

/// Where a dynamic_update_slice writes, if that is known.
std::optional<llvm::SmallVector<int64_t>>
getStarts(stablehlo::DynamicUpdateSliceOp op);

} // namespace scalify

#endif // SCALIFY_IMPORT_STATICINDICES_H
