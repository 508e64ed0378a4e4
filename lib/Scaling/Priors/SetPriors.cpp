//===- SetPriors.cpp - Set the priors that a module uses ------------------===//

#include "scalify/Scaling/Passes.h"
#include "scalify/Scaling/Priors.h"

#include "mlir/IR/Builders.h"

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
    SmallVector<StringRef> names(use.begin(), use.end());
    getOperation()->setAttr(kPriorsAttr,
                            Builder(&getContext()).getStrArrayAttr(names));
    if (failed(verifyPriors(getOperation())))
      signalPassFailure();
  }
};
} // namespace
