//===- CheckInPlace.cpp - What a kernel reads where it writes -------------===//
//
// The planner proves on a kernel's body that an output may lie where an input
// does (Dialect/Plan/PlanInPlace.h), and trusts the loops to be as it thinks.
// Here they are known: of all loads of such an input and all stores of such an
// output none may read what an earlier store, of this task or of another one,
// has written.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

namespace {
/// An index in loops that two accesses share, and what is left of it.
struct SplitIndex {
  LinearForm shared;
  Interval rest;
};

class PlaceOrder {
public:
  PlaceOrder(const IndexScope &scope, Operation *load, Operation *store);
  bool isApart(AffineExpr load, AffineExpr store) const;

private:
  bool isShared(AffineExpr term) const;
  SplitIndex split(AffineExpr linear) const;
  bool sharesTasks() const;
  bool tellsApart(const LinearForm &shared, int64_t spread) const;

  const IndexScope &scope;
  Operation *store;
  Block *common = nullptr; // the innermost that holds both
  bool isBefore = false;   // the load, in an iteration of the shared loops
};
} // namespace

PlaceOrder::PlaceOrder(const IndexScope &scope, Operation *load,
                       Operation *store)
    : scope(scope), store(store) {
  for (common = store->getBlock();
       common && !common->findAncestorOpInBlock(*load);)
    common = common->getParentOp()->getBlock();
  Operation *first = common->findAncestorOpInBlock(*load);
  Operation *second = common->findAncestorOpInBlock(*store);
  isBefore = first != second && first->isBeforeInBlock(second);
}

bool PlaceOrder::isShared(AffineExpr term) const {
  bool isShared = true;
  term.walk([&](AffineExpr expr) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
      auto iv = cast<BlockArgument>(scope.dim(dim.getPosition()).iv);
      isShared &= iv.getOwner()->getParent()->isAncestor(common->getParent());
    }
  });
  return isShared;
}

SplitIndex PlaceOrder::split(AffineExpr linear) const {
  SplitIndex parts;
  LinearForm form = scope.flatten(linear), rest;
  rest.constant = form.constant;
  for (auto [term, factor] : form.terms)
    (isShared(term) ? parts.shared : rest).add(term, factor);
  parts.rest = scope.range(scope.build(rest));
  return parts;
}

/// Whether other tasks are other iterations of the loops that both share: those
/// over a task's rows begin where the caller says.
bool PlaceOrder::sharesTasks() const {
  for (auto loop = store->getParentOfType<scf::ForOp>(); loop;
       loop = loop->getParentOfType<scf::ForOp>())
    if (!matchPattern(loop.getLowerBound(), m_Constant()) &&
        !loop.getRegion().isAncestor(common->getParent()))
      return false;
  return true;
}

/// Whether what lies less than `spread` elements apart belongs to one iteration
/// of the shared loops.
bool PlaceOrder::tellsApart(const LinearForm &shared, int64_t spread) const {
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

bool PlaceOrder::isApart(AffineExpr load, AffineExpr store) const {
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
  if (!tellsApart(read.shared, high - low))
    return false;
  bool meets =
      read.rest.low <= written.rest.high && written.rest.low <= read.rest.high;
  return !meets || (isBefore && sharesTasks());
}

void KernelEmitter::notePlace(unsigned buffer, AffineExpr linear,
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
        if (!isSame && !PlaceOrder(scope, load.op, store.op)
                            .isApart(load.linear, store.linear))
          return kernel.emitOpError("reads elements of operand ")
                 << input << " that it has written over as operand " << output;
      }
  }
  return success();
}
