//===- GradientFormats.cpp - Cast gradients of weights --------------------===//
//
// Gradients that the optimizer reads are cast to the recipe's format, so that a
// gradient is narrow data from its producer to its users, and on the wire
// between ranks. Micro-batches are summed before the cast.
//
// If the leading dimension of a gradient simulates N ranks and the step sums
// over it, the gradient is cast rank by rank on a shared scale. The sum is
// exact in F32, and is cast once more on the same scale: FP8-LM's all-reduce,
// whose average is folded into the scale. For a sum over the ranks of a mesh,
// the term of each rank is cast, and the sum if it is stored narrow.
//
//===----------------------------------------------------------------------===//

#include "DotDecisions.h"
#include "GradientSums.h"
#include "RankSums.h"
#include "StorageFormats.h"

#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Import/Locations.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/StoredGradients.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;

/// True for moves and sums, which compute a gradient from gradients.
static bool passesOn(Operation *op) {
  return isa<stablehlo::AddOp, stablehlo::ConcatenateOp, stablehlo::ConvertOp,
             stablehlo::ReshapeOp, stablehlo::TransposeOp, stablehlo::PadOp,
             stablehlo::BroadcastInDimOp>(op) ||
         isRankSum(op);
}

namespace {
class GradientCaster {
public:
  GradientCaster(func::FuncOp func, RecipeAttr recipe, Caster &caster)
      : body(func.getBody().front()), recipe(recipe), caster(caster),
        builder(func.getContext()) {}

  void storeAll();
  LogicalResult narrowAllSums(bool strict);
  LogicalResult reportSumsOutsideLoops(bool strict) const;

private:
  bool isGradient(Value value, unsigned depth = 16) const;
  SmallVector<OpOperand *> getReads(Value gradient) const;
  std::optional<ScaleHint> makeHint(Value root, bool simulatesRanks,
                                    Type format);
  void store(Value gradient, ArrayRef<OpOperand *> reads);
  void storeRanks(Value gradient, ArrayRef<OpOperand *> reads);
  QuantizeOp castRankTerm(Operation *sum, std::optional<ScaleHint> &hint);
  void castStoredRankTerm(Operation *sum);
  void castRankTermsInLoops();
  void remarkOnWideSums();
  void storeRankSum(Value gradient, Operation *sum,
                    ArrayRef<OpOperand *> reads);
  void cast(Value value, ArrayRef<OpOperand *> reads, ScaleHint hint,
            int64_t index, StringRef part);
  bool simulatesRanks(Value gradient) const;

  Block &body;
  RecipeAttr recipe;
  Caster &caster;
  OpBuilder builder;
  int64_t numStored = 0;
  /// Sums over ranks whose terms have been handled.
  llvm::SmallPtrSet<Operation *, 8> summed;
  /// The scale of each cast value, and the number of its gradient.
  llvm::DenseMap<Value, std::pair<ScaleHint, int64_t>> stored;
};
} // namespace

/// True if a dot computes the value as the gradient of a weight, or if it is a
/// sum of such values.
bool GradientCaster::isGradient(Value value, unsigned depth) const {
  value = getOrigin(value);
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  if (isContraction(op))
    return isWeightGradient(op) && isOfNarrowRole(op, recipe);
  if (isRankSum(op) || isa<stablehlo::PadOp>(op))
    return isGradient(op->getOperand(0), depth - 1);
  if (isa<stablehlo::AddOp, stablehlo::ConcatenateOp>(op))
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return isGradient(operand, depth - 1);
    });
  auto loop = dyn_cast<stablehlo::WhileOp>(op);
  Value term =
      loop ? getAddedTerm(loop, mlir::cast<OpResult>(value).getResultNumber())
           : Value();
  return term && isGradient(term, depth - 1);
}

/// Returns the uses outside of the backward, except those that compute another
/// gradient.
SmallVector<OpOperand *> GradientCaster::getReads(Value gradient) const {
  SmallVector<OpOperand *> reads;
  for (OpOperand &use : gradient.getUses()) {
    Operation *user = body.findAncestorOpInBlock(*use.getOwner());
    bool isRead = user->hasTrait<OpTrait::IsTerminator>() ||
                  getPhase(user) == Phase::Optimizer;
    if (isRead && !(passesOn(user) && isGradient(user->getResult(0))))
      reads.push_back(&use);
  }
  return reads;
}

bool GradientCaster::simulatesRanks(Value gradient) const {
  int64_t ranks = recipe.getGradients().ranks;
  auto type = mlir::cast<RankedTensorType>(gradient.getType());
  return ranks > 1 && type.getRank() > 1 && type.getDimSize(0) == ranks;
}

/// Returns the scale of a gradient; none if the rules determined none.
std::optional<ScaleHint>
GradientCaster::makeHint(Value root, bool simulatesRanks, Type format) {
  std::optional<ScaleHint> hint = makeSharedHint(
      recipe, caster, root, format, "gradient: of a weight", simulatesRanks);
  if (hint)
    hint->isPrescribed = true;
  return hint;
}

