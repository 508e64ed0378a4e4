//===- Passes.h - Passes of idioms ------------------------------*- C++ -*-===//

#ifndef SCALIFY_IDIOMS_PASSES_H
#define SCALIFY_IDIOMS_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace scalify {

#define GEN_PASS_DECL
#include "scalify/Idioms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Idioms/Passes.h.inc"

} // namespace scalify

#endif // SCALIFY_IDIOMS_PASSES_H
