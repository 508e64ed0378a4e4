//===- EarlyGradients.cpp - Gradients computed in the forward -------------===//
//
// A function with a custom derivative (jax.custom_vjp) may compute gradients
// while it is evaluated, and save them for the backward, as a fused
// cross-entropy does. By its names all of it is forward, so use data flow
// instead. A dot is a gradient of an earlier dot if it shares an operand with
// it, contracts that over dimensions that the other one keeps, has another
// operand that depends on the other's result, and has the size of the other's
// second operand. In addition the loss must not need it, and it must have no
// derivative of its own, as a tied layer of the forward has.
//
//===----------------------------------------------------------------------===//

#include "EarlyGradients.h"

#include "ForwardOps.h"
#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;
using stablehlo::DotGeneralOp;

namespace {

/// The value that a dot's operand is a view of, and its contracting dimensions.
struct View {
  Value root;
  SmallVector<int64_t> summed;
};

class EarlyGradients {
public:
  EarlyGradients(Block &block, ArrayRef<Value> losses, PhaseMap &told)
      : block(block), told(told), needs(getDependencies(block, losses)) {}
  void tell();

private:
  bool hasNamedPhase(Operation *op, Phase phase) const {
    auto own = told.find(op);
    return own != told.end() && own->second == phase;
  }
  void findProducts();
  void follow(Value value, llvm::DenseSet<Operation *> &behind) const;
  void addCotangents();
  void addDependents();

  Block &block;
  PhaseMap &told;
  OpSet needs, gradients;
  llvm::DenseSet<Operation *>
      layerDependents; // depend on layers with gradients
};

} // namespace

static View getView(DotGeneralOp dot, unsigned operand) {
  auto dims = dot.getDotDimensionNumbers();
  View view{dot->getOperand(operand), {}};
  llvm::append_range(view.summed, operand == 0
                                      ? dims.getLhsContractingDimensions()
                                      : dims.getRhsContractingDimensions());
  while (Operation *op = view.root.getDefiningOp()) {
    if (auto transpose = dyn_cast<stablehlo::TransposeOp>(op)) {
      for (int64_t &dim : view.summed)
        dim = transpose.getPermutation()[dim];
    } else if (!isa<stablehlo::ConvertOp>(op)) {
      break;
    }
    view.root = op->getOperand(0);
  }
  return view;
}

Value scalify::import::getCotangent(DotGeneralOp dot, DotGeneralOp layer) {
  for (unsigned i : {0, 1})
    for (unsigned j : {0, 1}) {
      View own = getView(dot, i), shared = getView(layer, j);
      Value cotangent = dot->getOperand(1 - i);
      if (own.root == shared.root && !own.summed.empty() &&
          llvm::none_of(own.summed,
                        [&](int64_t dim) {
                          return llvm::is_contained(shared.summed, dim);
                        }) &&
          countOf(cotangent) == countOf(layer) &&
          countOf(dot) == countOf(layer->getOperand(1 - j)))
        return cotangent;
    }
  return {};
}

void EarlyGradients::follow(Value value,
                            llvm::DenseSet<Operation *> &behind) const {
  SmallVector<Value> worklist{value};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers())
      if (Operation *node = block.findAncestorOpInBlock(*user);
          node && behind.insert(node).second)
        llvm::append_range(worklist, node->getResults());
}

void EarlyGradients::findProducts() {
  SmallVector<DotGeneralOp> dots(block.getOps<DotGeneralOp>());
  for (size_t index = 0; index < dots.size(); ++index) {
    DotGeneralOp dot = dots[index];
    // Recomputed ops are not needed by the loss either.
    if (!hasNamedPhase(dot, Phase::Forward) || needs.contains(dot) ||
        isRecomputedByNames(dot))
      continue;
    bool hasDerivative = llvm::any_of(dots, [&](DotGeneralOp other) {
      return hasNamedPhase(other, Phase::Backward) && getCotangent(other, dot);
    });
    if (hasDerivative)
      continue;
    for (DotGeneralOp layer : ArrayRef(dots).take_front(index)) {
      Value cotangent = getCotangent(dot, layer);
      if (!cotangent || !hasNamedPhase(layer, Phase::Forward) ||
          gradients.contains(layer))
        continue;
      llvm::DenseSet<Operation *> behind;
      follow(layer, behind);
      if (!behind.contains(cotangent.getDefiningOp()))
        continue;
      gradients.insert(dot);
      layerDependents.insert(behind.begin(), behind.end());
    }
  }
}

/// Adds the ops that compute cotangents of the layers' results.
void EarlyGradients::addCotangents() {
  for (Operation &op : llvm::reverse(block))
    if (hasNamedPhase(&op, Phase::Forward) && !needs.contains(&op) &&
        layerDependents.contains(&op) && !op.use_empty() &&
        llvm::all_of(op.getUsers(), [&](Operation *user) {
          Operation *node = block.findAncestorOpInBlock(*user);
          return gradients.contains(node) ||
                 hasNamedPhase(node, Phase::Backward);
        }))
      gradients.insert(&op);
}

void EarlyGradients::addDependents() {
  for (Operation &op : block)
    if (hasNamedPhase(&op, Phase::Forward) && !needs.contains(&op) &&
        llvm::any_of(getReads(op), [&](Value read) {
          return gradients.contains(read.getDefiningOp());
        }))
      gradients.insert(&op);
}

void EarlyGradients::tell() {
  findProducts();
  if (gradients.empty())
    return;
  addDependents();
  addCotangents();
  for (Operation *op : gradients)
    told[op] = Phase::Backward;
}

void scalify::import::markEarlyGradients(Block &block, ArrayRef<Value> losses,
                                         PhaseMap &told) {
  EarlyGradients(block, losses, told).tell();
}
