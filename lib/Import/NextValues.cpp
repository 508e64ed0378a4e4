//===- NextValues.cpp - Which result is an argument's next value ----------===//

#include "NextValues.h"

#include "ArgumentInfo.h"
#include "Phases/EarlyGradients.h"
#include "Phases/Phases.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

// A search for an argument from which elementwise ops compute a result ends
// here.
static constexpr size_t kMaxVisitedValues = 1024;

namespace scalify::import {

class NextValueFinder {
public:
  NextValueFinder(func::FuncOp main, NextValues::Predicate isForward,
                  NextValues::Predicate isBackward, NextValues &next)
      : main(main), isForward(isForward), isBackward(isBackward), next(next),
        block(main.getBody().front()) {}
  void find();

private:
  /// A pair of an argument and a result that elementwise ops compute from it.
  struct Update {
    unsigned argument, result;
    size_t distance;
    unsigned sharedPath;
  };

  void pair(unsigned argument, unsigned result);
  bool isOpen(unsigned argument, unsigned result) const;
  void takeDonated();
  void findGradientDependents();
  bool isReadByForward(BlockArgument argument);
  bool reachesOnly(BlockArgument argument, Value result);
  bool mayBeUpdate(BlockArgument argument, Value result);
  void addUpdates(unsigned result, SmallVectorImpl<Update> &updates);
  void pairUpdates();
  void pairUnchanged();
  void pairPositions();
  llvm::DenseSet<Value> findSourcesOfNextValues();
  void pairGradients();
  bool hasGradient(BlockArgument argument);
  bool isReadByDerivative(BlockArgument argument);
  unsigned countSharedPath(unsigned argument, unsigned result);
  bool isInUpdatedTree(unsigned argument);

  func::FuncOp main;
  NextValues::Predicate isForward, isBackward;
  NextValues &next;
  Block &block;
  llvm::DenseSet<Value> gradients; // values of main's block that need some
};

} // namespace scalify::import

void NextValueFinder::pair(unsigned argument, unsigned result) {
  next.results[argument] = result;
  next.owners[result] = argument;
}

bool NextValueFinder::isOpen(unsigned argument, unsigned result) const {
  return next.results[argument] < 0 && next.owners[result] < 0;
}

void NextValueFinder::takeDonated() {
  for (unsigned index = 0; index < main.getNumArguments(); ++index)
    if (std::optional<unsigned> result = getAliasedResult(main, index))
      if (*result < next.owners.size() && isOpen(index, *result)) {
        pair(index, *result);
        next.evident = true;
      }
}

void NextValueFinder::findGradientDependents() {
  for (Operation &op : block)
    if (isBackward(&op) || llvm::any_of(getReads(op), [&](Value read) {
          return gradients.contains(read);
        }))
      gradients.insert(op.result_begin(), op.result_end());
}

/// True if the forward reads the argument, also through ops of no known phase.
bool NextValueFinder::isReadByForward(BlockArgument argument) {
  llvm::SetVector<Operation *> readers;
  auto addUsers = [&](Value value) {
    for (Operation *user : value.getUsers())
      readers.insert(block.findAncestorOpInBlock(*user));
  };
  addUsers(argument);
  for (size_t i = 0; i < readers.size(); ++i) {
    if (isForward(readers[i]))
      return true;
    if (!isBackward(readers[i]))
      for (Value value : readers[i]->getResults())
        addUsers(value);
  }
  return false;
}

/// True if no result depends on the argument but this one, as running means.
bool NextValueFinder::reachesOnly(BlockArgument argument, Value result) {
  llvm::SetVector<Operation *> behind;
  auto addUsers = [&](Value value) {
    for (Operation *user : value.getUsers())
      if (Operation *node = block.findAncestorOpInBlock(*user);
          node != block.getTerminator())
        behind.insert(node);
  };
  addUsers(argument);
  for (size_t i = 0; i < behind.size(); ++i)
    for (Value value : behind[i]->getResults())
      addUsers(value);
  return llvm::all_of(getResults(main), [&](Value other) {
    return other == result || !behind.contains(other.getDefiningOp());
  });
}

/// True if a result that elementwise ops compute from the argument may be its
/// next value: a residual of labels is none. A float scalar may be a metric of
/// another one; only state around it says that it is state.
bool NextValueFinder::mayBeUpdate(BlockArgument argument, Value result) {
  auto type = cast<RankedTensorType>(argument.getType());
  bool isFloat = isa<FloatType>(type.getElementType());
  if (type.getRank() == 0 && !isFloat)
    return true;
  Operation *source = result.getDefiningOp();
  if (source && gradients.contains(result) && !isForward(source))
    return true;
  if (type.getRank() == 0 && !isInUpdatedTree(argument.getArgNumber()))
    return false;
  return !isReadByForward(argument) || reachesOnly(argument, result);
}

