//===- NormalizeDonation.cpp - Pair donated arguments with results --------===//
//
// JAX writes `tf.aliasing_output` if it can pair a donated argument with a
// result itself, and `jax.buffer_donor` if it leaves the choice to XLA. Later
// stages only read the first form. Names are set here too, since an argument
// may have no name but that of its aliased result.
//
//===----------------------------------------------------------------------===//

#include "ArgumentInfo.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Import/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_NORMALIZEDONATIONPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

/// Checks the pairs of the input.
static LogicalResult checkAliases(func::FuncOp main) {
  SmallVector<int64_t> owner(main.getNumResults(), -1);
  for (unsigned index = 0; index < main.getNumArguments(); ++index) {
    std::optional<unsigned> result = getAliasedResult(main, index);
    if (!result)
      continue;
    if (*result >= owner.size())
      return main.emitOpError("argument ")
             << index << " is donated to result " << *result << ", but '@main' "
             << "has " << owner.size() << " results";
    if (owner[*result] >= 0)
      return main.emitOpError("arguments ")
             << owner[*result] << " and " << index
             << " are both donated to result " << *result;
    Type from = main.getArgumentTypes()[index];
    Type to = main.getResultTypes()[*result];
    if (from != to)
      return main.emitOpError("argument ")
             << index << " of type " << from << " is donated to result "
             << *result << " of type " << to;
    owner[*result] = index;
  }
  return success();
}

/// Pairs each donor with the first unpaired result of its type.
static void pairDonors(func::FuncOp main) {
  SmallVector<int64_t> owner = getAliasedArguments(main);
  Builder builder(main.getContext());
  for (unsigned index = 0; index < main.getNumArguments(); ++index) {
    auto donor = main.getArgAttrOfType<BoolAttr>(index, kDonorAttr);
    main.removeArgAttr(index, kDonorAttr);
    if (!donor || !donor.getValue() || getAliasedResult(main, index))
      continue;
    for (auto [result, type] : llvm::enumerate(main.getResultTypes())) {
      if (owner[result] >= 0 || type != main.getArgumentTypes()[index])
        continue;
      owner[result] = index;
      main.setArgAttr(index, kAliasAttr, builder.getI32IntegerAttr(result));
      break;
    }
  }
}

namespace {

struct NormalizeDonation
    : scalify::impl::NormalizeDonationPassBase<NormalizeDonation> {
  void runOnOperation() override {
    FailureOr<func::FuncOp> main = getMain(getOperation());
    if (failed(main) || failed(checkAliases(*main)))
      return signalPassFailure();
    pairDonors(*main);
    Builder builder(&getContext());
    for (unsigned index = 0; index < main->getNumArguments(); ++index)
      if (!main->getArgAttr(index, kNameAttr))
        main->setArgAttr(index, kNameAttr,
                         builder.getStringAttr(
                             scalify::import::getArgumentName(*main, index)));
  }
};

} // namespace
