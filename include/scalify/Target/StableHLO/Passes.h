//===- Passes.h - StableHLO out ---------------------------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_STABLEHLO_PASSES_H
#define SCALIFY_TARGET_STABLEHLO_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <optional>

namespace scalify {

/// The form of a dot on FP8 data; `fp8-form` in the options of the pass.
enum class FP8Form {
  /// F32 dots on dequantized data.
  Wide,
  /// The pattern that XLA:GPU rewrites to its FP8 cuBLASLt call.
  XLAGPU,
  /// Dots on the FP8 data itself, and one multiply of the result.
  Plain
};

/// "wide", "xla-gpu", "plain".
llvm::StringRef stringifyFP8Form(FP8Form form);
std::optional<FP8Form> symbolizeFP8Form(llvm::StringRef name);

#define GEN_PASS_DECL
#include "scalify/Target/StableHLO/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Target/StableHLO/Passes.h.inc"

} // namespace scalify

#endif // SCALIFY_TARGET_STABLEHLO_PASSES_H
