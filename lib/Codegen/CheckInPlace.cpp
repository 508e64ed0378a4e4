//===- CheckInPlace.cpp - Verification of in-place accesses ---------------===//
//
// The planner proves on a kernel's body that an output may alias an input
// (Dialect/Plan/PlanInPlace.h), assuming an order of the loops. Here the loops
// are known: no load of such an input may read an element that an earlier store
// to the output, by this task or another, has overwritten.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

namespace {
/// An index split into its terms over shared loops and the range of the rest.
struct SplitIndex {
  LinearForm shared;
  Interval rest;
};

class AccessOrder {
public:
  AccessOrder(const IndexScope &scope, Operation *load, Operation *store);
  bool isApart(AffineExpr load, AffineExpr store) const;

private:
  bool isShared(AffineExpr term) const;
  SplitIndex split(AffineExpr linear) const;
  bool separatesTasks() const;
  bool distinguishesIterations(const LinearForm &shared, int64_t spread) const;

  const IndexScope &scope;
  Operation *store;
  Block *common = nullptr; // the innermost block that holds both
  bool isBefore = false;   // load precedes store in an iteration
};
} // namespace

AccessOrder::AccessOrder(const IndexScope &scope, Operation *load,
                         Operation *store)
    : scope(scope), store(store) {
  for (common = store->getBlock();
       common && !common->findAncestorOpInBlock(*load);)
    common = common->getParentOp()->getBlock();
  Operation *first = common->findAncestorOpInBlock(*load);
  Operation *second = common->findAncestorOpInBlock(*store);
  isBefore = first != second && first->isBeforeInBlock(second);
}

bool AccessOrder::isShared(AffineExpr term) const {
  bool isShared = true;
  term.walk([&](AffineExpr expr) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
      auto iv = cast<BlockArgument>(scope.dim(dim.getPosition()).iv);
      isShared &= iv.getOwner()->getParent()->isAncestor(common->getParent());
    }
  });
  return isShared;
}

SplitIndex AccessOrder::split(AffineExpr linear) const {
  SplitIndex parts;
  LinearForm form = scope.flatten(linear), rest;
  rest.constant = form.constant;
  for (auto [term, factor] : form.terms)
    (isShared(term) ? parts.shared : rest).add(term, factor);
  parts.rest = scope.range(scope.build(rest));
  return parts;
}

/// True if distinct tasks run distinct iterations of the shared loops. The
/// loops over a task's rows are those whose lower bound is an argument.
bool AccessOrder::separatesTasks() const {
  for (auto loop = store->getParentOfType<scf::ForOp>(); loop;
       loop = loop->getParentOfType<scf::ForOp>())
    if (!matchPattern(loop.getLowerBound(), m_Constant()) &&
        !loop.getRegion().isAncestor(common->getParent()))
      return false;
  return true;
}

/// True if accesses at most `spread` elements apart belong to the same
/// iteration of the shared loops.
bool AccessOrder::distinguishesIterations(const LinearForm &shared,
                                          int64_t spread) const {
  auto terms = llvm::to_vector(shared.terms);
  llvm::sort(terms,
             [](const auto &a, const auto &b) { return a.second < b.second; });
  int64_t reach = spread;
  for (auto [term, factor] : terms) {
    if (factor <= reach)
      return false;
    Interval range = scope.range(term);
    reach += factor * (range.high - range.low);
  }
  return true;
}

bool AccessOrder::isApart(AffineExpr load, AffineExpr store) const {
  auto isKnown = [](AffineExpr expr) {
    bool isKnown = true;
    expr.walk([&](AffineExpr e) { isKnown &= !isa<AffineSymbolExpr>(e); });
    return isKnown;
  };
  if (!isKnown(load) || !isKnown(store))
    return false;
  SplitIndex read = split(load), written = split(store);
  if (read.shared.terms.size() != written.shared.terms.size() ||
      !llvm::all_of(read.shared.terms, [&](const auto &term) {
        return written.shared.coefficient(term.first) == term.second;
      }))
    return false;
  int64_t low = std::min(read.rest.low, written.rest.low);
  int64_t high = std::max(read.rest.high, written.rest.high);
  if (!distinguishesIterations(read.shared, high - low))
    return false;
  bool meets =
      read.rest.low <= written.rest.high && written.rest.low <= read.rest.high;
  return !meets || (isBefore && separatesTasks());
}

void KernelEmitter::recordAccess(unsigned buffer, AffineExpr linear,
                                 Operation *op) {
  if (machine == Machine::CPU && !log && kernel.getInplace())
    places.push_back({buffer, linear, op});
}

LogicalResult KernelEmitter::checkInPlace() {
  ArrayRef<int64_t> pairs = kernel.getInplace().value_or(ArrayRef<int64_t>());
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    unsigned output = kernel.getReads().size() + pairs[i];
    unsigned input = pairs[i + 1];
    for (const Place &store : places)
      for (const Place &load : places) {
        if (store.buffer != output || load.buffer != input)
          continue;
        bool isSame = load.linear == store.linear &&
                      load.op->getBlock() == store.op->getBlock() &&
                      load.op->isBeforeInBlock(store.op);
        if (!isSame && !AccessOrder(scope, load.op, store.op)
                            .isApart(load.linear, store.linear))
          return kernel.emitOpError("reads elements of operand ")
                 << input << " that it has overwritten through operand "
                 << output;
      }
  }
  return success();
}
