//===- ScaleAnalysis.cpp - The facts of every value of a function ---------===//

#include "scalify/Scaling/ScaleAnalysis.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/CarryFacts.h"
#include "scalify/Scaling/MeasuredArguments.h"
#include "scalify/Scaling/Rules.h"

#include "Rules/Starts.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

// Adam's moments settle in two rounds; more would only polish fractions of a
// binade.
static constexpr int kMaxStateRounds = 4;

// A parameter that starts at zero is soon what others are, whose usual 0.02 is
// near 2^-6. Left at zero, a gate would leave nothing of its branch.
static constexpr double kStartOfZero = 0x1p-6;

bool scalify::isFloatTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

bool scalify::isScalableTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor &&
         isa<Float32Type, Float16Type, BFloat16Type>(tensor.getElementType());
}

ScaleAnalysis::ScaleAnalysis(FunctionOpInterface func, bool composites)
    : func(func), composites(composites) {
  seedArguments();
  for (int round = 0; round < kMaxStateRounds; ++round) {
    growing.clear();
    inferBlock(func.getFunctionBody().front(), /*depth=*/0);
    if (!updateState())
      break;
  }
  findOpsWithoutRule();
}

const ScaleFacts &ScaleAnalysis::lookup(Value value) const {
  static const ScaleFacts unknown;
  auto it = facts.find(value);
  return it == facts.end() ? unknown : it->second;
}

bool scalify::takesWrittenScale(FunctionOpInterface func, unsigned index) {
  if (auto scale = func.getArgAttrOfType<IntegerAttr>(index, kScaleAttr))
    return scale.getInt() == kZeroScale;
  return func.getArgAttr(index, "tf.aliasing_output") &&
         isOneOf(getRoleAttr(func, index), {Role::Moment, Role::State});
}

bool scalify::feedsDot(Value value) {
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<stablehlo::DotGeneralOp, stablehlo::ConvolutionOp>(user))
      return true;
    if (auto loop = dyn_cast<stablehlo::WhileOp>(user))
      return feedsDot(loop.getBody().getArgument(use.getOperandNumber()));
    if (auto manual = dyn_cast<sdy::ManualComputationOp>(user))
      return feedsDot(manual.getBody().getArgument(use.getOperandNumber()));
    return isa<stablehlo::ConvertOp, stablehlo::ReshapeOp,
               stablehlo::TransposeOp, stablehlo::BroadcastInDimOp,
               stablehlo::DynamicSliceOp, SetScaleOp>(user) &&
           feedsDot(user->getResult(0));
  });
}

/// The size that a weight which starts at zero soon has: the usual one, and as
/// `scalify.measure` has it, 0.6 of the binades that this lacks to a gain of
/// one (rms times the square root of the width), three at most.
static double trainedFromZero(Value weight) {
  double gain = kStartOfZero * std::pow(countElements(weight), 0.25);
  double missing = std::round(-0.6 * std::log2(gain));
  return kStartOfZero * std::exp2(std::clamp(missing, 0.0, 3.0));
}

/// Facts of an array that is all zero at the start. It is not a zero constant,
/// whose scale is free.
static ScaleFacts seedZero(BlockArgument arg, bool isParameter) {
  bool isWeight = feedsDot(arg);
  double rms = isWeight || isParameter ? kStartOfZero : 0;
  if (isWeight && isParameter)
    rms = trainedFromZero(arg) / kPathFromZero;
  ScaleFacts seed = ScaleFacts::gaussian(rms);
  seed.rule = rms > 0 ? "parameter that starts at zero: 2^-6 and growth"
                      : "state: the scale of what is written into it";
  return seed;
}

/// Facts of an argument that its mean carries. A parameter that starts far
/// below the usual size (the 1e-4 and 1e-6 of a LayerScale) does not stay
/// there, as an optimizer moves all of them by its rate: half-way to 2^-5 and
/// two binades, since it is small for the first steps alone.
static ScaleFacts seedMoments(double mean, double deviation, bool isParameter) {
  double size = std::hypot(mean, deviation);
  double growth = 1;
  if (isParameter && size > 0 && size < kEndOfGates)
    growth = std::min(
        {4 * std::sqrt(kEndOfGates / size), kMostOfGates, kEndOfGates / size});
  return ScaleFacts::moments(growth * mean, std::pow(growth * deviation, 2));
}

