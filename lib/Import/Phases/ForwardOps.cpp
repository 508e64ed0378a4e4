//===- ForwardOps.cpp - Ops that the loss needs ---------------------------===//
//
// The loss is one of the scalar float results. A program without one may still
// return gradients. Then the order decides, since JAX writes the derivative
// after the function. Its first dot reads a weight again, for the gradient of
// an activation, or reads an operand of an earlier dot with a weight, now
// without a weight, for the gradient of that weight. A scatter in between
// belongs to the derivative.
//
//===----------------------------------------------------------------------===//

#include "ForwardOps.h"

#include "../ArgumentInfo.h"
#include "Phases.h"
#include "ValueNumbering.h"
#include "scalify/Dialect/StableHLO/Contraction.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

namespace {

/// A scalar result that may be the loss, and counts of the ops it needs.
struct LossCandidate {
  Value value;
  std::string name;
  int64_t products = 0;
  int64_t weights = 0; // arguments that these products read
};

} // namespace

static bool isProduct(Operation *op) {
  return stablehlo::isContraction(op) ||
         isa<stablehlo::GatherOp, stablehlo::ScatterOp>(op);
}

/// Counts the products in an op: itself, or in the regions of a loop or branch.
static int64_t countProducts(Operation *op) {
  int64_t count = 0;
  op->walk([&](Operation *inner) { count += isProduct(inner); });
  return count;
}

/// Adds the float arguments that an op with products reads directly, or through
/// moves.
static void addWeights(Operation *op, llvm::DenseSet<Value> &weights) {
  if (countProducts(op) == 0)
    return;
  for (Value operand : op->getOperands())
    if (auto argument = dyn_cast<BlockArgument>(
            lookThrough(operand, Move::Layout | Move::Barrier));
        argument && isa<FloatType>(getElementTypeOrSelf(argument.getType())))
      weights.insert(argument);
}

/// Returns the float arguments that products outside loops read.
static llvm::DenseSet<Value> findWeights(Block &block) {
  llvm::DenseSet<Value> weights;
  for (Operation &op : block)
    if (isProduct(&op))
      addWeights(&op, weights);
  return weights;
}

/// Returns the ops of main's block that `values` depend on.
OpSet scalify::import::getDependencies(Block &block, ArrayRef<Value> values) {
  OpSet needs;
  for (Value value : values)
    if (Operation *op = value.getDefiningOp())
      needs.insert(op);
  for (Operation &op : llvm::reverse(block))
    if (needs.contains(&op))
      for (Value read : getReads(op))
        if (Operation *source = read.getDefiningOp())
          needs.insert(source);
  return needs;
}

/// Returns the scalar float results. Donated ones count too: JAX pairs scalars
/// by type alone, and may pair a donated loss scale with the loss.
static SmallVector<LossCandidate> getScalarResults(func::FuncOp main) {
  SmallVector<LossCandidate> candidates;
  for (auto [index, value] : llvm::enumerate(getResults(main))) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || type.getRank() != 0 || !value.getDefiningOp() ||
        !isa<FloatType>(type.getElementType()))
      continue;
    LossCandidate candidate{value, getResultInfo(main, index).lower()};
    llvm::DenseSet<Value> weights;
    for (Operation *op : getDependencies(main.getBody().front(), value)) {
      candidate.products += countProducts(op);
      addWeights(op, weights);
    }
    candidate.weights = weights.size();
    candidates.push_back(candidate);
  }
  return candidates;
}

/// True if a scalar is computed from scalar arguments and constants alone.
static bool isOfScalarArguments(Value value) {
  bool readsArgument = false;
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    Value next = reached[i];
    auto type = dyn_cast<RankedTensorType>(next.getType());
    if (!type || type.getRank() != 0)
      return false;
    Operation *op = next.getDefiningOp();
    if (op && op->getNumRegions() > 0)
      return false;
    readsArgument |= !op;
    if (op)
      reached.insert_range(op->getOperands());
  }
  return readsArgument;
}

