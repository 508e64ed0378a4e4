//===- AlignDonation.cpp - Donated arguments alias their next values ------===//
//
// JAX pairs donated arguments with results by type and order alone: a step that
// takes (moments, parameters) and returns (parameters, moments) returns the
// parameters in the memory of moments. That is right for memory, but the types
// and scales of state follow these pairs in later stages.
//
//===----------------------------------------------------------------------===//

#include "ArgumentInfo.h"
#include "NextValues.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Import/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace scalify {
#define GEN_PASS_DEF_ALIGNDONATIONPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

namespace {
/// Pairs that may exchange their results: of one type, and placed alike.
using Kind = std::tuple<Type, Attribute, Attribute>;

struct AlignDonation : scalify::impl::AlignDonationPassBase<AlignDonation> {
  void runOnOperation() override;
};
} // namespace

static Attribute getPlaceOfArgument(func::FuncOp main, unsigned index) {
  if (Attribute sdy = main.getArgAttr(index, "sdy.sharding"))
    return sdy;
  return main.getArgAttr(index, "mhlo.sharding");
}

static Attribute getPlaceOfResult(func::FuncOp main, unsigned index) {
  if (Attribute sdy = main.getResultAttr(index, "sdy.sharding"))
    return sdy;
  return main.getResultAttr(index, "mhlo.sharding");
}

/// Gives each argument its next value if that is one of the results of the
/// group, or none's, and the others the results that are left.
static SmallVector<unsigned> assign(ArrayRef<unsigned> arguments,
                                    ArrayRef<unsigned> results,
                                    const NextValues &next,
                                    function_ref<bool(unsigned)> mayTake) {
  SmallVector<int64_t> found(arguments.size(), -1);
  SmallVector<unsigned> left(results);
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    std::optional<unsigned> own = next.getResult(argument);
    if (!own || !(llvm::is_contained(left, *own) || mayTake(*own)))
      continue;
    found[i] = *own;
    llvm::erase(left, *own);
  }
  // Arguments that keep their result come first.
  for (bool keeps : {true, false})
    for (auto [i, old] : llvm::enumerate(results)) {
      if (found[i] >= 0 || (keeps && !llvm::is_contained(left, old)))
        continue;
      found[i] = keeps ? old : left.front();
      llvm::erase(left, static_cast<unsigned>(found[i]));
    }
  return SmallVector<unsigned>(found.begin(), found.end());
}

void AlignDonation::runOnOperation() {
  FailureOr<func::FuncOp> found = getMain(getOperation());
  if (failed(found))
    return signalPassFailure();
  func::FuncOp main = *found;
  NextValues next(
      main, [](Operation *op) { return isInPhase(op, Phase::Forward); },
      [](Operation *op) { return isInPhase(op, Phase::Backward); });
  llvm::MapVector<Kind, std::pair<SmallVector<unsigned>, SmallVector<unsigned>>>
      groups;
  for (unsigned index = 0; index < main.getNumArguments(); ++index)
    if (std::optional<unsigned> result = getAliasedResult(main, index)) {
      auto &[arguments, results] = groups[{main.getArgumentTypes()[index],
                                           getPlaceOfArgument(main, index),
                                           getPlaceOfResult(main, *result)}];
      arguments.push_back(index);
      results.push_back(*result);
    }
  SmallVector<int64_t> owners = getAliasedArguments(main);
  Builder builder(&getContext());
  for (auto &[kind, pairs] : groups) {
    auto &[arguments, results] = pairs;
    auto [type, ofArgument, ofResult] = kind;
    SmallVector<unsigned> chosen =
        assign(arguments, results, next,
               [&, type = type, place = ofResult](unsigned result) {
                 return owners[result] < 0 &&
                        main.getResultTypes()[result] == type &&
                        getPlaceOfResult(main, result) == place;
               });
    for (auto [argument, result] : llvm::zip_equal(arguments, chosen)) {
      numMoved += getAliasedResult(main, argument) != result;
      main.setArgAttr(argument, kAliasAttr, builder.getI32IntegerAttr(result));
    }
  }
}