bool ScaleAnalysis::startsFromWritten(BlockArgument arg) const {
  return takesWrittenScale(func, arg.getArgNumber()) && !feedsDot(arg) &&
         !isParameter(arg);
}

ScaleFacts ScaleAnalysis::seedArgument(BlockArgument arg) {
  unsigned index = arg.getArgNumber();
  ScaleFacts seed;
  if (takesWrittenScale(func, index)) {
    seed = seedZero(arg, isParameter(arg));
  } else if (auto scale =
                 func.getArgAttrOfType<IntegerAttr>(index, kScaleAttr)) {
    seed = ScaleFacts::gaussian(std::exp2(scale.getInt()));
    if (auto moments =
            func.getArgAttrOfType<DenseF64ArrayAttr>(index, kMomentsAttr);
        moments && moments.size() == 2)
      seed = seedMoments(moments[0], moments[1], isParameter(arg));
    seed.rule = "declared scale of the argument";
  } else if (auto size =
                 func.getArgAttrOfType<IntegerAttr>(index, kMeasuredAttr)) {
    seed = ScaleFacts::gaussian(std::exp2(size.getInt()));
    seed.rule = kMeasuredReason;
  } else {
    seed.rule = "undeclared argument: 2^0";
    if (cast<ShapedType>(arg.getType()).getRank() > 0)
      undeclared.push_back(arg);
  }
  return seed;
}

void ScaleAnalysis::seedArguments() {
  for (BlockArgument arg : func.getArguments())
    if (isFloatTensor(arg.getType()))
      facts[arg] = seedArgument(arg);
}

static bool hasRule(Operation *op) {
  auto rule = dyn_cast<ScaleRuleInterface>(op);
  return rule && rule.getScaleFamily() != ScaleFamily::Opaque;
}

void ScaleAnalysis::inferOp(Operation &op, unsigned depth) {
  if (auto loop = dyn_cast<stablehlo::WhileOp>(op))
    return inferLoop(loop, depth);
  if (isa<sdy::ManualComputationOp>(op))
    return inferManual(&op, depth);
  if (stablehlo::isControlFlow(&op))
    return inferBranches(&op, depth);
  auto lookupRef = [this](Value value) -> const ScaleFacts & {
    return lookup(value);
  };
  SmallVector<ScaleFacts> results(op.getNumResults());
  if (hasRule(&op)) {
    FactsQuery query{&op, lookupRef};
    cast<ScaleRuleInterface>(op).inferFacts(query, results);
    if (auto exact = constants.infer(op))
      results[0] = std::move(*exact);
    else if (composites)
      inferCompositeFacts(query, results);
  } else {
    for (ScaleFacts &result : results)
      result.rule = "no rule: 2^0";
  }
  for (auto [value, result] : llvm::zip(op.getResults(), results))
    facts[value] = std::move(result);
}

void ScaleAnalysis::inferBlock(Block &block, unsigned depth) {
  for (Operation &op : block.without_terminator())
    inferOp(op, depth);
}

void ScaleAnalysis::findOpsWithoutRule() {
  func.walk([this](Operation *op) {
    if (op == func || hasRule(op) || stablehlo::isControlFlow(op) ||
        op->hasTrait<OpTrait::IsTerminator>() || !stablehlo::isProgramCode(op))
      return;
    if (llvm::any_of(op->getOperandTypes(), isFloatTensor) ||
        llvm::any_of(op->getResultTypes(), isFloatTensor))
      withoutRule.push_back(op);
  });
}

bool ScaleAnalysis::updateState() {
  Operation *terminator = func.getFunctionBody().front().getTerminator();
  bool changed = false;
  for (BlockArgument arg : func.getArguments()) {
    unsigned index = arg.getArgNumber();
    auto alias =
        func.getArgAttrOfType<IntegerAttr>(index, "tf.aliasing_output");
    if (!alias || !startsFromWritten(arg) || !isFloatTensor(arg.getType()) ||
        alias.getInt() >= terminator->getNumOperands())
      continue;
    const ScaleFacts &next = lookup(terminator->getOperand(alias.getInt()));
    ScaleFacts &current = facts[arg];
    if (next.anyScale || next.scaleExponent() == current.scaleExponent())
      continue;
    current.rms = next.rms;
    current.sign = next.sign;
    current.mean = next.mean;
    changed = true;
  }
  return changed;
}