void GradientCaster::cast(Value value, ArrayRef<OpOperand *> reads,
                          ScaleHint hint, int64_t index, StringRef part) {
  Type format = recipe.getGradients().stored;
  markGradient(castForReaders(caster, value, reads, hint, format), index, part);
}

void GradientCaster::store(Value gradient, ArrayRef<OpOperand *> reads) {
  Value root = getDotOperandRoot(gradient);
  if (auto known = stored.find(root); known != stored.end()) {
    auto [hint, index] = known->second;
    return cast(gradient, reads, hint, index, kGradientWhole);
  }
  std::optional<ScaleHint> hint =
      makeHint(root, /*simulatesRanks=*/false, recipe.getGradients().stored);
  if (!hint)
    return caster.refuse(gradient.getDefiningOp(),
                         "gradient stays wide: its scale is not known");
  if (DecisionAttr decision =
          caster.getReasonToStayWide(gradient, recipe.getGradients().stored)) {
    gradient.getDefiningOp()->emitRemark("gradient stays wide: ")
        << decision.describe();
    return;
  }
  stored[root] = {*hint, numStored};
  cast(gradient, reads, *hint, numStored++, kGradientWhole);
}

/// Returns the sum over dimension 0 that reads a value; null for other readers.
static stablehlo::ReduceOp getRankSum(OpOperand *read) {
  auto sum = dyn_cast<stablehlo::ReduceOp>(read->getOwner());
  bool adds = sum && sum.getDimensions() == ArrayRef<int64_t>{0} &&
              sum->getNumResults() == 1 &&
              isa<stablehlo::AddOp>(sum.getBody().front().front());
  return adds ? sum : stablehlo::ReduceOp();
}

void GradientCaster::storeRanks(Value gradient, ArrayRef<OpOperand *> reads) {
  stablehlo::ReduceOp sum =
      reads.size() == 1 ? getRankSum(reads.front()) : stablehlo::ReduceOp();
  std::optional<ScaleHint> hint;
  if (sum)
    hint = makeHint(gradient, /*simulatesRanks=*/true,
                    recipe.getGradients().stored);
  if (!hint)
    return caster.refuse(
        gradient.getDefiningOp(),
        sum ? "gradient stays wide: its scale is not known"
            : "gradient stays wide: it has a use besides one sum over ranks");
  cast(gradient, reads, *hint, numStored, kGradientRanks);
  Value total = sum->getResult(0);
  SmallVector<OpOperand *> later;
  for (OpOperand &use : total.getUses())
    later.push_back(&use);
  cast(total, later, *hint, numStored++, kGradientSum);
}

/// Casts the term of each rank of a sum, on a shared scale. Returns null, with
/// a remark, if the term stays wide.
QuantizeOp GradientCaster::castRankTerm(Operation *sum,
                                        std::optional<ScaleHint> &hint) {
  OpOperand *read = getRankTerm(sum);
  Value root = getDotOperandRoot(read->get());
  Type format = recipe.getGradients().wire;
  summed.insert(sum);
  hint = makeHint(root, /*simulatesRanks=*/false, format);
  if (!hint) {
    caster.refuse(sum, "gradient stays wide between ranks: its scale is not "
                       "known (scales = current measures it)");
    return nullptr;
  }
  if (DecisionAttr decision = caster.getReasonToStayWide(read->get(), format)) {
    sum->emitRemark("gradient stays wide between ranks: ")
        << decision.describe();
    return nullptr;
  }
  return castForReaders(caster, read->get(), read, *hint, format);
}

/// If the sum is stored in the same format, both casts share a scale and a
/// factor.
void GradientCaster::castStoredRankTerm(Operation *sum) {
  std::optional<ScaleHint> hint;
  QuantizeOp data = castRankTerm(sum, hint);
  if (!data || recipe.getGradients().wire != recipe.getGradients().stored)
    return;
  markGradient(data, numStored, kGradientRanks);
  data->setAttr(kGradientGroupAttr,
                builder.getI64IntegerAttr(countSummedRanks(sum)));
  stored[sum->getResult(0)] = {*hint, numStored++};
}

/// Casts the terms of sums over ranks in loops: of each micro-batch, or of
/// scanned layers. The loop's own sum of the results is F32, and does not
/// overflow.
void GradientCaster::castRankTermsInLoops() {
  SmallVector<Operation *> sums;
  body.walk([&](Operation *op) {
    if (isRankSum(op) && op->getBlock() != &body && !summed.contains(op) &&
        isGradient(getRankTerm(op)->get()))
      sums.push_back(op);
  });
  for (Operation *sum : sums) {
    std::optional<ScaleHint> hint;
    castRankTerm(sum, hint);
  }
}

void GradientCaster::storeRankSum(Value gradient, Operation *sum,
                                  ArrayRef<OpOperand *> reads) {
  if (!summed.contains(sum))
    castStoredRankTerm(sum);
  if (!recipe.getGradients().stored)
    return;
  auto known = stored.find(sum->getResult(0));
  if (known == stored.end())
    return store(gradient, reads);
  auto [hint, index] = known->second;
  cast(gradient, reads, hint, index, kGradientSum);
}

