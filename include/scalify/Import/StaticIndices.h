//===- StaticIndices.h - Fold constant indices ------------------*- C++ -*-===//
//
// In an unrolled iteration the induction variable is a constant, and so are the
// values computed from it: a dynamic slice becomes a slice, and a slice of a
// stack becomes the value that was written there.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_IMPORT_STATICINDICES_H
#define SCALIFY_IMPORT_STATICINDICES_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "mlir/Rewrite/PatternApplicator.h"

namespace scalify {

/// Folds ops one by one, in program order. This is linear in the number of ops;
/// a greedy driver would revisit users of users.
class IndexFolder : mlir::RewriterBase::Listener {
public:
  explicit IndexFolder(mlir::MLIRContext *context);

  /// Folds `op`, whose operands must be folded already, repeatedly, and
  /// replaces its uses. Returns the values that replace its results.
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

/// Returns the indices at which a dynamic_update_slice writes, if known.
std::optional<llvm::SmallVector<int64_t>>
getStarts(stablehlo::DynamicUpdateSliceOp op);

} // namespace scalify

#endif // SCALIFY_IMPORT_STATICINDICES_H
