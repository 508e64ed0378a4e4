//===- SetTarget.cpp - Set the target of a module -------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Import/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_SETTARGETPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {

struct SetTarget : scalify::impl::SetTargetPassBase<SetTarget> {
  using SetTargetPassBase::SetTargetPassBase;

  void runOnOperation() override {
    auto here = [&] { return getOperation().emitError(); };
    if (failed(TargetAttr::verify(here, chip)))
      return signalPassFailure();
    TargetAttr::set(getOperation(), chip);
  }
};

} // namespace
