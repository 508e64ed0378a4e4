//===- PlaceRescales.cpp - Where the step measures scales -----------------===//
//
// Predicted scales drift with the number of products since a scale was known. A
// measurement where a gradient joins the residual stream corrects all values
// that depend on it; a transformer has two such joins per layer. Joins are
// found by their shape, without names: a sum, one term of which also leads to
// another term through a product. A measurement costs the bytes that it reads,
// so it reads a sample of the rows if reading all costs too much.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Scaling/Passes.h"

#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Locations.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Regex.h"

#include <set>

namespace scalify {
#define GEN_PASS_DEF_PLACERESCALES
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

// On the example, twelve layers of about six products in a row drift by four
// binades at most.
static constexpr double kDriftPerProduct = 1.0 / 16;
// Fewer rows do not represent a tensor.
static constexpr int64_t kMinRows = 64;
static constexpr int64_t kMaxSampleStride = 64;

static bool isFullFloatTensor(Value value) {
  return isFloatTensor(value.getType()) &&
         cast<ShapedType>(value.getType()).getRank() > 1;
}

static bool isProduct(Operation *op) {
  return isa<stablehlo::DotGeneralOp, stablehlo::ConvolutionOp>(op);
}

static bool containsProduct(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        return isProduct(inner) ? WalkResult::interrupt()
                                : WalkResult::advance();
      })
      .wasInterrupted();
}

namespace {

/// A value to measure, and the stride of its sampled rows.
struct Place {
  Value value;
  std::string by;
  int64_t sample = 1;
};

/// Finds the sums that join a residual stream, in one block.
class JoinFinder {
public:
  explicit JoinFinder(Block &block) {
    for (auto [index, op] : llvm::enumerate(block))
      order[&op] = static_cast<int64_t>(index);
  }
  bool isJoin(stablehlo::AddOp add, Phase phase) const;

private:
  int64_t indexOf(Value value) const {
    Operation *op = value.getDefiningOp();
    auto it = order.find(op);
    return it == order.end() ? -1 : it->second;
  }
  bool leadsThroughProduct(Value source, ArrayRef<Value> targets) const;

  DenseMap<Operation *, int64_t> order;
};

} // namespace

static bool isInnerSum(stablehlo::AddOp add) {
  return add->hasOneUse() && isa<stablehlo::AddOp>(*add->user_begin());
}

/// True if a path through a product leads from `source` to a target. Visits
/// only ops between them.
bool JoinFinder::leadsThroughProduct(Value source,
                                     ArrayRef<Value> targets) const {
  int64_t first = indexOf(source);
  DenseSet<std::pair<Value, int>> seen;
  SmallVector<std::pair<Value, int>> worklist;
  for (Value target : targets)
    worklist.push_back({target, 0});
  while (!worklist.empty()) {
    auto [value, passed] = worklist.pop_back_val();
    if (value == source) {
      if (passed != 0)
        return true;
      continue;
    }
    if (indexOf(value) <= first || !seen.insert({value, passed}).second)
      continue;
    Operation *op = value.getDefiningOp();
    int next = passed != 0 || containsProduct(op);
    for (Value operand : op->getOperands())
      worklist.push_back({operand, next});
  }
  return false;
}

