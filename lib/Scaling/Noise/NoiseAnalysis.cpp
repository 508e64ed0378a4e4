//===- NoiseAnalysis.cpp - Propagation of rounding errors -----------------===//

#include "scalify/Scaling/NoiseAnalysis.h"

#include "ElementFunctions.h"
#include "NoiseGains.h"
#include "Residuals.h"
#include "VanishingRows.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;

/// Errors of carries settle within some iterations, or grow evenly, so the
/// analysis executes no more iterations than these.
static constexpr int64_t kMaxTrips = 96, kMaxInnerTrips = 12;

NoiseAnalysis::NoiseAnalysis(FunctionOpInterface func,
                             const ScaleAnalysis &facts)
    : facts(facts), functions(std::make_unique<ElementFunctions>(facts)),
      residualGain(Priors::of(func).get(kFallingResiduals)),
      vanishing(findVanishingRows(func, facts)) {
  main = std::make_unique<Program>(build(func.getFunctionBody().front(), 0));
}

NoiseAnalysis::~NoiseAnalysis() = default;

unsigned NoiseAnalysis::number(Value value) {
  return numbers.try_emplace(value, numbers.size()).first->second;
}

NoiseAnalysis::Program NoiseAnalysis::build(Block &block, unsigned depth) {
  Program program;
  for (BlockArgument argument : block.getArguments())
    program.arguments.push_back(number(argument));
  for (Operation &op : block.without_terminator())
    if (llvm::any_of(op.getResultTypes(), hasNoise))
      program.steps.push_back(buildStep(op, depth));
  for (Value operand : block.getTerminator()->getOperands())
    program.results.push_back(number(operand));
  return program;
}

NoiseAnalysis::Step NoiseAnalysis::buildStep(Operation &op, unsigned depth) {
  Step step;
  step.op = &op;
  for (Value result : op.getResults())
    step.results.push_back(number(result));
  if (stablehlo::isControlFlow(&op)) {
    for (Value operand : op.getOperands())
      step.operands.push_back(number(operand));
    auto loop = dyn_cast<stablehlo::WhileOp>(op);
    if (loop)
      step.trips =
          std::min(stablehlo::getTripCount(loop).value_or(kUnknownTrips),
                   depth == 0 ? kMaxTrips : kMaxInnerTrips);
    for (Region &region : op.getRegions())
      if (!loop || &region == &loop.getBody())
        step.regions.push_back(build(region.front(), depth + (loop ? 1 : 0)));
    return step;
  }
  buildEdges(op, step);
  step.flip = getFlipRate(&op, facts);
  if (stablehlo::isContraction(&op)) {
    const ScaleFacts &x = facts.lookup(op.getOperand(0));
    step.product = getNoiseGain(op.getOpOperand(0), op.getResult(0), facts) *
                   x.rms * x.rms;
  }
  return step;
}

/// True if forward ops lead from the value to a dot of two values.
static bool leadsToDot(Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (size_t i = 0; i < seen.size(); ++i)
    for (OpOperand &use : seen[i].getUses()) {
      Operation *user = use.getOwner();
      if (getPhase(user) != Phase::Forward && !stablehlo::isControlFlow(user))
        continue;
      if (stablehlo::isContraction(user) && !isSquare(user))
        return true;
      seen.insert_range(stablehlo::getFollowers(use));
    }
  return false;
}

/// True if the op subtracts a target from an output, with no dot between it and
/// the loss. A gradient that starts there falls with the loss, while the
/// output's error stays. The gradient of a cross entropy falls with both.
static bool isResidual(Operation &op, const ScaleAnalysis &facts) {
  if (!isFloatTensor(op.getResult(0).getType()) ||
      getPhase(&op) != Phase::Forward)
    return false;
  std::optional<unsigned> target = getTargetOperand(&op);
  return target && !facts.lookup(op.getOperand(*target)).constant &&
         !leadsToDot(op.getResult(0));
}

void NoiseAnalysis::buildEdges(Operation &op, Step &step) {
  if (residualGain && isResidual(op, facts)) {
    // The output becomes as large as its target, and the difference small.
    const ScaleFacts &y = facts.lookup(op.getResult(0));
    for (Value operand : op.getOperands()) {
      const ScaleFacts &x = facts.lookup(operand);
      if (!x.anyScale && x.rms > 0)
        step.edges.push_back({number(operand), step.results.front(),
                              *residualGain * y.rms * y.rms / (x.rms * x.rms)});
    }
    return;
  }
  if (const auto *function = functions->visit(&op)) {
    const ScaleFacts &y = facts.lookup(op.getResult(0));
    double gain = y.anyScale ? 0
                             : y.rms * y.rms *
                                   ElementFunctions::getRelativeGain(*function);
    // The mean square precedes the functions of it that divide by its root.
    if (auto it = vanishing.find(op.getResult(0)); it != vanishing.end()) {
      vanishing[function->root] = it->second;
    } else if (it = vanishing.find(function->root); it != vanishing.end()) {
      gain *= it->second;
      step.limit = y.anyScale ? 0 : y.rms * y.rms;
    }
    step.edges.push_back({number(function->root), step.results.front(), gain});
    return;
  }
  for (OpResult result : op.getResults())
    for (OpOperand &operand : op.getOpOperands())
      if (double gain = getNoiseGain(operand, result, facts); gain != 0)
        step.edges.push_back({number(operand.get()), number(result), gain});
}

