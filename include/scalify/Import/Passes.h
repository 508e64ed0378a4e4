//===- Passes.h - Passes of the Import stage --------------------*- C++ -*-===//
//
// Import turns StableHLO as JAX prints it into the normal form that the later
// stages read: one function, only stablehlo, static shapes, constants folded,
// arguments with names and roles, ops with phases.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_IMPORT_PASSES_H
#define SCALIFY_IMPORT_PASSES_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {

#define GEN_PASS_DECL
#include "scalify/Import/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Import/Passes.h.inc"

} // namespace scalify

#endif // SCALIFY_IMPORT_PASSES_H