/// True if the op computes each element of its result from the same element of
/// operands of its shape, or moves values as a whole.
static bool isElementwise(Operation *op) {
  return op->hasTrait<OpTrait::Elementwise>() ||
         op->hasTrait<stablehlo::OpTrait::TernaryElementwise>() ||
         isa<stablehlo::OptimizationBarrierOp>(op);
}

/// Returns the values of one element that flow into it.
static SmallVector<Value> getElementSources(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<stablehlo::OptimizationBarrierOp>(op))
    return {op->getOperand(cast<OpResult>(value).getResultNumber())};
  if (op && !isElementwise(op) && !stablehlo::isControlFlow(op))
    return {};
  return stablehlo::getSources(value);
}

void NextValueFinder::addUpdates(unsigned result,
                                 SmallVectorImpl<Update> &updates) {
  Value value = getResults(main)[result];
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return;
  llvm::SetVector<Value> behind;
  behind.insert(value);
  for (size_t i = 0; i < behind.size() && i < kMaxVisitedValues; ++i) {
    auto argument = dyn_cast<BlockArgument>(behind[i]);
    if (argument && argument.getOwner() == &block) {
      unsigned index = argument.getArgNumber();
      if (i > 0 && argument.getType() == type && isOpen(index, result) &&
          mayBeUpdate(argument, value))
        updates.push_back({index, result, i, countSharedPath(index, result)});
      continue;
    }
    for (Value source : getElementSources(behind[i]))
      if (auto shaped = dyn_cast<RankedTensorType>(source.getType());
          shaped && shaped.getShape() == type.getShape())
        behind.insert(source);
  }
}

void NextValueFinder::pairUpdates() {
  SmallVector<Update> updates;
  for (unsigned result = 0; result < next.owners.size(); ++result)
    if (next.owners[result] < 0)
      addUpdates(result, updates);
  llvm::sort(updates, [](const Update &a, const Update &b) {
    return std::tuple(a.distance, b.sharedPath, a.result, a.argument) <
           std::tuple(b.distance, a.sharedPath, b.result, b.argument);
  });
  for (const Update &update : updates)
    if (isOpen(update.argument, update.result)) {
      pair(update.argument, update.result);
      next.evident = true;
    }
}

static StringRef getPath(func::FuncOp main, unsigned argument) {
  auto name = main.getArgAttrOfType<StringAttr>(argument, kNameAttr);
  return name ? name.getValue() : StringRef();
}

/// Returns the number of the last characters of the paths of argument and
/// result in their trees, without the roots, that are equal.
unsigned NextValueFinder::countSharedPath(unsigned argument, unsigned result) {
  StringRef own = getPath(main, argument), info = getResultInfo(main, result);
  own = own.drop_front(getTreeOf(main, argument).size());
  unsigned count = 0;
  while (count < std::min(own.size(), info.size()) &&
         own[own.size() - 1 - count] == info[info.size() - 1 - count])
    ++count;
  return count;
}

bool NextValueFinder::isInUpdatedTree(unsigned argument) {
  StringRef root = getTreeOf(main, argument);
  for (unsigned other = 0; other < main.getNumArguments(); ++other)
    if (next.hasNextValue(other) && getTreeOf(main, other) == root)
      return true;
  return false;
}

/// Pairs state that comes back unchanged. An argument that the forward reads
/// may also be data that the step returns: it is state if other leaves of its
/// tree are, or if its position in its tree is the result's.
void NextValueFinder::pairUnchanged() {
  for (auto [index, value] : llvm::enumerate(getResults(main))) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || !isOpen(argument.getArgNumber(), index))
      continue;
    unsigned own = argument.getArgNumber();
    size_t below = getPath(main, own).size() - getTreeOf(main, own).size();
    if (!isReadByForward(argument) || isInUpdatedTree(own) ||
        (below > 0 && countSharedPath(own, index) == below))
      pair(own, index);
  }
}

/// Pairs the leaves of trees of which other leaves have next values with the
/// results at their positions: state that the step overwrites, as the last
/// gradient.
void NextValueFinder::pairPositions() {
  llvm::StringMap<StringRef> treeOfRoot;
  for (unsigned index = 0; index < next.results.size(); ++index)
    if (std::optional<unsigned> result = next.getResult(index)) {
      size_t below =
          getPath(main, index).size() - getTreeOf(main, index).size();
      if (below > 0 && countSharedPath(index, *result) == below)
        treeOfRoot.try_emplace(getTreeOf(main, index),
                               getResultInfo(main, *result).drop_back(below));
    }
  for (BlockArgument argument : main.getArguments()) {
    unsigned index = argument.getArgNumber();
    StringRef root = getTreeOf(main, index), path = getPath(main, index);
    auto tree = treeOfRoot.find(root);
    if (tree == treeOfRoot.end())
      continue;
    for (unsigned result = 0; result < next.owners.size(); ++result) {
      StringRef info = getResultInfo(main, result);
      if (isOpen(index, result) &&
          getResults(main)[result].getType() == argument.getType() &&
          info.consume_front(tree->second) &&
          info == path.drop_front(root.size()))
        pair(index, result);
    }
  }
}

