//===- SetPriors.cpp - Set the priors that a module uses ------------------===//

#include "scalify/Scaling/Passes.h"
#include "scalify/Scaling/Priors.h"

namespace scalify {
#define GEN_PASS_DEF_SETPRIORS
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct SetPriorsPass : scalify::impl::SetPriorsBase<SetPriorsPass> {
  using SetPriorsBase::SetPriorsBase;

  void runOnOperation() override {
    if (failed(setPriors(getOperation(), use)))
      signalPassFailure();
  }
};
} // namespace
