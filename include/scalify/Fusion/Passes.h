//===- Passes.h - From tensors to a plan ------------------------*- C++ -*-===//

#ifndef SCALIFY_FUSION_PASSES_H
#define SCALIFY_FUSION_PASSES_H

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {
#define GEN_PASS_DECL
#include "scalify/Fusion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Fusion/Passes.h.inc"

} // namespace scalify

#endif // SCALIFY_FUSION_PASSES_H