/// Returns the values of main's block from which next values are computed.
llvm::DenseSet<Value> NextValueFinder::findSourcesOfNextValues() {
  llvm::DenseSet<Value> sources;
  SmallVector<Value> worklist;
  for (auto [index, value] : llvm::enumerate(getResults(main)))
    if (next.isNextValue(index))
      worklist.push_back(value);
  while (!worklist.empty())
    if (Operation *op = worklist.pop_back_val().getDefiningOp())
      for (Value read : getReads(*op))
        if (sources.insert(read).second)
          worklist.push_back(read);
  return sources;
}

/// True if a dot of the backward computes the argument's gradient: it has the
/// argument's size, and shares the other operand of a forward dot that reads
/// the argument.
bool NextValueFinder::hasGradient(BlockArgument argument) {
  return llvm::any_of(findProducts(argument), [&](OpOperand *use) {
    Operation *layer = use->getOwner();
    if (use->getOperandNumber() > 1 ||
        !isForward(block.findAncestorOpInBlock(*layer)))
      return false;
    Value other = lookThrough(layer->getOperand(1 - use->getOperandNumber()),
                              Move::Layout);
    return llvm::any_of(findProducts(other), [&](OpOperand *read) {
      Operation *product = read->getOwner();
      return isBackward(block.findAncestorOpInBlock(*product)) &&
             countOf(product->getResult(0)) == countOf(argument) &&
             llvm::none_of(product->getOperands(), [&](Value operand) {
               return lookThrough(operand, Move::Layout) == argument;
             });
    });
  });
}

/// True if the backward reads the argument as derivatives do: for the gradient
/// of an activation, or in a loop after one of the forward.
bool NextValueFinder::isReadByDerivative(BlockArgument argument) {
  SmallVector<Operation *> layers, dots; // or loops
  SmallVector<Value> views{argument};
  while (!views.empty())
    for (Operation *user : views.pop_back_val().getUsers()) {
      Operation *node = block.findAncestorOpInBlock(*user);
      if (isa<stablehlo::DotGeneralOp, stablehlo::WhileOp>(node))
        (isForward(node) ? layers : dots).push_back(node);
      else if (node == user && node->getNumResults() == 1 &&
               getMoved(node->getResult(0), Move::Layout))
        views.push_back(node->getResult(0));
    }
  return llvm::any_of(layers, [&](Operation *layer) {
    return llvm::any_of(dots, [&](Operation *dot) {
      auto own = dyn_cast<stablehlo::DotGeneralOp>(dot);
      auto other = dyn_cast<stablehlo::DotGeneralOp>(layer);
      return own && other ? bool(getCotangent(own, other))
                          : !own && !other && isBackward(dot);
    });
  });
}

void NextValueFinder::pairGradients() {
  llvm::DenseSet<Value> sources = findSourcesOfNextValues();
  llvm::MapVector<Type, SmallVector<unsigned>> left;
  for (auto [index, value] : llvm::enumerate(getResults(main))) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    auto argument = dyn_cast<BlockArgument>(value);
    bool isMade = argument ? next.hasNextValue(argument.getArgNumber())
                           : gradients.contains(value);
    if (type && isa<FloatType>(type.getElementType()) && type.getRank() > 0 &&
        next.owners[index] < 0 && isMade)
      left[type].push_back(index);
  }
  for (auto &[type, results] : left) {
    SmallVector<unsigned> known, all;
    for (BlockArgument argument : main.getArguments())
      if (argument.getType() == type &&
          !next.hasNextValue(argument.getArgNumber())) {
        all.push_back(argument.getArgNumber());
        if (hasGradient(argument))
          known.push_back(argument.getArgNumber());
      }
    next.evident |= !known.empty() || llvm::any_of(all, [&](unsigned argument) {
      return isReadByDerivative(main.getArgument(argument));
    });
    for (unsigned result : results) {
      if (known.empty() && sources.contains(getResults(main)[result]))
        continue;
      SmallVector<unsigned> &from = known.empty() ? all : known;
      auto *best = llvm::max_element(from, [&](unsigned a, unsigned b) {
        return countSharedPath(a, result) < countSharedPath(b, result);
      });
      if (best == from.end())
        break;
      unsigned argument = *best;
      pair(argument, result);
      llvm::erase(known, argument);
      llvm::erase(all, argument);
    }
  }
}

void NextValueFinder::find() {
  findGradientDependents();
  // A forward alone has no other new values, whatever the types of its results.
  if (gradients.empty())
    return takeDonated();
  pairUpdates();
  takeDonated();
  pairUnchanged();
  pairUpdates(); // Scalars whose trees are known by now.
  pairPositions();
  pairGradients();
  pairPositions(); // Gradients at positions beside those found.
}

NextValues::NextValues(func::FuncOp main, Predicate isForward,
                       Predicate isBackward)
    : results(main.getNumArguments(), -1), owners(main.getNumResults(), -1) {
  NextValueFinder(main, isForward, isBackward, *this).find();
}
