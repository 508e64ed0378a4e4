//===- ValueShardings.h - Shardings of values -------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_DISTRIBUTION_VALUESHARDINGS_H
#define SCALIFY_LIB_DISTRIBUTION_VALUESHARDINGS_H

#include "scalify/Dialect/Sdy/Sdy.h"

namespace scalify {

inline constexpr llvm::StringLiteral kShardingAttr = "sdy.sharding";

/// Returns the sharding of a value of a program on whole values: of an argument
/// or a result as declared, of a loop's carry that of the loop's result, of an
/// argument of a manual computation along its free axes. Null if it has none.
sdy::TensorShardingAttr getSharding(mlir::Value value);

} // namespace scalify

#endif // SCALIFY_LIB_DISTRIBUTION_VALUESHARDINGS_H
