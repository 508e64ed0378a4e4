//===- ExpandBlocks.cpp - Block-scaled casts as casts of scaled values ----===//

#include "scalify/Fusion/Passes.h"
#include "scalify/Precision/Blocks.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDBLOCKS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

namespace {
struct ExpandBlocksPass : scalify::impl::ExpandBlocksBase<ExpandBlocksPass> {
  using ExpandBlocksBase::ExpandBlocksBase;

  void runOnOperation() override {
    scalify::expandBlocks(getOperation(), keepDequantized);
  }
};
} // namespace