void NoiseAnalysis::run(const Program &program, const Sources &sources) {
  for (const Step &step : program.steps) {
    if (!step.regions.empty()) {
      runRegions(step, sources);
      continue;
    }
    for (unsigned result : step.results)
      variances[result] = 0;
    for (const Edge &edge : step.edges)
      variances[edge.to] += edge.gain * variances[edge.from];
    if (step.flip != 0) {
      double &variance = variances[step.results.front()];
      double gain = variance > 0 ? step.flip / std::sqrt(variance) : 0;
      shares[step.results.front()] = gain;
      variance = std::min(0.5, gain * variance);
    }
    if (step.limit) {
      double &variance = variances[step.results.front()];
      double share = variance > *step.limit ? *step.limit / variance : 1;
      shares[step.results.front()] = share;
      variance *= share;
    }
    if (step.product != 0)
      variances[step.results.front()] += step.product * sources.lookup(step.op);
  }
}

/// Assigns `from` to `to` simultaneously.
static void assign(std::vector<double> &values, ArrayRef<unsigned> to,
                   ArrayRef<unsigned> from) {
  auto kept = llvm::map_to_vector(from, [&](unsigned i) { return values[i]; });
  for (auto [index, value] : llvm::zip(to, kept))
    values[index] = value;
}

void NoiseAnalysis::runRegions(const Step &step, const Sources &sources) {
  if (isa<stablehlo::WhileOp>(step.op)) {
    const Program &body = step.regions.front();
    assign(variances, body.arguments, step.operands);
    for (int64_t trip = 0; trip < step.trips; ++trip) {
      run(body, sources);
      assign(variances, body.arguments, body.results);
    }
    assign(variances, step.results, body.arguments);
    return;
  }
  for (unsigned result : step.results)
    variances[result] = 0;
  double share = 1.0 / static_cast<double>(step.regions.size());
  for (const Program &region : step.regions) {
    if (region.arguments.size() == step.operands.size())
      assign(variances, region.arguments, step.operands);
    run(region, sources);
    for (auto [to, from] : llvm::zip(step.results, region.results))
      variances[to] += share * variances[from];
  }
}

void NoiseAnalysis::runTransposed(const Program &program,
                                  const Sources &sources, Sources &found) {
  for (const Step &step : llvm::reverse(program.steps)) {
    if (!step.regions.empty()) {
      runRegionsTransposed(step, sources, found);
      continue;
    }
    if (step.product != 0) {
      double weight = variances[step.results.front()];
      if (double source = sources.lookup(step.op); source * weight != 0)
        found[step.op] += weight * step.product * source;
    }
    if (step.flip != 0 || step.limit)
      variances[step.results.front()] *= shares[step.results.front()];
    for (const Edge &edge : step.edges)
      variances[edge.from] += edge.gain * variances[edge.to];
    for (unsigned result : step.results)
      variances[result] = 0;
  }
}

/// Adds the values at `from` to those at `to`, and zeroes `from`.
static void flow(std::vector<double> &values, ArrayRef<unsigned> to,
                 ArrayRef<unsigned> from, double share = 1) {
  auto kept = llvm::map_to_vector(
      from, [&](unsigned i) { return std::exchange(values[i], 0); });
  for (auto [index, value] : llvm::zip(to, kept))
    values[index] += share * value;
}

void NoiseAnalysis::runRegionsTransposed(const Step &step,
                                         const Sources &sources,
                                         Sources &found) {
  if (isa<stablehlo::WhileOp>(step.op)) {
    const Program &body = step.regions.front();
    flow(variances, body.arguments, step.results);
    for (int64_t trip = 0; trip < step.trips; ++trip) {
      flow(variances, body.results, body.arguments);
      runTransposed(body, sources, found);
    }
    flow(variances, step.operands, body.arguments);
    return;
  }
  auto weights = llvm::map_to_vector(
      step.results, [&](unsigned i) { return std::exchange(variances[i], 0); });
  double share = 1.0 / static_cast<double>(step.regions.size());
  for (const Program &region : step.regions) {
    for (auto [to, weight] : llvm::zip(region.results, weights))
      variances[to] += share * weight;
    runTransposed(region, sources, found);
    if (region.arguments.size() == step.operands.size())
      flow(variances, step.operands, region.arguments);
  }
}

SmallVector<double> NoiseAnalysis::predict(const Sources &sources,
                                           ArrayRef<Value> values) {
  variances.assign(numbers.size(), 0);
  shares.assign(numbers.size(), 0);
  run(*main, sources);
  return llvm::map_to_vector(
      values, [&](Value value) { return variances[numbers.lookup(value)]; });
}

NoiseAnalysis::Sources NoiseAnalysis::attribute(const Sources &sources,
                                                ArrayRef<Value> values,
                                                ArrayRef<double> weights) {
  variances.assign(numbers.size(), 0);
  for (auto [value, weight] : llvm::zip(values, weights))
    variances[numbers.lookup(value)] += weight;
  Sources found;
  runTransposed(*main, sources, found);
  return found;
}
