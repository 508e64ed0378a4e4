//===- ScaleAnalysis.cpp - The facts of every value of a function ---------===//

#include "scalify/Scaling/ScaleAnalysis.h"
#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/CarryFacts.h"
#include "scalify/Scaling/MeasuredArguments.h"
#include "scalify/Scaling/Rules.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

// Adam's moments settle in two rounds; more would change only fractions of a
// binade.
static constexpr int kMaxStateRounds = 4;

/// The number of sizes to probe: fewer sources of unknown size are in a program
/// as a rule, and only two of one size in a quotient hide each other.
static constexpr size_t kUnknownSizes = 16;

bool scalify::isFloatTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

bool scalify::isIntegerTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<IntegerType>(tensor.getElementType()) &&
         !tensor.getElementType().isInteger(1);
}

bool scalify::isScalableTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor &&
         isa<Float32Type, Float16Type, BFloat16Type>(tensor.getElementType());
}

bool scalify::hasScale(Type type) {
  return isScalableTensor(type) && cast<ShapedType>(type).getRank() > 0;
}

ScaleAnalysis::ScaleAnalysis(FunctionOpInterface func, bool composites,
                             Priors priors, bool trained, double unknownSize)
    : func(func), composites(composites), priors(std::move(priors)),
      trained(trained), unknownSize(unknownSize) {
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
  return func.getArgAttr(index, kAliasAttr) &&
         isOneOf(getRoleAttr(func, index), {Role::Moment, Role::State});
}

bool scalify::isParameter(Value value) {
  return isOneOf(getRoleAttr(lookThrough(peelToSource(value), Move::Invariant)),
                 Role::Param);
}

bool scalify::feedsDot(Value value) {
  // A value may be reached in many ways, as by rolls, which join two slices.
  DenseSet<Value> seen;
  SmallVector<Value> open{value};
  auto add = [&](Value next) {
    if (seen.insert(next).second)
      open.push_back(next);
  };
  while (!open.empty()) {
    Value current = open.pop_back_val();
    for (OpOperand &use : current.getUses()) {
      Operation *user = use.getOwner();
      unsigned index = use.getOperandNumber();
      if (isa<stablehlo::DotGeneralOp, stablehlo::ConvolutionOp>(user))
        return true;
      if (auto loop = dyn_cast<stablehlo::WhileOp>(user))
        add(loop.getBody().getArgument(index));
      else if (auto manual = dyn_cast<sdy::ManualComputationOp>(user))
        add(manual.getBody().getArgument(index));
      else if (isa<stablehlo::ConcatenateOp>(user)) // a fused or stacked weight
        add(user->getResult(0));
      else if (auto move = dyn_cast<DataMovementOpInterface>(user))
        for (OpResult result : user->getResults())
          if (move.getMovedOperand(result.getResultNumber()) == current)
            add(result);
    }
  }
  return false;
}

bool ScaleAnalysis::takesScaleOfUpdates(BlockArgument arg) const {
  return takesWrittenScale(func, arg.getArgNumber()) && !feedsDot(arg) &&
         !isParameter(arg);
}

ScaleFacts ScaleAnalysis::seedArgument(BlockArgument arg) {
  unsigned index = arg.getArgNumber();
  ScaleFacts seed;
  if (takesWrittenScale(func, index)) {
    // All zeros at the start, but no zero constant, which fits any scale.
    seed = ScaleFacts::gaussian(0);
    seed.rule = "state: takes the scale of the values written into it";
    bool isWeight = feedsDot(arg) || isParameter(arg);
    if (auto size = isWeight ? priors.get(kZeroParameters) : std::nullopt) {
      seed.rms = *size;
      seed.rule = "prior: parameter that starts at zero";
    }
  } else if (auto scale =
                 func.getArgAttrOfType<IntegerAttr>(index, kScaleAttr)) {
    seed = ScaleFacts::gaussian(std::exp2(scale.getInt()));
    if (auto moments =
            func.getArgAttrOfType<DenseF64ArrayAttr>(index, kMomentsAttr);
        moments && moments.size() == 2)
      seed = ScaleFacts::moments(moments[0], moments[1] * moments[1]);
    else if (auto size = trained ? predictWeight(arg, priors) : std::nullopt)
      seed = ScaleFacts::gaussian(std::max(*size, seed.rms));
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
    else if (isIntegerTensor(arg.getType()))
      facts[arg] = ScaleFacts::gaussian(getUnknownSize(arg));
}

/// Returns the size to take for a value that none is known of. Of probed sizes
/// each has an exponent of its own, so that they do not cancel in a quotient.
double ScaleAnalysis::getUnknownSize(Value value) {
  if (unknownSize == 1)
    return 1;
  size_t number =
      unknownNumbers.try_emplace(value, unknownNumbers.size()).first->second;
  return unknownSize * std::exp2(static_cast<double>(number % kUnknownSizes));
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
    if (auto exact = constants.infer(op)) {
      results[0] = std::move(*exact);
    } else if (composites) {
      inferCompositeFacts(query, results);
      if (results.size() == 1)
        priors.refine(query, results[0]);
    }
  } else {
    for (auto [value, result] : llvm::zip(op.getResults(), results)) {
      result.rms = getUnknownSize(value);
      result.rule = "no rule: 2^0";
    }
  }
  if (std::optional<StackSlice> slice = getSlice(&op)) {
    results[0] = slices[slice->stack].facts[slice->iteration];
    current->readsSlices = true;
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
  bool changed = false;
  for (BlockArgument arg : func.getArguments()) {
    OpOperand *result = getNextValue(func, arg.getArgNumber());
    if (!result || !takesScaleOfUpdates(arg) || !isFloatTensor(arg.getType()))
      continue;
    const ScaleFacts &next = lookup(result->get());
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
