//===- ExpandTopK.h - Expand top-k into a sort ------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_EXPANDTOPK_H
#define SCALIFY_LIB_IMPORT_EXPANDTOPK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace scalify::import {

/// Adds the expansion of chlo.top_k into a stable sort and two slices.
void populateTopKExpansion(mlir::RewritePatternSet &patterns);

/// Replaces each call of `ApproxTopK` (jax.lax.approx_max_k) in a function by
/// an exact sort. Makes the comparators private functions.
llvm::LogicalResult expandApproxTopK(mlir::func::FuncOp function,
                                     mlir::SymbolTable &symbols);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_EXPANDTOPK_H
