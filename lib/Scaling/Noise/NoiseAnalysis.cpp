//===- NoiseAnalysis.cpp - Propagation of rounding errors -----------------===//

#include "scalify/Scaling/NoiseAnalysis.h"

#include "scalify/Scaling/CarryFacts.h"

#include "Choices.h"
#include "ElementFunctions.h"
#include "NoiseGains.h"
#include "Residuals.h"
#include "VanishingRows.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Scaling/Rules.h"

#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace scalify;

/// Errors of carries settle within some iterations, or grow evenly, so the
/// analysis executes no more iterations than these, and fewer than have facts
/// of their own (128, and 16 of inner loops). Of 16 programs of the zoo with
/// loops, under `fp8`, four that scan 64 positions get other formats with 48
/// outer iterations, and none with 128. Inner loops only bound the cost: none
/// gets other formats with 6 of their iterations.
static constexpr int64_t kMaxTrips = 96, kMaxInnerTrips = 12;
/// Nor does it build more steps of a nest of loops than this multiple of the
/// nest's ops: two or more outer iterations of all inner ones. It too bounds
/// the cost: with 64, none of these programs gets other formats.
static constexpr size_t kMaxNestSteps = 256;

NoiseAnalysis::NoiseAnalysis(FunctionOpInterface func, ScaleAnalysis &facts)
    : facts(facts), functions(std::make_unique<ElementFunctions>(facts)),
      residualGain(Priors::of(func).get(kFallingResiduals)),
      vanishing(findVanishingRows(func, facts)) {
  main = std::make_unique<Program>(build(func.getFunctionBody().front(), 0));
}

NoiseAnalysis::~NoiseAnalysis() = default;

unsigned NoiseAnalysis::number(Value value) {
  auto [it, isNew] = numbers.try_emplace(value, numVariances);
  numVariances += isNew;
  return it->second;
}

NoiseAnalysis::Program NoiseAnalysis::build(Block &block, unsigned depth) {
  Program program;
  for (BlockArgument argument : block.getArguments())
    program.arguments.push_back(number(argument));
  for (Operation &op : block.without_terminator())
    if (llvm::any_of(op.getResultTypes(), hasNoise))
      program.steps.push_back(buildStep(op, depth));
  numSteps += program.steps.size();
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
    if (auto loop = dyn_cast<stablehlo::WhileOp>(op))
      step.loop = getLoop(loop, depth);
    else
      for (Region &region : op.getRegions())
        step.branches.push_back(build(region.front(), depth));
    return step;
  }
  buildEdges(op, step);
  step.flip = getFlipRate(&op, facts);
  step.outcome = step.results.front();
  if (std::optional<Choice> choice = matchChoice(&op, facts)) {
    step.flip = choice->flipRate;
    step.outcome = number(choice->index);
    for (Value term : choice->terms)
      step.edges.push_back({number(term), step.outcome, 1});
  }
  if (stablehlo::isContraction(&op)) {
    const ScaleFacts &x = facts.lookup(op.getOperand(0));
    step.product = getNoiseGain(op.getOpOperand(0), op.getResult(0), facts) *
                   x.rms * x.rms;
  }
  return step;
}

static bool areEqualSizes(double x, double y) {
  return x == y || std::fabs(std::log2(x / y)) < kSettledBinades;
}

std::shared_ptr<const NoiseAnalysis::Loop>
NoiseAnalysis::getLoop(stablehlo::WhileOp loop, unsigned depth) {
  llvm::SetVector<Value> reads(loop->operand_begin(), loop->operand_end());
  getUsedValuesDefinedAbove(loop.getBody(), reads);
  SmallVector<double, 0> sizes;
  for (Value value : reads)
    sizes.push_back(facts.lookup(value).rms);
  std::shared_ptr<const Loop> &last = loops[loop];
  if (!last || !llvm::equal(last->sizes, sizes, areEqualSizes)) {
    std::shared_ptr<Loop> built = buildLoop(loop, depth);
    built->sizes = std::move(sizes);
    // Inner loops have moved the entry.
    return loops[loop] = std::move(built);
  }
  return last;
}

