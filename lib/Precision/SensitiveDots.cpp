//===- SensitiveDots.cpp - Dots whose rounding harms gradients ------------===//
//
// Nearly all errors that FP8 rounding causes in gradients come from the
// forward: gradients are taken at values that are not those of F32.
// Normalisations of small values, comparisons, as of ReLU, and regressions,
// whose residual falls while the error of the output stays, turn small errors
// of activations into large errors of gradients. If the noise analysis predicts
// these, the forward dots with the most noise per work take the recipe's
// formats for sensitive dots, and F32 if these do not suffice. If that does not
// suffice, other dots do.
//
// Formats that stay for all of training also hold for weights that have grown,
// whose sizes are a guess. Where queries and keys then need more than FP8, the
// forward is F32: sharp attention multiplies its errors, and 16 bits leave too
// many.
//
//===----------------------------------------------------------------------===//

#include "SensitiveDots.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Precision/GradientLimits.h"
#include "scalify/Precision/ValueOrigin.h"
#include "scalify/Scaling/MeasuredArguments.h"
#include "scalify/Scaling/NoiseAnalysis.h"
#include "scalify/Scaling/Rules.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace scalify;

static constexpr unsigned kMaxWideningRounds = 8;
/// log2 of the correction beyond which it also multiplies the error that a
/// weight's gradient has from rounding in its own dot. That error passes no
/// other op, so the analysis predicts it well, unless the gradient is a sum of
/// terms that cancel. Operands in E4M3 and E5M2 have an error of 0.003, which
/// exceeds half of the limit, 0.04, from 2^4 on. So such dots become wider from
/// a correction of 2^10 on: after all others, and before the largest one that
/// callers try, 2^12.
static constexpr int64_t kWeightGradientExponent = 6;
/// No error is a hundred times its gradient: if so much is predicted, the
/// analysis has lost track of the values, and cannot tell whether other dots
/// would help.
static constexpr double kMaxCredibleError = 1e4;

namespace {
class SensitivityFinder {
public:
  SensitivityFinder(FunctionOpInterface func,
                    const llvm::MapVector<Operation *, RoundedDot> &dots,
                    int64_t exponent, bool trained)
      : correction(std::ldexp(1.0, static_cast<int>(exponent))),
        weightGradientCorrection(
            std::ldexp(1.0, static_cast<int>(std::max<int64_t>(
                                exponent - kWeightGradientExponent, 0)))),
        trained(trained),
        facts(func, /*composites=*/true, Priors::of(func), trained),
        noise(func, facts), dots(dots) {
    for (auto &[dot, rounded] : dots)
      sources[dot] = corrected(rounded, rounded.noise);
    findGradients(func.getFunctionBody().front());
  }

  using Found = llvm::MapVector<Operation *, SensitiveDot>;
  Found find();
  /// If gradients miss the limits, adds forward dots of layers in the recipe's
  /// formats for sensitive dots; all of them in F32 if dots that make queries
  /// and keys are among these.
  void addForGrownWeights(ArrayRef<Operation *> scores, Found &found);

private:
  void findGradients(Block &body);
  bool knowsSizes() const;
  void predict();
  bool isWithin(double share) const {
    return worst <= share * kMaxWorstError && all <= share * kMaxTotalError;
  }
  bool isCredible() const {
    return std::max(worst, all) <= kMaxCredibleError * correction;
  }
  SmallVector<double> weigh(double room) const;
  double corrected(const RoundedDot &dot, double noise) const {
    return noise *
           (dot.isWeightGradient ? weightGradientCorrection : correction);
  }
  double getNoise(Operation *dot, bool isWide) const {
    const RoundedDot &rounded = dots.find(dot)->second;
    return isWide ? 0 : corrected(rounded, rounded.sensitiveNoise);
  }
  void widen(RoundedDot::Turn turn, bool isWide, double room, Found &found);
  void widenUntilWithin(RoundedDot::Turn turn, bool isWide, Found &found);

  /// The mean square of errors as measured over the predicted one, and what of
  /// it applies to the dots that compute gradients of weights.
  double correction, weightGradientCorrection;
  /// Weights have the sizes to which training brings them.
  bool trained;
  ScaleAnalysis facts;
  NoiseAnalysis noise;
  const llvm::MapVector<Operation *, RoundedDot> &dots;
  NoiseAnalysis::Sources sources;
  SmallVector<Value> gradients;
  /// For each gradient, the mean square of its error over its own mean square.
  SmallVector<double> errors;
  double worst = 0, all = 0;
};
} // namespace

