//===- CommandParts.h - What a command says of its cluster ------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_COMMANDPARTS_H
#define SCALIFY_LIB_FUSION_COMMANDPARTS_H

#include "Clusters.h"

namespace scalify {

/// A kernel's phase is that of the first op that it stores, if that has one.
void copyPhase(const Cluster &cluster, mlir::Operation *first,
               mlir::Operation *command);

/// The ops at the end of a cluster, as a name that people read.
std::string nameOf(const Cluster &cluster);

/// True if dividing by it is multiplying by its reciprocal, bit for bit: a
/// power of two, as one that is given or as bits of an exponent alone.
bool hasExactReciprocal(mlir::Value scale);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_COMMANDPARTS_H
