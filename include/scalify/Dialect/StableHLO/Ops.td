//===- Ops.td - All ops of the stablehlo dialect -----------*- tablegen -*-===//
//
// The list that registers them. Each family's classes are generated apart, for
// its own source file.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_OPS
#define SCALIFY_DIALECT_STABLEHLO_OPS

include "scalify/Dialect/StableHLO/Elementwise.td"
include "scalify/Dialect/StableHLO/Shape.td"
include "scalify/Dialect/StableHLO/Indexing.td"
include "scalify/Dialect/StableHLO/Dot.td"
include "scalify/Dialect/StableHLO/Convolution.td"
include "scalify/Dialect/StableHLO/Reduce.td"
include "scalify/Dialect/StableHLO/Control.td"
include "scalify/Dialect/StableHLO/Collective.td"
include "scalify/Dialect/StableHLO/Numeric.td"
include "scalify/Dialect/StableHLO/Call.td"
include "scalify/Dialect/StableHLO/Dynamic.td"

#endif // SCALIFY_DIALECT_STABLEHLO_OPS