/// Collects the gradients that the optimizer or the caller reads.
void SensitivityFinder::findGradients(Block &body) {
  auto isTaken = [&](OpOperand &use) {
    Operation *user = body.findAncestorOpInBlock(*use.getOwner());
    return user->hasTrait<OpTrait::IsTerminator>() ||
           getPhase(user) == Phase::Optimizer;
  };
  for (Operation &op : body)
    for (Value value : op.getResults()) {
      if (!isFloatTensor(value.getType()) || !isGradient(value) ||
          llvm::none_of(value.getUses(), isTaken))
        continue;
      const ScaleFacts &x = facts.lookup(value);
      if (!x.anyScale && x.rms > 0 && countElements(value) > 1)
        gradients.push_back(value);
    }
}

void SensitivityFinder::predict() {
  errors = noise.predict(sources, gradients);
  double error = 0, square = 0;
  worst = 0;
  for (auto [value, variance] : llvm::zip(gradients, errors)) {
    double own = facts.lookup(value).rms * facts.lookup(value).rms;
    error += countElements(value) * variance;
    square += countElements(value) * own;
    variance /= own;
    worst = std::max(worst, variance);
  }
  all = square > 0 ? error / square : 0;
}

/// Returns the weight of each gradient's variance, by the excess over its
/// limit.
SmallVector<double> SensitivityFinder::weigh(double room) const {
  SmallVector<double> weights;
  double limit = room * kMaxWorstError;
  for (auto [value, error] : llvm::zip(gradients, errors)) {
    double own = facts.lookup(value).rms * facts.lookup(value).rms;
    double excess = error > limit || all > room * kMaxTotalError
                        ? std::max(error, limit) / limit
                        : 0;
    weights.push_back(excess / own);
  }
  return weights;
}

static double countWork(Operation *dot) {
  double elements = countElements(dot->getResult(0));
  double a = countElements(dot->getOperand(0));
  double b = countElements(dot->getOperand(1));
  return std::sqrt(elements * a * b);
}

void SensitivityFinder::widen(RoundedDot::Turn turn, bool isWide, double room,
                              Found &found) {
  NoiseAnalysis::Sources parts =
      noise.attribute(sources, gradients, weigh(room));
  double total = 0;
  SmallVector<std::pair<size_t, Operation *>> candidates;
  for (auto &[dot, rounded] : dots) {
    total += parts.lookup(dot);
    if (rounded.turn == turn && parts.lookup(dot) > 0 &&
        sources.lookup(dot) > getNoise(dot, isWide))
      candidates.emplace_back(candidates.size(), dot);
  }
  // Ties are in program order.
  llvm::sort(candidates, [&](const auto &a, const auto &b) {
    double first = parts.lookup(a.second) * countWork(b.second);
    double second = parts.lookup(b.second) * countWork(a.second);
    return first > second || (first == second && a.first < b.first);
  });
  double reach =
      std::max(worst / (room * kMaxWorstError), all / (room * kMaxTotalError));
  double left = (1 - 1 / reach) * total;
  for (auto [place, dot] : candidates) {
    if (left <= 0)
      break;
    double part = parts.lookup(dot), own = getNoise(dot, isWide);
    left -= part * (1 - own / sources.lookup(dot));
    std::string why =
        llvm::formatv("its rounding makes up {0:P0} of the error of gradients, "
                      "estimated at {1:F2} of their mean square{2}",
                      part / total, std::max(worst, all),
                      trained ? " once weights have grown" : "");
    found[dot] = {std::move(why), isWide};
    sources[dot] = own;
  }
}

/// True if the recipe's formats for sensitive dots are narrow.
static bool areSensitiveFormatsNarrow(
    const llvm::MapVector<Operation *, RoundedDot> &dots) {
  return llvm::any_of(
      dots, [](auto &entry) { return entry.second.sensitiveNoise > 0; });
}

void SensitivityFinder::widenUntilWithin(RoundedDot::Turn turn, bool isWide,
                                         Found &found) {
  bool isNarrow = !isWide && areSensitiveFormatsNarrow(dots);
  double room = isNarrow ? kNarrowRoom : kRoom;
  for (unsigned round = 0; round < kMaxWideningRounds && !isWithin(room);
       ++round) {
    auto before = sources;
    widen(turn, isWide, room, found);
    if (sources == before)
      break;
    predict();
  }
}

