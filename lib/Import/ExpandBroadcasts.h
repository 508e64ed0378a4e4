//===- ExpandBroadcasts.h - chlo ops that broadcast -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_EXPANDBROADCASTS_H
#define SCALIFY_LIB_IMPORT_EXPANDBROADCASTS_H

#include "mlir/IR/PatternMatch.h"

namespace scalify::import {

/// Adds the expansions of `chlo.broadcast_*` into broadcasts and the op of
/// equal shapes, and of chlo's constants. Shapes must be static.
void populateBroadcastExpansions(mlir::RewritePatternSet &patterns);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_EXPANDBROADCASTS_H