/// The gains of an iteration follow from the facts of that iteration: a norm's
/// is large where the carry is small, and a residual stream grows away from its
/// start. Of a nest, the first outer iterations are built.
std::shared_ptr<NoiseAnalysis::Loop>
NoiseAnalysis::buildLoop(stablehlo::WhileOp loop, unsigned depth) {
  auto built = std::make_shared<Loop>();
  Block &body = loop.getBody().front();
  built->trips = std::min(stablehlo::getTripCount(loop).value_or(kUnknownTrips),
                          depth < 2 ? kMaxTrips : kMaxInnerTrips);
  built->exitRatios.assign(loop->getNumResults(), 1);
  if (depth > 1 || built->trips == 0) {
    built->iterations.push_back(build(body, depth + 1));
    return built;
  }
  for (unsigned i = 0; i < loop->getNumResults(); ++i)
    if (Value update = stablehlo::getStackedUpdate(loop, i))
      stacks[body.getTerminator()->getOperand(i).getDefiningOp()] = {
          loop.getResult(i), facts.lookup(update).rms};
  size_t budget = std::numeric_limits<size_t>::max(), ops = 0;
  body.walk([&](Operation *op) {
    ++ops;
    if (depth == 0 && isa<stablehlo::WhileOp>(op))
      budget = 0;
  });
  if (budget == 0)
    budget = numSteps + kMaxNestSteps * ops;
  std::vector<double> last;
  facts.visitIterations(loop, depth, [&] {
    auto number = static_cast<int64_t>(built->iterations.size());
    if (number >= built->trips || (number > 0 && numSteps >= budget))
      return;
    llvm::SaveAndRestore scope(iteration, static_cast<size_t>(number));
    built->iterations.push_back(build(body, depth + 1));
    last.clear();
    for (Value next : body.getTerminator()->getOperands())
      last.push_back(facts.lookup(next).rms);
  });
  for (auto [i, rms] : llvm::enumerate(last))
    if (double all = facts.lookup(loop.getResult(i)).rms;
        rms > 0 && all > 0 && !stablehlo::getStackedUpdate(loop, i))
      built->exitRatios[i] = all * all / (rms * rms);
  return built;
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

/// Builds the edges of an op that writes or reads a slice of a stack: each
/// slice has an error of its own beside that of the stack as a whole, which
/// readers have that choose slices otherwise.
bool NoiseAnalysis::buildSliceEdges(Operation &op, Step &step) {
  if (std::optional<ScaleAnalysis::StackSlice> slice = facts.getSlice(&op)) {
    auto it = slices.find(slice->stack);
    if (it == slices.end())
      return false;
    size_t written = std::min(slice->iteration, it->second.size() - 1);
    step.edges.push_back({it->second[written], step.results.front(), 1});
    return true;
  }
  auto it = stacks.find(&op);
  if (it == stacks.end())
    return false;
  auto update = cast<stablehlo::DynamicUpdateSliceOp>(op);
  unsigned value = number(update.getUpdate()), whole = step.results.front();
  double share = countElements(update.getUpdate()) / countElements(update);
  double rms = facts.lookup(update.getUpdate()).rms;
  double ratio = rms > 0 ? it->second.rms * it->second.rms / (rms * rms) : 1;
  step.edges.push_back({number(update.getOperand()), whole, 1 - share});
  step.edges.push_back({value, whole, share * ratio});
  auto &written = slices[it->second.value];
  while (written.size() <= iteration)
    written.push_back(numVariances++);
  step.results.push_back(written[iteration]);
  step.edges.push_back({value, step.results.back(), 1});
  return true;
}

void NoiseAnalysis::buildEdges(Operation &op, Step &step) {
  if (buildSliceEdges(op, step))
    return;
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
    if (step.loop || !step.branches.empty()) {
      runRegions(step, sources);
      continue;
    }
    for (unsigned result : step.results)
      variances[result] = 0;
    for (const Edge &edge : step.edges)
      variances[edge.to] += edge.gain * variances[edge.from];
    if (step.flip != 0) {
      double &variance = variances[step.outcome];
      double gain = variance > 0 ? step.flip / std::sqrt(variance) : 0;
      shares.push_back(gain);
      variance = std::min(0.5, gain * variance);
    }
    if (step.limit) {
      double &variance = variances[step.results.front()];
      double share = variance > *step.limit ? *step.limit / variance : 1;
      shares.push_back(share);
      variance *= share;
    }
    if (step.product != 0)
      variances[step.results.front()] += step.product * sources.lookup(step.op);
  }
}

