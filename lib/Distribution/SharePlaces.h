//===- SharePlaces.h - Positions of a share's elements ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_SHAREPLACES_H
#define SCALIFY_LIB_DISTRIBUTION_SHAREPLACES_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <optional>

namespace scalify {

/// The positions of a share's elements in the value that a cast reads after an
/// all-gather. Strides are those of the shape `whole`; `first` is the position
/// of the first rank's first element.
struct SharePlaces {
  int64_t first;
  llvm::SmallVector<int64_t> whole;

  /// Returns none if an element's position is not linear in its index (after a
  /// transpose, padding, or a slice within rows or with steps), or if the cast
  /// reads a part already.
  static std::optional<SharePlaces> find(stablehlo::AllGatherOp gather,
                                         QuantizeOp cast);

  /// Makes the cast of a rank's share round by these positions.
  void set(QuantizeOp cast, stablehlo::AllGatherOp gather) const;
};

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_SHAREPLACES_H