void GradientCaster::storeAll() {
  SmallVector<Value> gradients;
  for (Operation &op : body.without_terminator())
    for (Value result : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      bool isMade = passesOn(&op) || getPhase(&op) == Phase::Backward;
      if (type && isMade && type.getRank() > 0 &&
          isa<FloatType>(type.getElementType()) && isGradient(result))
        gradients.push_back(result);
    }
  for (Value gradient : gradients) {
    SmallVector<OpOperand *> reads = getReads(gradient);
    if (reads.empty())
      continue;
    Operation *def = getDotOperandRoot(gradient).getDefiningOp();
    if (def && isRankSum(def) && recipe.getGradients().wire)
      storeRankSum(gradient, def, reads);
    else if (!recipe.getGradients().stored)
      continue;
    else if (simulatesRanks(gradient))
      storeRanks(gradient, reads);
    else
      store(gradient, reads);
  }
  if (recipe.getGradients().wire) {
    castRankTermsInLoops();
    remarkOnWideSums();
  }
}

/// Emits remarks on the sums of weight gradients that `gradient_wire` does not
/// narrow.
void GradientCaster::remarkOnWideSums() {
  body.walk([&](Operation *op) {
    if (!isRankSum(op) || summed.contains(op))
      return;
    Operation *dot = getDotOperandRoot(getRankTerm(op)->get()).getDefiningOp();
    if (dot && isContraction(dot) && isWeightGradient(dot) &&
        !isOfNarrowRole(dot, recipe))
      op->emitRemark("gradient stays wide between ranks: the recipe keeps the "
                     "product wide that makes it");
  });
}

LogicalResult GradientCaster::narrowAllSums(bool strict) {
  auto format = mlir::cast<FloatType>(recipe.getGradients().sum);
  SmallVector<stablehlo::WhileOp> loops(body.getOps<stablehlo::WhileOp>());
  for (stablehlo::WhileOp loop : loops) {
    SmallVector<unsigned> sums;
    for (unsigned i = 0; i < loop->getNumResults(); ++i) {
      Value term = getAddedTerm(loop, i);
      if (term && isGradient(term) &&
          getElementTypeOrSelf(loop.getResult(i).getType()) != format)
        sums.push_back(i);
    }
    if (!sums.empty() && failed(narrowSums(loop, sums, format, caster, strict)))
      return failure();
  }
  return success();
}

/// Returns the dot that computes a gradient, or the first term of a sum of
/// them.
static Operation *getFirstProduct(Value value) {
  Operation *op = getOrigin(value).getDefiningOp();
  while (op && (isa<stablehlo::AddOp>(op) || isRankSum(op)))
    op = getOrigin(op->getOperand(0)).getDefiningOp();
  return op && isContraction(op) ? op : nullptr;
}

/// True if another addition of the same chain follows: one report per chain is
/// enough.
static bool hasFurtherAddition(stablehlo::AddOp add) {
  return llvm::any_of(add->getUsers(), [&](Operation *user) {
    return isa<stablehlo::AddOp>(user) && user->getLoc() == add.getLoc();
  });
}

/// A Python loop over micro-batches leaves additions of gradients that one line
/// of the program computes. Terms that JAX itself adds, by transposing a
/// forward that reads a weight several times, are one gradient.
LogicalResult GradientCaster::reportSumsOutsideLoops(bool strict) const {
  for (auto add : body.getOps<stablehlo::AddOp>()) {
    Operation *one = getFirstProduct(add.getOperand(0));
    Operation *other = getFirstProduct(add.getOperand(1));
    auto type = mlir::cast<RankedTensorType>(add.getType());
    if (!one || !other || one == other || one->getLoc() != other->getLoc() ||
        type.getElementType() == recipe.getGradients().sum ||
        StringRef(getNameStack(add.getLoc())).contains("transpose(") ||
        !isGradient(add.getResult()) || hasFurtherAddition(add))
      continue;
    constexpr StringLiteral text =
        "adds up gradients of micro-batches outside of a loop, and so not in "
        "the recipe's gradient_sum: write them as a loop of the program "
        "(jax.lax.scan)";
    if (strict)
      return add.emitOpError(text);
    add.emitRemark(text);
  }
  return success();
}

LogicalResult scalify::castGradients(func::FuncOp func, RecipeAttr recipe,
                                     Caster &caster, bool strict) {
  GradientCaster gradients(func, recipe, caster);
  if (recipe.getGradients().stored || recipe.getGradients().wire)
    gradients.storeAll();
  // Last, since it replaces loops, whose results are keys of the caster's maps.
  if (!recipe.getGradients().sum)
    return success();
  return failure(failed(gradients.reportSumsOutsideLoops(strict)) ||
                 failed(gradients.narrowAllSums(strict)));
}
