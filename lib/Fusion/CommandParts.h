//===- CommandParts.h - Attributes of a cluster's command -------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_COMMANDPARTS_H
#define SCALIFY_LIB_FUSION_COMMANDPARTS_H

#include "Clusters.h"

namespace scalify {

/// Gives `command` the task of the cluster and the phase of `first`, or else
/// that of the cluster.
void copyPhase(const Cluster &cluster, mlir::Operation *first,
               mlir::Operation *command);

/// Returns a readable name: the last ops of the cluster.
std::string nameOf(const Cluster &cluster);

/// True if dividing by `scale` equals multiplying by its reciprocal, bit for
/// bit: it is a power of two, as a constant or as the masked bits of an
/// exponent.
bool hasExactReciprocal(mlir::Value scale);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_COMMANDPARTS_H
