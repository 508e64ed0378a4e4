//===- NarrowCollectives.cpp - Collectives on narrow data -----------------===//
//
// Precision decides which values are narrow. A value that is narrow on both
// sides of a collective need not be wide in between: casts commute with data
// movement, and each rank can itself sum the narrow data that it receives. No
// bit of a result changes.
//===----------------------------------------------------------------------===//

#include "GatherMaxima.h"
#include "NarrowMoves.h"
#include "NarrowSums.h"
#include "SharePlaces.h"
#include "UniformValues.h"

#include "scalify/Dialect/StableHLO/Collectives.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

namespace scalify {
#define GEN_PASS_DEF_NARROWCOLLECTIVESPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static bool isWide(Value value) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value));
  return type && type.getWidth() > 8;
}

static unsigned widthOf(Value value) {
  return stablehlo::getElementBits(value.getType());
}

static bool isSameScale(Value a, Value b) {
  Attribute left, right;
  return a == b || (matchPattern(a, m_Constant(&left)) &&
                    matchPattern(b, m_Constant(&right)) && left == right);
}

namespace {

/// The readers of a value, also through moves.
struct Readers {
  SmallVector<QuantizeOp> casts;
  Operation *other = nullptr; // a reader that is no cast
};

class Narrower {
public:
  explicit Narrower(func::FuncOp main) : main(main) {}
  unsigned run();

private:
  bool narrow(Operation *op);
  bool castBefore(Operation *op);
  bool moveNarrowOnly(Operation *op);

  func::FuncOp main;
};

} // namespace

static void collectReaders(Value value, Readers &readers) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    auto cast = dyn_cast<QuantizeOp>(user);
    if (cast && use.getOperandNumber() == 0)
      readers.casts.push_back(cast);
    else if (commutesWithCast(user) && use.getOperandNumber() == 0)
      collectReaders(user->getResult(0), readers);
    else
      readers.other = user;
  }
}

/// Returns the groups within which data move.
static DenseIntElementsAttr getGroups(Operation *op) {
  if (!isa<stablehlo::CollectivePermuteOp>(op))
    return op->getAttrOfType<DenseIntElementsAttr>("replica_groups");
  // Any two ranks may be linked by a chain of pairs: all must agree.
  SmallVector<int64_t> all;
  auto pairs = op->getAttrOfType<DenseIntElementsAttr>("source_target_pairs");
  for (int64_t id : pairs.getValues<int64_t>())
    if (!llvm::is_contained(all, id))
      all.push_back(id);
  auto type = RankedTensorType::get({1, static_cast<int64_t>(all.size())},
                                    IntegerType::get(op->getContext(), 64));
  return DenseIntElementsAttr::get(type, all);
}

static Value cloneForNarrow(OpBuilder &builder, Operation *op, Value data) {
  IRMapping map;
  map.map(op->getOperand(0), data);
  Value result = builder.clone(*op, map)->getResult(0);
  result.setType(cast<RankedTensorType>(result.getType())
                     .clone(getElementTypeOrSelf(data)));
  return result;
}

/// Replaces the casts of `wide` by `data`, through the moves before them.
static void replaceReaders(Value wide, Value data) {
  for (Operation *user : llvm::make_early_inc_range(wide.getUsers())) {
    if (auto cast = dyn_cast<QuantizeOp>(user)) {
      cast.replaceAllUsesWith(data);
    } else {
      OpBuilder builder(user);
      replaceReaders(user->getResult(0), cloneMove(builder, user, data));
    }
    user->erase();
  }
}

static bool hasBlocks(const Readers &readers) {
  return llvm::any_of(readers.casts,
                      [](QuantizeOp cast) { return cast.getBlock(); });
}

/// Clones the cast `behind` a collective for the collective's operand.
static QuantizeOp castShare(Operation *op, QuantizeOp behind) {
  IRMapping map;
  map.map(behind.getValue(), op->getOperand(0));
  for (Value read : behind->getOperands().drop_front())
    map.map(read, hoist(read, op));
  OpBuilder builder(op);
  auto share = cast<QuantizeOp>(builder.clone(*behind, map));
  share->getResult(0).setType(
      cast<RankedTensorType>(op->getOperand(0).getType())
          .clone(getElementTypeOrSelf(behind.getType())));
  return share;
}

