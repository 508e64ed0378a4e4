//===- AnnotatePhases.cpp - Marks each op with its phase ------------------===//
//
// A recipe treats gradients and activations apart, and a flat step does not
// say which operand is which. The phase is found once, here, while locations
// are at hand; Phases/ has the two ways.
//
//===----------------------------------------------------------------------===//

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

class AnnotatePhases
    : public scalify::impl::AnnotatePhasesPassBase<AnnotatePhases> {
public:
  using AnnotatePhasesPassBase::AnnotatePhasesPassBase;

  void runOnOperation() override {
    FailureOr<func::FuncOp> main = getMain(getOperation());
    if (failed(main))
      return signalPassFailure();
    PhaseMap phases;
    bool told = useLocations && computePhasesFromLocations(*main, phases);
    if (!told && !computePhasesFromSlices(*main, phases))
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

  /// A program that updates float state has gradients that were not found; but
  /// a cache, of which slices are overwritten, is no trained state.
  void warnIfTrained(func::FuncOp main) {
    for (int64_t owner : getAliasedArguments(main))
      if (owner >= 0 &&
          isa<FloatType>(
              getElementTypeOrSelf(main.getArgumentTypes()[owner])) &&
          !isWrittenInSlices(main, owner)) {
        // Names that tell of no derivative are those of an evaluation.
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
