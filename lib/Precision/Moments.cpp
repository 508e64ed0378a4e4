//===- Moments.cpp - Variances from products ------------------------------===//
//
// EM of mixtures, Gaussian statistics and normalisations by matrix products
// compute a variance as the mean of squares minus the square of the mean, each
// of which is a dot with the same weights, or a sum of such dots over batches.
// Both are large where the variance is small, and no format with fewer digits
// than F32's keeps the difference.
//
//===----------------------------------------------------------------------===//

#include "Moments.h"

#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/DataMovement.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Idioms/Rows.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Bounds the memory for sums of many dots, as residual streams are: those of
/// more than a thousand parts lose dots, so that their variances may be missed.
static constexpr size_t kMaxTerms = 1024;

static Value skipMoves(Value value) {
  return lookThrough(value, Move::Layout | Move::Broadcast | Move::Barrier |
                                Move::Cast);
}

static bool isOuter(Operation *op) {
  auto dot = dyn_cast<DotGeneralOp>(op);
  return dot &&
         dot.getDotDimensionNumbers().getLhsContractingDimensions().empty();
}

namespace {
using Dots = SmallVector<Operation *, 2>;

/// What a value is made of, up to factors, constants and moves.
struct Form {
  /// The dots in which the value is linear.
  Dots terms;
  /// The dots of both factors, if the value is a product of two such values.
  std::pair<Dots, Dots> factors;

  bool isProduct() const { return !factors.first.empty(); }
};

class MomentFinder {
public:
  llvm::DenseSet<Operation *> run(FunctionOpInterface func);

private:
  Form lookup(Value value) const { return forms.lookup(skipMoves(value)); }
  void visit(Operation *op);
  Form getSum(Form lhs, const Form &rhs) const;
  Form getProduct(const Form &lhs, const Form &rhs) const;
  void addMoments(SubtractOp difference);

  DenseMap<Value, Form> forms;
  llvm::DenseSet<Operation *> moments;
};
} // namespace

Form MomentFinder::getSum(Form lhs, const Form &rhs) const {
  for (Operation *dot : rhs.terms)
    if (lhs.terms.size() < kMaxTerms && !llvm::is_contained(lhs.terms, dot))
      lhs.terms.push_back(dot);
  if (!lhs.isProduct())
    lhs.factors = rhs.factors;
  return lhs;
}

Form MomentFinder::getProduct(const Form &lhs, const Form &rhs) const {
  if (!lhs.terms.empty() && !rhs.terms.empty())
    return {{}, {lhs.terms, rhs.terms}};
  // A factor without a dot only scales.
  if (rhs.terms.empty() && !rhs.isProduct())
    return lhs;
  if (lhs.terms.empty() && !lhs.isProduct())
    return rhs;
  return {};
}

/// Finds the form of an op's results. Sums over iterations are those of their
/// bodies, in which a carry has no form, and those over ranks of one of them.
void MomentFinder::visit(Operation *op) {
  Form form;
  if (isContraction(op) && !isOuter(op))
    form.terms = {op};
  else if (isa<NegOp, DivOp>(op))
    form = lookup(op->getOperand(0));
  else if (isa<AddOp, SubtractOp, MaxOp>(op))
    form = getSum(lookup(op->getOperand(0)), lookup(op->getOperand(1)));
  else if (isa<SelectOp>(op))
    form = getSum(lookup(op->getOperand(1)), lookup(op->getOperand(2)));
  else if (auto reduce = dyn_cast<ReduceOp>(op);
           reduce && isSum(reduce.getBody()))
    form = lookup(reduce.getInputs().front());
  else if (isa<MulOp>(op) || isOuter(op))
    form = getProduct(lookup(op->getOperand(0)), lookup(op->getOperand(1)));
  if (op->getNumResults() == 1 && !(form.terms.empty() && !form.isProduct()))
    forms[op->getResult(0)] = std::move(form);
  ValueRange parts;
  if (auto loop = dyn_cast<WhileOp>(op))
    parts = loop.getBody().front().getTerminator()->getOperands();
  else if (isa<AllReduceOp>(op))
    parts = op->getOperands();
  for (auto [part, result] : llvm::zip(parts, op->getResults()))
    forms[result] = lookup(part);
}

/// Returns true if the dot reads the operands of another one, or products of
/// them.
static bool readsOperandsOf(Operation *dot, Operation *other) {
  llvm::SmallDenseSet<Value> read;
  for (Value operand : dot->getOperands().take_front(2)) {
    Value source = skipMoves(operand);
    read.insert(source);
    Operation *op = source.getDefiningOp();
    if (op && (isa<MulOp>(op) || isOuter(op)))
      for (Value factor : op->getOperands())
        read.insert(skipMoves(factor));
  }
  return llvm::all_of(other->getOperands().take_front(2), [&](Value operand) {
    return read.contains(skipMoves(operand));
  });
}

void MomentFinder::addMoments(SubtractOp difference) {
  auto [lhs, rhs] = lookup(difference.getRhs()).factors;
  for (Operation *square : lookup(difference.getLhs()).terms) {
    auto isMean = [&](Operation *dot) {
      return dot != square && readsOperandsOf(square, dot);
    };
    if (llvm::none_of(lhs, isMean) || llvm::none_of(rhs, isMean))
      continue;
    moments.insert(square);
    moments.insert_range(llvm::make_filter_range(lhs, isMean));
    moments.insert_range(llvm::make_filter_range(rhs, isMean));
  }
}

llvm::DenseSet<Operation *> MomentFinder::run(FunctionOpInterface func) {
  // Bodies are visited before their loops, operands before their users.
  func.getFunctionBody().walk([&](Operation *op) {
    visit(op);
    if (auto difference = dyn_cast<SubtractOp>(op))
      addMoments(difference);
  });
  // Products of data that a mean of products reads, as einsum writes them.
  for (Operation *dot : llvm::to_vector(moments))
    for (Value operand : dot->getOperands().take_front(2))
      if (Operation *op = skipMoves(operand).getDefiningOp(); op && isOuter(op))
        moments.insert(op);
  return std::move(moments);
}

llvm::DenseSet<Operation *> scalify::findMoments(FunctionOpInterface func) {
  return MomentFinder().run(func);
}