/// True if an op other than the optimizer's reads the argument.
static bool reachesLoss(Value arg) {
  return llvm::any_of(arg.getUsers(), [](Operation *user) {
    return !user->hasTrait<OpTrait::IsTerminator>() &&
           getPhase(user) != Phase::Optimizer;
  });
}

/// Weights without a scale count as 2^0, so that predictions mean nothing.
/// Moments may have any size.
bool SensitivityFinder::knowsSizes() const {
  return llvm::none_of(facts.getUndeclaredArguments(), reachesLoss);
}

/// Returns the dots that a dot's operands follow without another dot between,
/// as the products that make queries and keys, also into loops.
static SetVector<Operation *> getProducers(Operation *dot) {
  SetVector<Operation *> found;
  SmallVector<Value> open(dot->getOperands());
  DenseSet<Value> seen;
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    Operation *producer = value.getDefiningOp();
    if (producer && stablehlo::isContraction(producer))
      found.insert(producer);
    else
      llvm::append_range(open, stablehlo::getSources(value));
  }
  return found;
}

void SensitivityFinder::addForGrownWeights(ArrayRef<Operation *> scores,
                                           Found &found) {
  if (!knowsSizes())
    return;
  for (auto &[dot, sensitive] : found)
    sources[dot] = getNoise(dot, sensitive.isWide);
  predict();
  if (isWithin(1))
    return;
  widenUntilWithin(RoundedDot::First, /*isWide=*/false, found);
  // A dot that is wide for another reason says nothing.
  auto needsMore = [&](Operation *dot) {
    auto it = dots.find(dot);
    return found.contains(dot) ||
           (it != dots.end() && it->second.noise <= it->second.sensitiveNoise);
  };
  bool isSharp = llvm::any_of(scores, [&](Operation *score) {
    return llvm::any_of(getProducers(score), needsMore);
  });
  if (!isSharp)
    return;
  for (auto &[dot, rounded] : dots)
    if (rounded.turn == RoundedDot::First)
      found[dot] = {"attention becomes sharp as weights grow, and multiplies "
                    "errors of the forward",
                    /*isWide=*/true};
}

SensitivityFinder::Found SensitivityFinder::find() {
  Found found;
  if (!knowsSizes())
    return found;
  predict();
  if (isWithin(areSensitiveFormatsNarrow(dots) ? kRoom : 1))
    return found;
  widenUntilWithin(RoundedDot::First, /*isWide=*/false, found);
  if (isWithin(1))
    return found;
  // 16 bits cost less than F32. If the dots that are not widened dominate the
  // error, others do not help.
  Found more = found;
  if (areSensitiveFormatsNarrow(dots) && isCredible()) {
    NoiseAnalysis::Sources before = sources;
    widenUntilWithin(RoundedDot::Second, /*isWide=*/false, more);
    if (isWithin(1))
      return more;
    sources = before;
    predict();
  }
  widenUntilWithin(RoundedDot::First, /*isWide=*/true, found);
  if (isWithin(1) || !isCredible())
    return found;
  more = found;
  widenUntilWithin(RoundedDot::Second, /*isWide=*/false, more);
  if (!isWithin(1))
    widenUntilWithin(RoundedDot::Second, /*isWide=*/true, more);
  return isWithin(1) ? more : found;
}

llvm::MapVector<Operation *, SensitiveDot>
scalify::findSensitiveDots(FunctionOpInterface func,
                           const llvm::MapVector<Operation *, RoundedDot> &dots,
                           ArrayRef<Operation *> scores,
                           const NoiseOptions &options) {
  if (llvm::all_of(dots, [](auto &entry) {
        return entry.second.turn == RoundedDot::Never;
      }))
    return {};
  // Sizes that each step measures are guesses here.
  bool areGuesses = llvm::any_of(func.getArguments(), [&](BlockArgument arg) {
    return func.getArgAttr(arg.getArgNumber(), kMeasuredAttr) &&
           reachesLoss(arg);
  });
  SensitivityFinder::Found found;
  if (!areGuesses)
    found = SensitivityFinder(func, dots, options.exponent, /*trained=*/false)
                .find();
  if (options.stays && areSensitiveFormatsNarrow(dots))
    SensitivityFinder(func, dots, options.exponent, /*trained=*/true)
        .addForGrownWeights(scores, found);
  return found;
}
