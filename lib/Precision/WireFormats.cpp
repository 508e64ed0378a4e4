//===- WireFormats.cpp - Cast partial products sent between ranks ---------===//
//
// If ranks have parts of a contracting dimension, each computes a partial
// product, and they sum these: in the layers that Megatron-LM calls
// row-parallel, and for the input gradients of its column-parallel ones. With
// `activation_wire` the partial products are cast before they are sent.
//
//===----------------------------------------------------------------------===//

#include "DotDecisions.h"
#include "RankSums.h"
#include "StorageFormats.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/Passes.h"

using namespace mlir;
using namespace scalify;

/// Returns the dot whose partial products an op sums over ranks; null for other
/// sums, and for gradients of weights.
static Operation *getSummedProduct(Operation *op) {
  if (!isRankSum(op))
    return nullptr;
  Operation *dot = getDotOperandRoot(getRankTerm(op)->get()).getDefiningOp();
  bool isOfActivations = dot && isContraction(dot) && !isWeightGradient(dot);
  return isOfActivations ? dot : nullptr;
}

/// Returns null if the recipe has formats for the dot, cast or not. A dot that
/// needs wider ones than linear layers have, as sensitive ones, has its sum on
/// a wide wire too.
static DecisionAttr getReasonToStayWide(Operation *dot, RecipeAttr recipe) {
  if (auto formats = dot->getAttrOfType<FormatsAttr>(kFormatsAttr)) {
    DotFormats operands{formats.getLhs(), formats.getRhs()};
    if (operands.getWidth() <= recipe.getFormats(DotRole::Linear).getWidth())
      return {};
    return DecisionAttr::get(dot->getContext(), "recipe",
                             "has wider formats for the dot than for layers");
  }
  if (auto decision = dot->getAttrOfType<DecisionAttr>(kWideAttr))
    return decision;
  // Nothing is decided about the dots of a recipe that casts none.
  return isOfNarrowRole(dot, recipe)
             ? DecisionAttr()
             : DecisionAttr::get(dot->getContext(), "recipe",
                                 "has no narrow formats for the dot");
}

void scalify::castPartialProducts(func::FuncOp func, RecipeAttr recipe,
                                  Caster &caster) {
  Type format = recipe.getStorage().wire;
  if (!format)
    return;
  // The sums of scanned layers are in loops.
  SmallVector<std::pair<Operation *, Operation *>> sums;
  func.walk([&](Operation *op) {
    if (Operation *dot = getSummedProduct(op))
      sums.push_back({op, dot});
  });
  for (auto [op, dot] : sums) {
    OpOperand *read = getRankTerm(op);
    DecisionAttr decision = getReasonToStayWide(dot, recipe);
    std::optional<ScaleHint> hint;
    if (!decision) {
      hint = makeSharedHint(recipe, caster, dot->getResult(0), format,
                            "part of a product");
      decision = hint ? caster.getReasonToStayWide(read->get(), format)
                      : DecisionAttr::get(op->getContext(), "scale",
                                          "the parts have no known scale");
    }
    if (decision)
      op->emitRemark("parts of a product stay wide between ranks: ")
          << decision.describe();
    else
      castForReaders(caster, read->get(), read, *hint, format);
  }
}
