//===- Passes.h - StableHLO out ---------------------------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_STABLEHLO_PASSES_H
#define SCALIFY_TARGET_STABLEHLO_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {

#define GEN_PASS_DECL
#include "scalify/Target/StableHLO/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Target/StableHLO/Passes.h.inc"

} // namespace scalify

#endif // SCALIFY_TARGET_STABLEHLO_PASSES_H
