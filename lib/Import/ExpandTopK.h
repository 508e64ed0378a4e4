//===- ExpandTopK.h - The largest elements by a sort ------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_EXPANDTOPK_H
#define SCALIFY_LIB_IMPORT_EXPANDTOPK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace scalify::import {

/// Writes chlo.top_k as a stable sort and two slices.
void populateTopKExpansion(mlir::RewritePatternSet &patterns);

/// Writes every call of `ApproxTopK` (jax.lax.approx_max_k) in a function as a
/// sort, which is exact. The comparators become private functions.
llvm::LogicalResult expandApproxTopK(mlir::func::FuncOp function,
                                     mlir::SymbolTable &symbols);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_EXPANDTOPK_H
