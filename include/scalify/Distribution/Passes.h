//===- Passes.h - Passes of the Distribution stage --------------*- C++ -*-===//
//
// Distribution turns a sharded program on whole values into the program that
// each device runs.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DISTRIBUTION_PASSES_H
#define SCALIFY_DISTRIBUTION_PASSES_H

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {

#define GEN_PASS_DECL
#include "scalify/Distribution/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Distribution/Passes.h.inc"

} // namespace scalify

#endif // SCALIFY_DISTRIBUTION_PASSES_H
