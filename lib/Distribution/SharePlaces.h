//===- SharePlaces.h - Where a share lies in the whole ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_SHAREPLACES_H
#define SCALIFY_LIB_DISTRIBUTION_SHAREPLACES_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Builders.h"

#include <optional>

namespace scalify {

/// The places that elements of a share have in what a cast reads behind a
/// gather: as many to a step along each dimension as in a tensor of the shape
/// `whole`, of the first rank's first element `first`.
struct SharePlaces {
  int64_t first;
  llvm::SmallVector<int64_t> whole;

  /// None where an element's place is no sum over its index: behind a
  /// transpose, padding, or a slice within rows or by steps, and where the
  /// cast reads a part already.
  static std::optional<SharePlaces> find(stablehlo::AllGatherOp gather,
                                         QuantizeOp cast);

  /// Lets a cast of a rank's share round by them.
  void set(QuantizeOp cast, stablehlo::AllGatherOp gather) const;
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_SHAREPLACES_H
