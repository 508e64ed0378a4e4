//===- SolverLoops.cpp - Loops that solve systems -------------------------===//
//
// A Kalman filter solves a system in each iteration, and takes the difference
// P - K H P of products with the solution into the next one. The terms cancel,
// in the gradients as well, and the next solution multiplies what rounding has
// left of them by a condition number. No rule predicts such errors, and no
// format with fewer digits than F32's bounds them: with a diffuse P_0 of 10^4,
// gradients whose products are rounded to 16 bits point anywhere.
//
//===----------------------------------------------------------------------===//

#include "SolverLoops.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

static bool hasFloat(TypeRange types) {
  return llvm::any_of(types, isFloatTensor);
}

/// True for calls of libraries that compute floats from floats: routines of
/// linear algebra, and unknown ones.
static bool isLibraryCall(Operation *op) {
  auto rule = dyn_cast<ScaleRuleInterface>(op);
  return isa<CustomCallOp>(op) && hasFloat(op->getOperandTypes()) &&
         hasFloat(op->getResultTypes()) &&
         !(rule && rule.getScaleFamily() == ScaleFamily::PassEach);
}

static bool isSolver(Operation *op) {
  return isa<CholeskyOp, TriangularSolveOp>(op) || isLibraryCall(op);
}

/// Returns the factorisations and solutions of a loop's body.
static SmallVector<Operation *> findSolvers(WhileOp loop) {
  SmallVector<Operation *> solvers;
  loop.getBody().walk([&](Operation *op) {
    if (isSolver(op))
      solvers.push_back(op);
  });
  return solvers;
}

bool scalify::hasSolver(WhileOp loop) { return !findSolvers(loop).empty(); }

/// Returns the values of a loop's body that follow from those of solvers.
static llvm::SetVector<Value> findFollowing(WhileOp loop) {
  llvm::SetVector<Value> after;
  auto add = [&](Value value) {
    if (loop.getBody().isAncestor(value.getParentRegion()))
      after.insert(value);
  };
  for (Operation *solver : findSolvers(loop))
    llvm::for_each(solver->getResults(), add);
  for (size_t i = 0; i < after.size(); ++i)
    for (OpOperand &use : after[i].getUses())
      llvm::for_each(getFollowers(use), add);
  return after;
}

llvm::DenseSet<Operation *>
scalify::findDotsAfterSolvers(FunctionOpInterface func) {
  llvm::DenseSet<Operation *> found;
  func.getFunctionBody().walk([&](WhileOp loop) {
    llvm::SetVector<Value> after = findFollowing(loop);
    for (Value value : after)
      for (Operation *user : value.getUsers())
        if (isContraction(user))
          found.insert(user);
  });
  return found;
}