/// Assigns `from`, multiplied by the ratios if there are any, to `to`
/// simultaneously.
static void assign(std::vector<double> &values, ArrayRef<unsigned> to,
                   ArrayRef<unsigned> from, ArrayRef<double> ratios = {}) {
  auto kept = llvm::map_to_vector(from, [&](unsigned i) { return values[i]; });
  for (auto [value, ratio] : llvm::zip(kept, ratios))
    value *= ratio;
  for (auto [index, value] : llvm::zip(to, kept))
    values[index] = value;
}

void NoiseAnalysis::runRegions(const Step &step, const Sources &sources) {
  if (step.loop) {
    const Program &first = step.loop->iterations.front();
    assign(variances, first.arguments, step.operands);
    for (int64_t trip = 0; trip < step.loop->trips; ++trip) {
      const Program &body = step.loop->getIteration(trip);
      run(body, sources);
      assign(variances, body.arguments, body.results);
    }
    assign(variances, step.results, first.arguments, step.loop->exitRatios);
    return;
  }
  for (unsigned result : step.results)
    variances[result] = 0;
  double share = 1.0 / static_cast<double>(step.branches.size());
  for (const Program &region : step.branches) {
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
    if (step.loop || !step.branches.empty()) {
      runRegionsTransposed(step, sources, found);
      continue;
    }
    if (step.product != 0) {
      double weight = variances[step.results.front()];
      if (double source = sources.lookup(step.op); source * weight != 0)
        found[step.op] += weight * step.product * source;
    }
    if (step.limit)
      variances[step.results.front()] *= shares[--nextShare];
    if (step.flip != 0)
      variances[step.outcome] *= shares[--nextShare];
    for (const Edge &edge : step.edges)
      variances[edge.from] += edge.gain * variances[edge.to];
    for (unsigned result : step.results)
      variances[result] = 0;
  }
}

/// Adds the values at `from`, multiplied by the ratios if there are any, to
/// those at `to`, and zeroes `from`.
static void flow(std::vector<double> &values, ArrayRef<unsigned> to,
                 ArrayRef<unsigned> from, ArrayRef<double> ratios = {}) {
  auto kept = llvm::map_to_vector(
      from, [&](unsigned i) { return std::exchange(values[i], 0); });
  for (auto [value, ratio] : llvm::zip(kept, ratios))
    value *= ratio;
  for (auto [index, value] : llvm::zip(to, kept))
    values[index] += value;
}

void NoiseAnalysis::runRegionsTransposed(const Step &step,
                                         const Sources &sources,
                                         Sources &found) {
  if (step.loop) {
    const Program &first = step.loop->iterations.front();
    flow(variances, first.arguments, step.results, step.loop->exitRatios);
    for (int64_t trip = step.loop->trips; trip-- > 0;) {
      const Program &body = step.loop->getIteration(trip);
      flow(variances, body.results, body.arguments);
      runTransposed(body, sources, found);
    }
    flow(variances, step.operands, first.arguments);
    return;
  }
  auto weights = llvm::map_to_vector(
      step.results, [&](unsigned i) { return std::exchange(variances[i], 0); });
  double share = 1.0 / static_cast<double>(step.branches.size());
  for (const Program &region : llvm::reverse(step.branches)) {
    for (auto [to, weight] : llvm::zip(region.results, weights))
      variances[to] += share * weight;
    runTransposed(region, sources, found);
    if (region.arguments.size() == step.operands.size())
      flow(variances, step.operands, region.arguments);
  }
}

SmallVector<double> NoiseAnalysis::predict(const Sources &sources,
                                           ArrayRef<Value> values) {
  variances.assign(numVariances, 0);
  shares.clear();
  run(*main, sources);
  return llvm::map_to_vector(
      values, [&](Value value) { return variances[numbers.lookup(value)]; });
}

NoiseAnalysis::Sources NoiseAnalysis::attribute(const Sources &sources,
                                                ArrayRef<Value> values,
                                                ArrayRef<double> weights) {
  variances.assign(numVariances, 0);
  for (auto [value, weight] : llvm::zip(values, weights))
    variances[numbers.lookup(value)] += weight;
  Sources found;
  nextShare = shares.size();
  runTransposed(*main, sources, found);
  return found;
}