bool JoinFinder::isJoin(stablehlo::AddOp add, Phase phase) const {
  if (!isFullFloatTensor(add.getResult()) || !isInPhase(add, phase) ||
      isInnerSum(add))
    return false;
  SmallVector<Value> terms, worklist{add.getLhs(), add.getRhs()};
  while (!worklist.empty()) {
    Value term = worklist.pop_back_val();
    auto inner = term.getDefiningOp<stablehlo::AddOp>();
    if (inner && isInnerSum(inner) && isInPhase(inner, phase))
      llvm::append_range(worklist, inner->getOperands());
    else
      terms.push_back(term);
  }
  return llvm::any_of(terms, [&](Value term) {
    Value source = lookThrough(term, Move::Convert | Move::Reshape);
    SmallVector<Value> others;
    llvm::copy_if(terms, std::back_inserter(others),
                  [&](Value other) { return other != term; });
    return !source.hasOneUse() && leadsThroughProduct(source, others);
  });
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Finds the results that leave the ops of one phase whose names match.
static void findByLocation(Block &block, llvm::Regex &pattern, Phase phase,
                           StringRef by, SmallVectorImpl<Place> &places) {
  auto isInside = [&](Operation *op) {
    return isInPhase(op, phase) && pattern.match(getNameStack(op->getLoc()));
  };
  for (Operation &op : block)
    if (isInside(&op))
      for (Value result : op.getResults())
        if (isFullFloatTensor(result) &&
            !llvm::all_of(result.getUsers(), isInside))
          places.push_back({result, by.str()});
}

static void findJoins(Block &block, Phase phase, StringRef by,
                      SmallVectorImpl<Place> &places) {
  JoinFinder finder(block);
  for (auto add : block.getOps<stablehlo::AddOp>())
    if (finder.isJoin(add, phase))
      places.push_back({add.getResult(), by.str()});
}

/// Keeps the places at which the prediction may have drifted by `least`
/// binades since the place before.
static void filterByDrift(Block &block, double least,
                          SmallVectorImpl<Place> &places) {
  DenseMap<Value, double> drift;
  DenseSet<Value> wanted, kept;
  for (const Place &place : places)
    wanted.insert(place.value);
  for (Operation &op : block) {
    double most = 0;
    for (Value operand : op.getOperands())
      most = std::max(most, drift.lookup(operand));
    if (containsProduct(&op))
      most += kDriftPerProduct;
    for (Value result : op.getResults()) {
      bool keep = wanted.contains(result) && most >= least;
      if (keep)
        kept.insert(result);
      drift[result] = keep ? 0 : most;
    }
  }
  llvm::erase_if(
      places, [&](const Place &place) { return !kept.contains(place.value); });
}

/// Returns the bytes that current scaling would read: every operand of a
/// product without batch dimensions, once.
static int64_t countCurrentBytes(func::FuncOp func) {
  DenseSet<Value> operands;
  int64_t bytes = 0;
  func.walk([&](stablehlo::DotGeneralOp dot) {
    if (!dot.getDotDimensionNumbers().getLhsBatchingDimensions().empty())
      return;
    for (Value operand : dot->getOperands()) {
      Value root = lookThrough(operand, Move::Reshape | Move::Transpose);
      if (operands.insert(root).second)
        bytes += countBytes(root);
    }
  });
  return bytes;
}

/// Returns the largest stride up to `sample` that leaves enough rows.
static int64_t limitSample(Value value, int64_t sample) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t rows =
      type.getNumElements() / std::max<int64_t>(1, type.getShape().back());
  int64_t longest = *llvm::max_element(type.getShape().drop_back());
  while (sample > 1 && (rows / sample < kMinRows || longest < sample))
    sample /= 2;
  return sample;
}

/// Raises the strides until all places together read at most `limit` bytes.
/// Returns the bytes read.
static int64_t fitBudget(MutableArrayRef<Place> places, double limit) {
  int64_t bytes = 0;
  for (int64_t sample = 1; sample <= kMaxSampleStride; sample *= 2) {
    bytes = 0;
    for (Place &place : places) {
      place.sample = limitSample(place.value, sample);
      bytes += countBytes(place.value) / place.sample;
    }
    if (static_cast<double>(bytes) <= limit)
      break;
  }
  return bytes;
}

namespace {
struct PlaceRescalesPass : scalify::impl::PlaceRescalesBase<PlaceRescalesPass> {
  using PlaceRescalesBase::PlaceRescalesBase;

  void runOnOperation() override {
    SmallVector<std::string> names(places.begin(), places.end());
    if (names.empty())
      if (auto attr = getOperation()->getAttrOfType<ArrayAttr>(kPlacesAttr))
        for (auto name : attr.getAsRange<StringAttr>())
          names.push_back(name.str());
    getOperation()->removeAttr(kPlacesAttr);
    for (StringAttr name : RecipeAttr::of(getOperation()).getRescale())
      if (!llvm::is_contained(names, name.getValue()))
        names.push_back(name.str());
    if (names.empty())
      return markAllAnalysesPreserved();
    std::optional<scalify::Statistic> kind = symbolizeStatistic(statistic);
    if (!kind) {
      getOperation().emitError("unknown statistic '")
          << statistic << "': expected one of max, l1, l2";
      return signalPassFailure();
    }
    std::set<StringRef> met;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && failed(place(func, names, *kind, met)))
        return signalPassFailure();
    if (failed(checkAllMet(names, met)))
      signalPassFailure();
  }