/// If all readers cast the result identically, casts the operand instead.
bool Narrower::castBefore(Operation *op) {
  Readers readers;
  collectReaders(op->getResult(0), readers);
  if (readers.casts.empty())
    return false;
  auto stays = [&](const Twine &why) {
    op->emitRemark("moves ")
        << getElementTypeOrSelf(op->getOperand(0)) << " that is cast to "
        << getElementTypeOrSelf(readers.casts.front().getType()) << ": " << why;
    return false;
  };
  QuantizeOp first = readers.casts.front();
  if (readers.other)
    return stays("'" + readers.other->getName().getStringRef() +
                 "' reads it wide");
  bool isAlike = llvm::all_of(readers.casts, [&](QuantizeOp other) {
    return other == first || (!other.isStochastic() && !first.isStochastic() &&
                              getElementTypeOrSelf(other.getType()) ==
                                  getElementTypeOrSelf(first.getType()) &&
                              isSameScale(other.getScale(), first.getScale()));
  });
  if (!isAlike)
    return stays("it is cast in more than one way");
  // Random words and blocks depend on positions in the whole value.
  auto gather = dyn_cast<stablehlo::AllGatherOp>(op);
  std::optional<SharePlaces> places;
  if (first.isStochastic() && gather)
    places = SharePlaces::find(gather, first);
  if (first.isStochastic() ? !places : hasBlocks(readers))
    return stays("its cast depends on positions in the whole value");
  for (Value read : first->getOperands().drop_front()) {
    if (!canHoist(read, op))
      return stays("its scale is defined after the collective");
    if (!isUniform(read, getGroups(op)))
      return stays("ranks may have different scales for it");
  }

  QuantizeOp early = castShare(op, first);
  if (places)
    places->set(early, gather);
  OpBuilder builder(op);
  replaceReaders(op->getResult(0), cloneForNarrow(builder, op, early));
  op->erase();
  return true;
}

/// Moves the narrow data of an operand that was dequantized, and dequantizes
/// after the collective.
bool Narrower::moveNarrowOnly(Operation *op) {
  Value wide = op->getOperand(0);
  DequantizeOp from = findDequantize(wide);
  if (!from || widthOf(from.getData()) >= widthOf(wide) ||
      !isUniform(from.getScale(), getGroups(op)))
    return false;
  OpBuilder builder(op);
  Value data = cloneForNarrow(builder, op, buildNarrow(builder, wide));
  auto result = DequantizeOp::create(
      builder, op->getLoc(), op->getResult(0).getType(), data, from.getScale());
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  return true;
}

bool Narrower::narrow(Operation *op) {
  if (op->getNumOperands() != 1 || !isWide(op->getOperand(0)))
    return false;
  if (isa<stablehlo::AllReduceOp, stablehlo::ReduceScatterOp>(op))
    return narrowSum(op);
  return castBefore(op) || moveNarrowOnly(op);
}

/// Replaces the initial values of carries that are passed on but never read by
/// zeros, such as weights of which only narrow slices are used.
static void dropUnreadCarries(func::FuncOp main) {
  main.walk<WalkOrder::PostOrder>([](stablehlo::WhileOp loop) {
    for (OpOperand &start : loop->getOpOperands()) {
      unsigned index = start.getOperandNumber();
      auto type = cast<RankedTensorType>(start.get().getType());
      bool isRead = !stablehlo::isInvariantCarry(loop, index) ||
                    !loop.getBody().getArgument(index).hasOneUse() ||
                    !loop.getCond().getArgument(index).use_empty() ||
                    !loop->getResult(index).use_empty();
      if (isRead || !isa<FloatType>(type.getElementType()))
        continue;
      OpBuilder builder(loop);
      start.set(stablehlo::buildZeros(builder, loop.getLoc(), type));
    }
  });
}

/// Returns the collectives of a function, including those in loops.
static SmallVector<Operation *> findCollectives(func::FuncOp main) {
  SmallVector<Operation *> collectives;
  main.walk([&](Operation *op) {
    if (stablehlo::isCollective(op))
      collectives.push_back(op);
  });
  return collectives;
}

unsigned Narrower::run() {
  if (findCollectives(main).empty())
    return 0;
  dropUnreadCarries(main);
  computeMaximaOfShares(main);
  unsigned count = 0;
  // Sums first: they leave all-gathers, which may become narrow as well.
  for (bool isForSums : {true, false})
    for (Operation *op : findCollectives(main))
      if (isa<stablehlo::AllReduceOp, stablehlo::ReduceScatterOp>(op) ==
          isForSums)
        count += narrow(op);
  return count;
}

namespace {
struct NarrowCollectivesPass
    : scalify::impl::NarrowCollectivesPassBase<NarrowCollectivesPass> {
  void runOnOperation() override {
    if (auto main = getOperation().lookupSymbol<func::FuncOp>("main");
        main && !main.isExternal())
      numNarrowed += Narrower(main).run();
  }
};
} // namespace
