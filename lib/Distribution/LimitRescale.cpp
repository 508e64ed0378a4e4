//===- LimitRescale.cpp - Recompute the limits of @rescale ----------------===//
//
// @rescale compares counts with fractions of the number of elements cast.
// Distribution changes that number: a cast hoisted before an all-gather counts
// its share only, and a simulation casts replicated values once.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/RankMaxima.h"
#include "scalify/Precision/RescaleFunction.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Distribution/Passes.h"
#include "scalify/Precision/CastScales.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace scalify {
#define GEN_PASS_DEF_LIMITRESCALE
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Returns the argument with the casts' scales; null if these are constants.
static BlockArgument findScales(func::FuncOp main) {
  for (BlockArgument argument : main.getArguments()) {
    auto name =
        main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    if (name && name.getValue() == kCastScalesName)
      return argument;
  }
  return nullptr;
}

namespace {
struct LimitRescalePass : scalify::impl::LimitRescaleBase<LimitRescalePass> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    auto rescale = getOperation().lookupSymbol<func::FuncOp>(kRescaleFunction);
    BlockArgument scales = main && rescale ? findScales(main) : nullptr;
    if (!scales)
      return;
    auto names =
        main.getArgAttrOfType<ArrayAttr>(scales.getArgNumber(), kCastsAttr);
    int64_t ranks = countRanks(main);
    llvm::StringMap<int64_t> elements;
    main.walk([&](QuantizeOp cast) {
      if (std::optional<StringRef> name = cast.getCast())
        elements[*name] += cast.getValue().getType().getNumElements();
    });
    SmallVector<CountedCast> casts;
    for (StringRef name : names.getAsValueRange<StringAttr>())
      casts.push_back({ranks * elements.lookup(name), /*moves=*/false});
    for (Operation *user : scales.getUsers())
      if (auto entry = dyn_cast<stablehlo::SliceOp>(user))
        casts[static_cast<size_t>(entry.getStartIndices()[0])].moves = true;
    rescale.erase();
    buildRescaleFunction(getOperation(), casts);
  }
};
} // namespace
