//===- WireFormats.cpp - Cast partial products sent between ranks ---------===//
//
// If ranks have parts of a contracting dimension, each computes a partial
// product, and they sum these: in the layers that Megatron-LM calls
// row-parallel, and for the input gradients of its column-parallel ones. With
// `activation_wire` the partial products are cast before they are sent.
//
//===----------------------------------------------------------------------===//

#include "RankSums.h"
#include "StorageFormats.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/DotRoles.h"

using namespace mlir;
using namespace scalify;

/// Returns the dot whose partial products an op sums over ranks; null for other
/// sums, and for gradients of weights.
static Operation *getSummedProduct(Operation *op,
                                   const DotFormatChooser &formats) {
  if (!isRankSum(op))
    return nullptr;
  Operation *dot = getDotOperandRoot(getRankTerm(op)->get()).getDefiningOp();
  bool isOfActivations =
      dot && isContraction(dot) &&
      formats.getLayers().getKind(dot) != DotKind::WeightGrad;
  return isOfActivations ? dot : nullptr;
}

void scalify::castPartialProducts(func::FuncOp func, RecipeAttr recipe,
                                  const DotFormatChooser &formats,
                                  Caster &caster) {
  Type format = recipe.getStorage().wire;
  if (!format)
    return;
  // The sums of scanned layers are in loops.
  SmallVector<std::pair<Operation *, Operation *>> sums;
  func.walk([&](Operation *op) {
    if (Operation *dot = getSummedProduct(op, formats))
      sums.push_back({op, dot});
  });
  for (auto [op, dot] : sums) {
    OpOperand *read = getRankTerm(op);
    DecisionAttr decision = formats.getReasonToStayWide(dot);
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
