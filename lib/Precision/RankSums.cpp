//===- RankSums.cpp - What ranks sum, cast before it is sent --------------===//

#include "RankSums.h"

#include "DelayedHistory.h"
#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/StoredGradients.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

bool scalify::isRankSum(Operation *op) {
  if (!isa<stablehlo::AllReduceOp, stablehlo::ReduceScatterOp>(op) ||
      op->getNumOperands() != 1)
    return false;
  Block &body = op->getRegion(0).front();
  return isa<stablehlo::AddOp>(body.front()) &&
         body.getTerminator()->getOperand(0) == body.front().getResult(0);
}

int64_t scalify::countSummedRanks(Operation *sum) {
  return sum->getAttrOfType<DenseIntElementsAttr>("replica_groups")
      .getType()
      .getDimSize(1);
}

OpOperand *scalify::getRankPart(Operation *sum) {
  OpOperand *read = &sum->getOpOperand(0);
  while (true) {
    Operation *def = read->get().getDefiningOp();
    if (!isa_and_present<stablehlo::PadOp>(def))
      return read;
    read = &def->getOpOperand(0);
  }
}

std::optional<ScaleHint> scalify::makeSharedHint(RecipeAttr recipe,
                                                 Caster &caster, Value root,
                                                 Type format, const Twine &rule,
                                                 bool playsRanks) {
  OpBuilder builder(root.getContext());
  ScaleSource source = recipe.getScales();
  if (source == ScaleSource::Current || source == ScaleSource::Block) {
    builder.setInsertionPointAfterValue(root);
    Location loc = root.getLoc();
    Value amaxes = buildFiniteAmaxes(builder, loc, root, !playsRanks);
    auto largest =
        static_cast<float>(getLargestFinite(cast<FloatType>(format)));
    Value scales = buildScalesOfAmaxes(builder, loc, amaxes, largest);
    return ScaleHint{SharedScaleOp::create(builder, loc, scales),
                     builder.getStringAttr(rule + ", shared by ranks")};
  }
  Operation *def = root.getDefiningOp();
  auto known = def ? def->getAttrOfType<IntegerAttr>(kScaleAttr) : nullptr;
  if (source != ScaleSource::Unit && !known)
    return std::nullopt;
  int64_t exponent = source == ScaleSource::Unit ? recipe.getGradientExponent()
                                                 : known.getInt();
  return ScaleHint{
      caster.makeConstant(std::ldexp(1.0f, static_cast<int>(exponent))),
      builder.getStringAttr(rule)};
}

QuantizeOp scalify::castReads(Caster &caster, Value value,
                              ArrayRef<OpOperand *> reads, ScaleHint hint,
                              Type format) {
  Value data;
  for (OpOperand *read : reads) {
    Value wide = caster.cast(value, hint, format, read->getOwner()->getBlock());
    data = wide.getDefiningOp<DequantizeOp>().getData();
    read->set(wide);
  }
  return getDotOperandRoot(data).getDefiningOp<QuantizeOp>();
}

void scalify::markGradient(QuantizeOp cast, int64_t index, StringRef part) {
  OpBuilder builder(cast);
  cast->setAttr(kGradientAttr, builder.getI64IntegerAttr(index));
  cast->setAttr(kGradientPartAttr, builder.getStringAttr(part));
}
