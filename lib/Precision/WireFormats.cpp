//===- WireFormats.cpp - Parts of products between ranks ------------------===//
//
// Where ranks have parts of a contracting dimension, each has a part of the
// product, and they sum these: the layers that Megatron-LM calls row-parallel,
// and the gradients of its column-parallel ones' inputs. With `activation_wire`
// the parts are cast before they go to other ranks.
//
//===----------------------------------------------------------------------===//

#include "RankSums.h"
#include "StorageFormats.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/DotRoles.h"

using namespace mlir;
using namespace scalify;

/// The product, of whose parts an op is a sum; null for sums of others, and of
/// gradients of weights.
static Operation *getSummedProduct(Operation *op,
                                   const DotFormatChooser &formats) {
  if (!isRankSum(op))
    return nullptr;
  Operation *dot = getDotOperandRoot(getRankPart(op)->get()).getDefiningOp();
  bool isOfActivations =
      dot && isContraction(dot) &&
      formats.getLayers().getKind(dot) != DotKind::WeightGrad;
  return isOfActivations ? dot : nullptr;
}

void scalify::castProductsOfRanks(func::FuncOp func, RecipeAttr recipe,
                                  const DotFormatChooser &formats,
                                  Caster &caster) {
  Type format = recipe.getStorage().wire;
  if (!format)
    return;
  // Those of scanned layers are in loops.
  SmallVector<std::pair<Operation *, Operation *>> sums;
  func.walk([&](Operation *op) {
    if (Operation *dot = getSummedProduct(op, formats))
      sums.push_back({op, dot});
  });
  for (auto [op, dot] : sums) {
    OpOperand *read = getRankPart(op);
    DecisionAttr decision = formats.getReasonToStayWide(dot);
    std::optional<ScaleHint> hint;
    if (!decision) {
      hint = makeSharedHint(recipe, caster, dot->getResult(0), format,
                            "part of a product");
      decision = hint ? caster.getReasonToStayWide(read->get(), format)
                      : DecisionAttr::get(op->getContext(), "scale",
                                          "that of the parts is not known");
    }
    if (decision)
      op->emitRemark("parts of a product stay wide between ranks: ")
          << decision.describe();
    else
      castReads(caster, read->get(), read, *hint, format);
  }
}
