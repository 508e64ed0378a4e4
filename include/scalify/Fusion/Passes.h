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

/// How a step is cut over the ranks of a pipeline; not at all by itself.
struct PipelineOptions {
  int64_t stages = 0;
  int64_t virtualChunks = 1; // of each stage
  int64_t stage = 0;         // whose program it shall be
};

/// All passes of the stage, in order. The machine is "cpu" or "gpu"; of a gpu
/// `streams` may be more than one, and attentions (`libraryAttention`) and what
/// is behind a product (`epilogues`) are a library's unless told otherwise.
/// With `overlap` collectives run beside what is computed. Gathers
/// add at most `gatheredBytes` to memory at one time, if not < 0, and at most
/// `mostInFlight` collectives are on their way, if not 0.
void buildFusionPipeline(mlir::OpPassManager &pm, bool isGPU = false,
                         int64_t streams = 1,
                         llvm::StringRef libraryAttention = "recipe",
                         bool overlap = true,
                         const PipelineOptions &pipeline = {},
                         llvm::StringRef epilogues = "exact",
                         int64_t gatheredBytes = -1, int64_t mostInFlight = 0);
} // namespace scalify

#endif // SCALIFY_FUSION_PASSES_H
