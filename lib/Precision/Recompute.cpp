//===- Recompute.cpp - Rematerialisation in the backward ------------------===//
//
// The backward reads forward values, which occupy memory until then. Values
// that elementwise ops compute from others are rematerialised at their readers
// instead. The values to keep are a minimum cut of a network: each value costs
// its bytes, dots and reductions, which are never repeated, are the source, and
// readers in the backward are the sink (Jain et al. 2020; the cut is that of
// PyTorch's partitioner of joint graphs).
//
// Before values are cast, the cut assumes the formats in which they will be
// kept. Afterwards, casts take part in it: a cast is repeated if its operand is
// kept for other readers. Weights are cast once.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/Recompute.h"

#include "Cancellation.h"
#include "MinCut.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Precision/DotRoles.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace scalify;

/// The largest number of ops in a rematerialised chain. A residual stream is a
/// sum over all layers: it has to be kept somewhere.
static constexpr unsigned kMaxRematerialisedChain = 16;

/// True if the op only moves elements.
static bool isMove(Operation *op) {
  return isa<stablehlo::BroadcastInDimOp, stablehlo::ReshapeOp,
             stablehlo::ReverseOp, stablehlo::SliceOp, stablehlo::TransposeOp>(
      op);
}

static bool isConstant(Value value) {
  Operation *op = lookThrough(value, Move::Broadcast).getDefiningOp();
  return op && op->hasTrait<OpTrait::ConstantLike>();
}

/// True for the exponential of a logistic function, whose result changes
/// slowly.
static bool isLogistic(stablehlo::ExpOp exp) {
  return llvm::all_of(exp->getUsers(), [](Operation *user) {
    return isa<stablehlo::AddOp>(user) &&
           llvm::any_of(user->getOperands(), isConstant);
  });
}

/// True if the result is as accurate as rounded operands are. A sum may cancel,
/// an exponential multiplies an error by its argument, and a comparison is
/// discontinuous.
static bool preservesAccuracy(Operation *op) {
  if (isa<stablehlo::AddOp, stablehlo::SubtractOp>(op))
    return llvm::any_of(op->getOperands(), isConstant) &&
           llvm::none_of(op->getOpOperands(), isCancelled);
  if (auto exp = dyn_cast<stablehlo::ExpOp>(op))
    return isLogistic(exp);
  return isMove(op) ||
         isa<stablehlo::AbsOp, stablehlo::ConvertOp, stablehlo::DivOp,
             stablehlo::LogisticOp, stablehlo::MaxOp, stablehlo::MinOp,
             stablehlo::MulOp, stablehlo::NegOp, stablehlo::RsqrtOp,
             stablehlo::SelectOp, stablehlo::SqrtOp, stablehlo::TanhOp>(op);
}

/// True for casts by one scale to nearest: elementwise, and deterministic.
static bool isPlainCast(Operation *op) {
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return !quantize.getBlock() && !quantize.isStochastic();
  auto dequantize = dyn_cast<DequantizeOp>(op);
  return dequantize && !dequantize.getBlock();
}

namespace {
class Recomputer {
public:
  Recomputer(Block &block, Type saved, bool clonesCasts)
      : block(block), saved(saved), clonesCasts(clonesCasts) {}
  unsigned run();

private:
  bool collect();
  bool isReadByLaterForward(Operation &op) const;
  bool isRecomputable(Operation *op);
  int64_t getBytes(Value value) const;
  void findNeeded();
  BitVector cut();
  void rematerialiseOperands(Operation *reader);
  Value remake(Value value, OpBuilder &builder);
  bool isRematerialised(Value value) const;

  Block &block;
  /// The format in which the backward keeps values; null for their own.
  Type saved;
  bool clonesCasts;
  Operation *firstBackwardDot = nullptr;
  /// The numbers of the forward's results in the network.
  llvm::MapVector<Value, unsigned> numbers;
  DenseMap<Operation *, unsigned> chains;
  SetVector<Value> needed;
  BitVector sinkSide;
  DenseMap<Value, Value> remade;
  unsigned count = 0;
};
} // namespace

/// Numbers the results of the forward; returns false if there is no backward.
bool Recomputer::collect() {
  for (Operation &op : block.without_terminator())
    if (isContraction(&op) && getPhase(&op) == Phase::Backward) {
      firstBackwardDot = &op;
      break;
    }
  if (!firstBackwardDot)
    return false;
  for (Operation &op : block.without_terminator()) {
    if (&op == firstBackwardDot)
      break;
    if (getPhase(&op) != Phase::Forward ||
        op.hasTrait<OpTrait::ConstantLike>() ||
        (clonesCasts && isReadByLaterForward(op)))
      continue;
    for (Value result : op.getResults())
      numbers.insert({result, numbers.size()});
  }
  return true;
}

/// True if a forward op after the first backward dot reads the op, as several
/// micro-batches read weights. Its results are then kept in any case.
bool Recomputer::isReadByLaterForward(Operation &op) const {
  return llvm::any_of(op.getUsers(), [&](Operation *user) {
    user = block.findAncestorOpInBlock(*user);
    return getPhase(user) == Phase::Forward &&
           firstBackwardDot->isBeforeInBlock(user);
  });
}

