//===- ExpandTopK.h - chlo.top_k by a sort ----------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_EXPANDTOPK_H
#define SCALIFY_LIB_IMPORT_EXPANDTOPK_H

#include "mlir/IR/PatternMatch.h"

namespace scalify::import {

/// Writes chlo.top_k as a stable sort and two slices.
void populateTopKExpansion(mlir::RewritePatternSet &patterns);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_EXPANDTOPK_H
