//===- PromoteReductions.h - Reductions in wider elements -------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PROMOTEREDUCTIONS_H
#define SCALIFY_LIB_IMPORT_PROMOTEREDUCTIONS_H

#include "mlir/IR/PatternMatch.h"

namespace scalify::import {

/// Adds the conversion of what a reduction reads to the elements in which its
/// region computes, those of its results.
void populateReductionPromotions(mlir::RewritePatternSet &patterns);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PROMOTEREDUCTIONS_H