/// True if a scalar result adds to a scalar argument, or keeps it: new state,
/// such as a learned temperature or its moment.
static bool isScalarUpdate(const LossCandidate &candidate) {
  Operation *op = candidate.value.getDefiningOp();
  return isa<stablehlo::AddOp, stablehlo::SubtractOp, stablehlo::SelectOp>(
             op) &&
         llvm::any_of(op->getOperands(), isOfScalarArguments);
}

/// Returns the losses. A name with "loss" decides. Otherwise a loss needs at
/// least nine in ten of the weights that any scalar needs (an auxiliary loss of
/// early layers does not), by the fewest dots: scalars that need the gradients,
/// such as their norm or an adaptive loss scale, need three times as many. The
/// gradient of a scalar parameter may need fewer than the loss, so updates of
/// scalars count only where nothing else is left.
static SmallVector<Value> findLosses(func::FuncOp main) {
  SmallVector<LossCandidate> candidates = getScalarResults(main);
  SmallVector<Value> losses;
  for (const LossCandidate &candidate : candidates) {
    StringRef name = candidate.name;
    if (name.contains("loss") && !name.contains("scale"))
      losses.push_back(candidate.value);
  }
  if (!losses.empty() || candidates.empty())
    return losses;

  if (!llvm::all_of(candidates, isScalarUpdate))
    llvm::erase_if(candidates, isScalarUpdate);
  int64_t most = 0, fewest = std::numeric_limits<int64_t>::max();
  for (const LossCandidate &candidate : candidates)
    most = std::max(most, candidate.weights);
  auto isFull = [&](const LossCandidate &candidate) {
    return 10 * candidate.weights >= 9 * most;
  };
  for (const LossCandidate &candidate : candidates)
    if (isFull(candidate))
      fewest = std::min(fewest, candidate.products);
  llvm::erase_if(candidates, [&](const LossCandidate &candidate) {
    return !isFull(candidate) || candidate.products != fewest;
  });
  for (const LossCandidate &candidate : candidates)
    losses.push_back(candidate.value);
  // Without dots there is no evidence; value_and_grad returns the loss first.
  if (fewest == 0)
    losses.truncate(1);
  return losses;
}

/// Returns the first op that belongs to a derivative, or null (see the top).
Operation *scalify::import::findFirstGradient(func::FuncOp main) {
  Block &block = main.getBody().front();
  ValueNumbering numbers(block);
  llvm::DenseSet<Value> weights = findWeights(block), read, partners;
  Operation *scatter = nullptr; // the first one after the last forward dot
  for (Operation &op : block) {
    if (isa<stablehlo::ScatterOp>(op) && !scatter)
      scatter = &op;
    auto dot = dyn_cast<stablehlo::DotGeneralOp>(op);
    if (!dot || numbers.getLeader(&op) != &op)
      continue;
    Value lhs = lookThrough(dot.getLhs(), Move::Layout | Move::Barrier),
          rhs = lookThrough(dot.getRhs(), Move::Layout | Move::Barrier);
    bool anyWeight = weights.contains(lhs) || weights.contains(rhs);
    bool isGradient =
        !anyWeight && (partners.contains(lhs) || partners.contains(rhs));
    for (auto [operand, partner] : {std::pair(lhs, rhs), std::pair(rhs, lhs)})
      if (weights.contains(operand)) {
        isGradient |= !read.insert(operand).second;
        partners.insert(partner);
      }
    if (isGradient)
      return scatter ? scatter : &op;
    scatter = nullptr;
  }
  return nullptr;
}

OpSet scalify::import::findForwardOps(func::FuncOp main) {
  Block &block = main.getBody().front();
  if (SmallVector<Value> losses = findLosses(main); !losses.empty())
    return getDependencies(block, losses);
  OpSet before;
  if (Operation *gradient = findFirstGradient(main))
    for (Operation &op : block) {
      if (&op == gradient)
        break;
      before.insert(&op);
    }
  return before;
}
