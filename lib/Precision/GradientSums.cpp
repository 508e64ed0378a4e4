//===- GradientSums.cpp - Gradient sums that loops carry ------------------===//
//
// A loop over micro-batches sums their gradients. An F32 sum is cast once,
// after the loop. Here the sum is narrow in each iteration, as MS-AMP adds to
// gradients in FP8: it is read, added to in F32, and cast by the scale of its
// amax.
//
//===----------------------------------------------------------------------===//

#include "GradientSums.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Precision/MeasuredScale.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;
using stablehlo::WhileOp;

/// Beyond, equal terms are lost: the 17th is half of a step of E4M3 at the sum,
/// a tie that rounds to even.
static constexpr int64_t kMaxTerms = 16;

Value scalify::getAddedTerm(WhileOp loop, unsigned index) {
  Block &body = loop.getBody().front();
  BlockArgument carry = body.getArgument(index);
  Value next = lookThrough(body.getTerminator()->getOperand(index),
                           Move::Cast | Move::Convert);
  auto sum = next.getDefiningOp<stablehlo::AddOp>();
  if (!sum || !carry.hasOneUse() ||
      !loop.getCond().getArgument(index).use_empty())
    return {};
  if (lookThrough(sum.getLhs(), Move::Cast | Move::Convert) == carry)
    return sum.getRhs();
  return lookThrough(sum.getRhs(), Move::Cast | Move::Convert) == carry
             ? sum.getLhs()
             : Value();
}

/// Emits a remark, or under `strict` fails, if an FP8 sum has too many terms.
static LogicalResult checkTerms(WhileOp loop, FloatType format, bool strict) {
  std::optional<int64_t> count = stablehlo::getTripCount(loop);
  if (format.getIntOrFloatBitWidth() > 8 || (count && *count <= kMaxTerms))
    return success();
  std::string terms = count ? std::to_string(*count) : "an unknown number of";
  if (strict)
    return loop.emitOpError("adds up ")
           << terms << " gradients in FP8, which holds " << kMaxTerms
           << ": give the recipe another gradient_sum";
  loop.emitRemark("adds up ")
      << terms << " gradients in FP8, which holds " << kMaxTerms;
  return success();
}

/// Builds the start of a sum in the narrow format; null unless it is zero.
static Value makeStart(WhileOp loop, unsigned index, RankedTensorType narrow) {
  Value start = lookThrough(loop->getOperand(index), Move::Broadcast);
  if (!matchPattern(start, m_AnyZeroFloat()))
    return {};
  OpBuilder builder(loop);
  return stablehlo::buildZeros(builder, loop.getLoc(), narrow);
}

/// Narrows a carry in the body: dequantizes it by the scale that is carried
/// with it, and yields the data and the scale of the new sum.
static void narrowBody(WhileOp loop, unsigned index, FloatType format,
                       Caster &caster) {
  Block &body = loop.getBody().front();
  BlockArgument carry = body.getArgument(index);
  Type wideType = carry.getType();
  Location loc = loop.getLoc();
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  auto scaleType = RankedTensorType::get({}, builder.getF32Type());
  Value scale = body.addArgument(scaleType, loc);
  carry.setType(cast<RankedTensorType>(wideType).clone(format));
  auto wide = DequantizeOp::create(builder, loc, wideType, carry, scale);
  carry.replaceAllUsesExcept(wide, wide);
  Operation *end = body.getTerminator();
  Value sum = end->getOperand(index);
  builder.setInsertionPointAfterValue(sum);
  ScaleHint hint{buildAmaxScale(builder, loc, sum, format, /*margin=*/0),
                 builder.getStringAttr("gradient: a sum over micro-batches")};
  hint.isPrescribed = true;
  auto stored =
      caster.cast(sum, hint, format, &body).getDefiningOp<DequantizeOp>();
  end->setOperand(index, stored.getData());
  end->insertOperands(end->getNumOperands(), stored.getScale());
}

/// Dequantizes a result of the loop.
static void widenResult(Value data, Value scale, Type wideType) {
  OpBuilder builder(data.getContext());
  builder.setInsertionPointAfterValue(data);
  auto wide =
      DequantizeOp::create(builder, data.getLoc(), wideType, data, scale);
  setPhase(wide, Phase::Backward);
  data.replaceAllUsesExcept(wide, wide);
}

LogicalResult scalify::narrowSums(WhileOp loop, ArrayRef<unsigned> indices,
                                  FloatType format, Caster &caster,
                                  bool strict) {
  if (failed(checkTerms(loop, format, strict)))
    return failure();
  OpBuilder builder(loop);
  Location loc = loop.getLoc();
  auto scaleType = RankedTensorType::get({}, builder.getF32Type());
  SmallVector<std::pair<unsigned, Type>> narrowed;
  for (unsigned index : indices) {
    auto wideType = cast<RankedTensorType>(loop.getResult(index).getType());
    RankedTensorType narrow = wideType.clone(format);
    Value start = makeStart(loop, index, narrow);
    if (!start) {
      loop.emitRemark("a sum of gradients does not start from zero and stays ")
          << wideType.getElementType();
      continue;
    }
    narrowBody(loop, index, format, caster);
    loop->setOperand(index, start);
    loop.getCond().getArgument(index).setType(narrow);
    loop.getCond().addArgument(scaleType, loc);
    loop.getResult(index).setType(narrow);
    narrowed.push_back({index, wideType});
  }
  builder.setInsertionPoint(loop);
  SmallVector<Value> ones(
      narrowed.size(), stablehlo::buildConstant(builder, loc, scaleType, 1.0f));
  unsigned first = loop->getNumResults();
  Operation *wider = stablehlo::extendControlFlow(
      loop, ones, SmallVector<Type>(narrowed.size(), scaleType));
  for (auto [i, entry] : llvm::enumerate(narrowed))
    widenResult(wider->getResult(entry.first), wider->getResult(first + i),
                entry.second);
  return success();
}
