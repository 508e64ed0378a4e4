//===- RankSums.cpp - Cast the terms of sums over ranks -------------------===//

#include "RankSums.h"

#include "DelayedHistory.h"
#include "GradientSums.h"
#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/StoredGradients.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

bool scalify::isRankSum(Operation *op) {
  return isa<stablehlo::AllReduceOp, stablehlo::ReduceScatterOp>(op) &&
         op->getNumOperands() == 1 && stablehlo::isSum(op->getRegion(0));
}

int64_t scalify::countSummedRanks(Operation *sum) {
  return sum->getAttrOfType<DenseIntElementsAttr>("replica_groups")
      .getType()
      .getDimSize(1);
}

OpOperand *scalify::getRankTerm(Operation *sum) {
  OpOperand *read = &sum->getOpOperand(0);
  while (true) {
    Operation *def = read->get().getDefiningOp();
    if (!isa_and_present<stablehlo::PadOp>(def))
      return read;
    read = &def->getOpOperand(0);
  }
}

/// Returns log2 of the scale that the rules determined for a value. A stack has
/// the scale of its elements, and a sum of n independent terms sqrt(n) times
/// theirs.
static std::optional<int64_t> getExponent(Value root, unsigned depth = 4) {
  auto result = dyn_cast<OpResult>(root);
  if (!result || depth == 0)
    return std::nullopt;
  if (auto known = result.getOwner()->getAttrOfType<IntegerAttr>(kScaleAttr))
    return known.getInt();
  auto loop = dyn_cast<stablehlo::WhileOp>(result.getOwner());
  if (!loop)
    return std::nullopt;
  unsigned index = result.getResultNumber();
  if (Value update = stablehlo::getStackedUpdate(loop, index))
    return getExponent(getOrigin(update), depth - 1);
  Value term = getAddedTerm(loop, index);
  auto exponent = term ? getExponent(getOrigin(term), depth - 1) : std::nullopt;
  std::optional<int64_t> count = stablehlo::getTripCount(loop);
  if (!exponent || !count || *count < 1)
    return std::nullopt;
  return *exponent + std::lround(std::log2(static_cast<double>(*count)) / 2);
}

std::optional<ScaleHint> scalify::makeSharedHint(RecipeAttr recipe,
                                                 Caster &caster, Value root,
                                                 Type format, const Twine &rule,
                                                 bool simulatesRanks) {
  OpBuilder builder(root.getContext());
  ScaleSource source = recipe.getScales();
  bool isMeasured =
      source == ScaleSource::Current || source == ScaleSource::Block;
  if (isMeasured && format.isBF16()) // as many binades as F32
    return ScaleHint{caster.makeConstant(1.0f), builder.getStringAttr(rule)};
  if (isMeasured) {
    builder.setInsertionPointAfterValue(root);
    Location loc = root.getLoc();
    Value amaxes = buildFiniteAmaxes(builder, loc, root, !simulatesRanks);
    auto largest =
        static_cast<float>(getLargestFinite(cast<FloatType>(format)));
    Value scales = buildScalesOfAmaxes(builder, loc, amaxes, largest,
                                       recipe.getDelayed().margin);
    ScaleHint shared{SharedScaleOp::create(builder, loc, scales),
                     builder.getStringAttr(rule + ", shared by ranks")};
    shared.isPrescribed = true;
    return shared;
  }
  std::optional<int64_t> exponent = source == ScaleSource::Unit
                                        ? recipe.getGradientExponent()
                                        : getExponent(root);
  if (!exponent)
    return std::nullopt;
  return ScaleHint{
      caster.makeConstant(std::ldexp(1.0f, static_cast<int>(*exponent))),
      builder.getStringAttr(rule)};
}

QuantizeOp scalify::castForReaders(Caster &caster, Value value,
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
