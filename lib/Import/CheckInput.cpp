//===- CheckInput.cpp - Refuse decisions of stages in the input -----------===//
//
// Stages take an attribute of an earlier one for its decision, and do not prove
// it again.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/InputAttrs.h"
#include "scalify/Import/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_CHECKINPUTPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {

struct CheckInput : scalify::impl::CheckInputPassBase<CheckInput> {
  void runOnOperation() override {
    WalkResult result =
        getOperation()->walk<WalkOrder::PreOrder>([](Operation *op) {
          return failed(verifyInputAttributes(op)) ? WalkResult::interrupt()
                                                   : WalkResult::advance();
        });
    if (result.wasInterrupted())
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