  /// Emits a remark, or an error under strict, for each place that matches no
  /// value. A place of gradients is exempt in a program without a backward: one
  /// recipe serves the training step and the evaluation.
  LogicalResult checkAllMet(ArrayRef<std::string> names,
                            const std::set<StringRef> &met) {
    bool hasBackward = false;
    std::set<std::string> known;
    getOperation().walk([&](Operation *op) {
      hasBackward |= isInPhase(op, Phase::Backward);
      std::string stack = getNameStack(op->getLoc());
      if (!stack.empty() && known.size() < 8)
        known.insert(stack);
    });
    LogicalResult result = success();
    for (StringRef name : names) {
      bool isOfGradients = name == "residual_grad" || name.starts_with("grad:");
      if (met.count(name) || (isOfGradients && !hasBackward))
        continue;
      InFlightDiagnostic note =
          strict ? getOperation().emitError() : getOperation().emitRemark();
      note << "'rescale' has the place '" << name
           << "', which matches no value";
      if (name == "residual_grad" || name == "residual")
        note << " (it is a sum x + f(x) in which f has products: give a "
                "regular expression for names in locations)";
      else if (known.empty())
        note << ": no op of this program has a location with a name";
      else
        note << ": ops of this program are at places such as "
             << llvm::join(known, ", ");
      if (strict)
        result = failure();
    }
    return result;
  }

  LogicalResult place(func::FuncOp func, ArrayRef<std::string> names,
                      scalify::Statistic kind, std::set<StringRef> &met) {
    SmallVector<Place> found;
    WalkResult result = func.walk<WalkOrder::PreOrder>([&](Block *block) {
      SmallVector<Place> here;
      for (const std::string &name : names) {
        size_t before = here.size();
        if (failed(find(func, *block, name, here)))
          return WalkResult::interrupt();
        if (here.size() != before)
          met.insert(name);
      }
      filterByDrift(*block, drift, here);
      llvm::append_range(found, here);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    auto current = static_cast<double>(countCurrentBytes(func));
    int64_t bytes = fitBudget(found, budget * current);
    bytesRead += bytes;
    DenseSet<Value> placed;
    for (const Place &place : found)
      if (placed.insert(place.value).second)
        insert(place, kind);
    numPlaced += placed.size();
    // Pass statistics are compiled out of most builds of LLVM.
    func.emitRemark("rescales: ")
        << placed.size() << " placed, which read " << bytes << " bytes a step, "
        << llvm::formatv("{0:F1}", 100 * bytes / std::max(current, 1.0)).str()
        << " % of what current scaling reads for its amaxes";
    return success();
  }

  LogicalResult find(func::FuncOp func, Block &block, StringRef name,
                     SmallVectorImpl<Place> &here) {
    if (name == "residual_grad" || name == "residual") {
      findJoins(block, name == "residual" ? Phase::Forward : Phase::Backward,
                name, here);
      return success();
    }
    StringRef text = name;
    Phase phase =
        text.consume_front("grad:") ? Phase::Backward : Phase::Forward;
    llvm::Regex pattern(text);
    std::string error;
    if (!pattern.isValid(error))
      return func.emitError("cannot place rescales at '")
             << name << "': " << error
             << " (expected residual, residual_grad, or a regular expression "
                "that is searched in the names of an op's location, grad: "
                "before it for its gradients)";
    findByLocation(block, pattern, phase, name, here);
    return success();
  }

  static void insert(const Place &place, scalify::Statistic kind) {
    OpBuilder builder(place.value.getContext());
    builder.setInsertionPointAfterValue(place.value);
    Operation *op = place.value.getDefiningOp();
    auto point = RescalePointOp::create(
        builder, op->getLoc(), place.value.getType(), kind, place.value,
        place.by, place.sample, DenseI64ArrayAttr());
    copyPhase(op, point);
    Value value = place.value;
    value.replaceAllUsesExcept(point, point);
  }
};
} // namespace