/// True if the op rounds an argument of the step, as an F32 weight to BF16.
static bool castsArgument(Operation *op) {
  if (!isa<stablehlo::ConvertOp, QuantizeOp>(op))
    return false;
  Value from = op->getOperand(0);
  while (Operation *move = from.getDefiningOp()) {
    if (!isMove(move) || move->getNumOperands() != 1)
      return false;
    from = move->getOperand(0);
  }
  return stablehlo::getElementBits(op->getResult(0).getType()) <
         stablehlo::getElementBits(from.getType());
}

bool Recomputer::isRecomputable(Operation *op) {
  // Cast weights once a step: a repeated cast would read the wide weight again.
  if (castsArgument(op))
    return false;
  bool isKind =
      op->getNumResults() == 1 && op->getNumRegions() == 0 && isPure(op) &&
      (isMove(op) || isElementwiseOp(op) || (clonesCasts && isPlainCast(op))) &&
      (!saved || preservesAccuracy(op));
  if (!isKind)
    return false;
  unsigned longest = 0;
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp())
      longest = std::max(longest, chains.lookup(def));
  if (longest >= kMaxRematerialisedChain)
    return false;
  chains[op] = longest + !isMove(op);
  return true;
}

int64_t Recomputer::getBytes(Value value) const {
  auto type = cast<RankedTensorType>(value.getType());
  Type element = type.getElementType();
  if (saved && element.isF32())
    element = saved;
  int64_t bits = stablehlo::getElementBits(element);
  return type.getNumElements() * std::max<int64_t>(bits / 8, 1);
}

/// Collects the forward values that ops outside of the forward read.
void Recomputer::findNeeded() {
  for (auto &[value, number] : numbers)
    for (Operation *user : value.getUsers()) {
      Operation *reader = block.findAncestorOpInBlock(*user);
      if (!reader->hasTrait<OpTrait::IsTerminator>() &&
          getPhase(reader) != Phase::Forward)
        needed.insert(value);
    }
}

/// Computes the sink side of the cut. A value is two nodes, joined by an edge
/// whose capacity is the value's bytes.
BitVector Recomputer::cut() {
  unsigned source = 2 * numbers.size(), sink = source + 1;
  MinCut network(sink + 1);
  for (auto &[value, number] : numbers) {
    network.addEdge(2 * number, 2 * number + 1, getBytes(value));
    if (needed.contains(value))
      network.addEdge(2 * number + 1, sink, MinCut::kUnlimited);
    Operation *op = value.getDefiningOp();
    if (!isRecomputable(op)) {
      network.addEdge(source, 2 * number, MinCut::kUnlimited);
      continue;
    }
    for (Value operand : op->getOperands())
      if (auto known = numbers.find(operand); known != numbers.end())
        network.addEdge(2 * known->second + 1, 2 * number, MinCut::kUnlimited);
  }
  return network.getSinkSide(source, sink);
}

/// True if the backward reads the value and it is not kept.
bool Recomputer::isRematerialised(Value value) const {
  auto known = numbers.find(value);
  return known != numbers.end() && sinkSide.test(2 * known->second) &&
         sinkSide.test(2 * known->second + 1);
}

Value Recomputer::remake(Value value, OpBuilder &builder) {
  if (!isRematerialised(value))
    return value;
  if (Value known = remade.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  IRMapping mapping;
  for (Value operand : op->getOperands())
    mapping.map(operand, remake(operand, builder));
  Operation *clone = builder.clone(*op, mapping);
  setPhase(clone, Phase::Backward);
  if (isa<QuantizeOp>(clone))
    clone->setAttr(kUncountedAttr, builder.getUnitAttr());
  ++count;
  return remade[value] = clone->getResult(0);
}

/// Inserts the clones before the reader, where later readers share them.
void Recomputer::rematerialiseOperands(Operation *reader) {
  OpBuilder builder(reader);
  reader->walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (isRematerialised(operand.get()))
        operand.set(remake(operand.get(), builder));
  });
}

unsigned Recomputer::run() {
  if (!collect())
    return 0;
  findNeeded();
  if (needed.empty())
    return 0;
  sinkSide = cut();
  SmallVector<Operation *> readers;
  for (Operation &op : block.without_terminator())
    if (getPhase(&op) != Phase::Forward)
      readers.push_back(&op);
  for (Operation *reader : readers)
    rematerialiseOperands(reader);
  return count;
}

unsigned scalify::recomputeForBackward(func::FuncOp func, Type saved) {
  return Recomputer(func.getBody().front(), saved, false).run();
}

unsigned scalify::recomputeCastsForBackward(func::FuncOp func) {
  return Recomputer(func.getBody().front(), {}, true).run();
}

void scalify::countFirstCasts(Block &block) {
  llvm::StringSet<> counted;
  for (bool isAgain : {false, true})
    for (auto cast : block.getOps<QuantizeOp>())
      if (auto name = cast.getCastAttr();
          name && cast->hasAttr(kUncountedAttr) == isAgain &&
          counted.insert(name.getValue()).second && isAgain)
        cast->removeAttr(kUncountedAttr);
}
