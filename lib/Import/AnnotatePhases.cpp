//===- AnnotatePhases.cpp - Annotate each op with its phase ---------------===//
//
// Recipes treat gradients and activations differently, but a flat step does not
// mark which is which. Phases are computed once, here, while locations are
// available; Phases/ has the two methods.

#include "ArgumentInfo.h"
#include "Phases/Phases.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Import/Locations.h"
#include "scalify/Import/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_ANNOTATEPHASESPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify::import;

namespace {

struct AnnotatePhases : scalify::impl::AnnotatePhasesPassBase<AnnotatePhases> {
  using AnnotatePhasesPassBase::AnnotatePhasesPassBase;

  void runOnOperation() override {
    FailureOr<func::FuncOp> main = getMain(getOperation());
    if (failed(main))
      return signalPassFailure();
    PhaseMap phases;
    bool told = useLocations && computePhasesFromLocations(*main, phases);
    bool named = useLocations && hasNames(*main);
    if (!told && !computePhasesFromSlices(*main, named, phases))
      warnIfTrained(*main);
    main->getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (takesPhase(op))
        scalify::setPhase(op, phases.lookup(op));
    });
  }

private:
  static bool hasNames(func::FuncOp main) {
    return llvm::any_of(main.getBody().front(), [](Operation &op) {
      return !scalify::getNameStack(op.getLoc()).empty();
    });
  }

  /// Warns if the program updates float state: its gradients were not found. A
  /// cache, of which slices are overwritten, is not trained.
  void warnIfTrained(func::FuncOp main) {
    for (int64_t owner : getAliasedArguments(main))
      if (owner >= 0 &&
          isa<FloatType>(
              getElementTypeOrSelf(main.getArgumentTypes()[owner])) &&
          !isWrittenInSlices(main, owner)) {
        // Names without a derivative belong to an evaluation.
        if (hasNames(main))
          main.emitRemark("no scalar float result that could be the loss, and "
                          "no derivative in JAX's names: every op counts as "
                          "forward");
        else
          main.emitWarning("no scalar float result that could be the loss, and "
                           "no locations of JAX: every op counts as forward; "
                           "return the loss, or lower with debug_info=True");
        return;
      }
  }
};

} // namespace
