//===- TileGroups.h - Temporaries of tile groups ----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_TILEGROUPS_H
#define SCALIFY_LIB_FUSION_TILEGROUPS_H

#include "scalify/Dialect/Plan/Plan.h"

namespace scalify {

/// Makes temporaries that only a group's commands touch, each in its tiles,
/// memory of one tile.
void shrinkTemporaries(llvm::ArrayRef<mlir::Operation *> commands,
                       int64_t tiles);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_TILEGROUPS_H
