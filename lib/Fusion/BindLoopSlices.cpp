//===- BindLoopSlices.cpp - Slices of stacks as arguments of loops --------===//
//
// A scan reads a slice of each input, and writes a slice of each output, at an
// index that follows from the number of the iteration. The loop passes the
// address of the slice: GEMMs read it in place, and kernels write there.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/LoopIndices.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace scalify {
#define GEN_PASS_DEF_BINDLOOPSLICES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::DynamicSliceOp;
using stablehlo::DynamicUpdateSliceOp;
using stablehlo::LoopIndex;
using stablehlo::LoopIndices;

/// The alignment of the runtime's buffers, in bytes.
static constexpr int64_t kAlignment = 64;

namespace {
/// The place of a slice in its stack, in bytes, as in `plan.loop`.
struct Place {
  int64_t start, step, last;
};

/// Rewrites one function and all loops that run it.
class BodyRewriter {
public:
  BodyRewriter(func::FuncOp body, ArrayRef<plan::IterateOp> loops);

  void run();
  unsigned numReads = 0, numWrites = 0, numDead = 0;

private:
  unsigned numCarries() const { return ret->getNumOperands(); }
  void findCounters();
  std::optional<Place> findPlace(Value whole, Value part, ValueRange starts);
  bool coversAll(const Place &place, Value whole, Value part) const;
  void bindReads();
  void bindWrites();
  llvm::BitVector findDeadCarries();
  void eraseDead();
  void erase(const llvm::BitVector &arguments);
  void replaceLoops();

  func::FuncOp body;
  Block &block;
  Operation *ret;
  SmallVector<plan::IterateOp> loops;
  /// Operands of each loop, and results that are left: their old numbers.
  SmallVector<SmallVector<Value>> operands;
  SmallVector<unsigned> results;
  SmallVector<std::optional<Place>> places; // by argument
  LoopIndices indices;
};

class BindLoopSlicesPass
    : public scalify::impl::BindLoopSlicesBase<BindLoopSlicesPass> {
public:
  using BindLoopSlicesBase::BindLoopSlicesBase;
  void runOnOperation() override;
};
} // namespace

BodyRewriter::BodyRewriter(func::FuncOp body, ArrayRef<plan::IterateOp> loops)
    : body(body), block(body.getBody().front()), ret(block.getTerminator()),
      loops(loops), places(body.getNumArguments()),
      indices(static_cast<int64_t>(
          plan::IterateOp(loops.front()).getTrips().value_or(1))) {
  for (plan::IterateOp loop : loops)
    operands.emplace_back(loop->getOperands());
  results = llvm::to_vector(llvm::seq(numCarries()));
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// Finds carries that start from one constant in all loops, and to which the
/// body adds a constant.
void BodyRewriter::findCounters() {
  if (!loops.front().getTrips())
    return;
  for (unsigned i = 0; i < numCarries(); ++i) {
    std::optional<int64_t> step =
        stablehlo::getCarryStep(block.getArgument(i), ret->getOperand(i));
    std::optional<LoopIndex> first = LoopIndices(1).find(operands.front()[i]);
    bool isSame = llvm::all_of(operands, [&](ArrayRef<Value> own) {
      return LoopIndices(1).find(own[i]) == first;
    });
    if (step && first && isSame)
      indices.set(block.getArgument(i), {first->start, *step});
  }
}

/// Returns the place of a contiguous slice, if it follows from the iteration
/// and is aligned as the runtime requires.
std::optional<Place> BodyRewriter::findPlace(Value whole, Value part,
                                             ValueRange starts) {
  auto from = cast<RankedTensorType>(whole.getType());
  auto to = cast<RankedTensorType>(part.getType());
  if (!from.getElementType().isIntOrFloat())
    return std::nullopt;
  int64_t dim = 0, rank = from.getRank();
  while (dim < rank && from.getDimSize(dim) == 1)
    ++dim;
  if (dim == rank || from.getDimSize(dim) == to.getDimSize(dim) ||
      from.getShape().drop_front(dim + 1) != to.getShape().drop_front(dim + 1))
    return std::nullopt;
  std::optional<LoopIndex> index = indices.find(starts[dim]);
  if (!index)
    return std::nullopt;
  int64_t bytes = plan::elementBytes(from.getElementType());
  for (int64_t extent : from.getShape().drop_front(dim + 1))
    bytes *= extent;
  Place place = {index->start * bytes, index->step * bytes,
                 (from.getDimSize(dim) - to.getDimSize(dim)) * bytes};
  // One element needs only its own alignment.
  bool isAligned =
      to.getNumElements() == 1 ||
      llvm::all_of(ArrayRef<int64_t>{place.start, place.step, place.last},
                   [](int64_t byte) { return byte % kAlignment == 0; });
  return isAligned && to.getNumElements() > 0 ? std::optional(place)
                                              : std::nullopt;
}

void BodyRewriter::bindReads() {
  using Key = std::tuple<unsigned, int64_t, int64_t, Type>;
  llvm::DenseMap<Key, Value> slices;
  for (auto slice :
       llvm::make_early_inc_range(block.getOps<DynamicSliceOp>())) {
    auto stack = dyn_cast<BlockArgument>(slice.getOperand());
    if (!stack || stack.getArgNumber() < numCarries())
      continue;
    std::optional<Place> place =
        findPlace(stack, slice.getResult(), slice.getStartIndices());
    if (!place)
      continue;
    Value &known = slices[{stack.getArgNumber(), place->start, place->step,
                           slice.getType()}];
    if (!known) {
      known = block.addArgument(slice.getType(), slice.getLoc());
      for (SmallVector<Value> &own : operands)
        own.push_back(own[stack.getArgNumber()]);
      places.push_back(place);
    }
    slice.getResult().replaceAllUsesWith(known);
    slice.erase();
    ++numReads;
  }
}

/// True if the iterations write all of a stack.
bool BodyRewriter::coversAll(const Place &place, Value whole,
                             Value part) const {
  plan::IterateOp loop = loops.front();
  auto bytes = [](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getNumElements() * plan::elementBytes(type.getElementType());
  };
  int64_t trips = static_cast<int64_t>(loop.getTrips().value_or(0));
  return trips * bytes(part) == bytes(whole) &&
         std::abs(place.step) == bytes(part) &&
         place.start == (place.step > 0 ? 0 : place.last);
}

/// The body of a loop stores the update alone, in the memory of its argument.
void BodyRewriter::bindWrites() {
  for (unsigned i = 0; i < numCarries(); ++i) {
    BlockArgument stack = block.getArgument(i);
    auto update = ret->getOperand(i).getDefiningOp<DynamicUpdateSliceOp>();
    if (!update || update.getOperand() != stack || !stack.hasOneUse() ||
        !update->hasOneUse())
      continue;
    std::optional<Place> place =
        findPlace(stack, update.getUpdate(), update.getStartIndices());
    if (!place)
      continue;
    ret->setOperand(i, update.getUpdate());
    update.erase();
    if (coversAll(*place, stack, ret->getOperand(i)))
      for (auto [loop, own] : llvm::zip_equal(loops, operands)) {
        OpBuilder b(loop);
        own[i] = plan::UndefinedOp::create(b, loop.getLoc(), stack.getType());
      }
    stack.setType(ret->getOperand(i).getType());
    places[i] = place;
    ++numWrites;
  }
}

//===----------------------------------------------------------------------===//
// Dead values
//===----------------------------------------------------------------------===//

/// Returns the carries from which no result that is used follows.
llvm::BitVector BodyRewriter::findDeadCarries() {
  llvm::BitVector dead(block.getNumArguments());
  dead.set(0, numCarries());
  SmallVector<Value> needed;
  auto need = [&](unsigned i) {
    if (!dead.test(i))
      return;
    dead.reset(i);
    needed.push_back(ret->getOperand(i));
  };
  for (plan::IterateOp loop : loops) {
    if (loop.getCondition())
      need(static_cast<unsigned>(*loop.getCondition()));
    for (unsigned i = 0; i < numCarries(); ++i)
      if (!loop.getResult(results[i]).use_empty())
        need(i);
  }
  llvm::DenseSet<Operation *> seen;
  while (!needed.empty()) {
    Value value = needed.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op) {
      unsigned number = cast<BlockArgument>(value).getArgNumber();
      if (cast<BlockArgument>(value).getOwner() == &block)
        need(number);
    } else if (op->getBlock() == &block && seen.insert(op).second) {
      op->walk([&](Operation *inner) {
        llvm::append_range(needed, inner->getOperands());
      });
    }
  }
  return dead;
}

/// Erases arguments, and the results and operands that belong to them.
void BodyRewriter::erase(const llvm::BitVector &arguments) {
  unsigned carries = numCarries();
  for (unsigned i = arguments.size(); i-- > 0;) {
    if (!arguments.test(i))
      continue;
    if (i < carries) {
      ret->eraseOperand(i);
      results.erase(results.begin() + i);
    }
    places.erase(places.begin() + i);
    for (SmallVector<Value> &own : operands)
      own.erase(own.begin() + i);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
  for (unsigned i = arguments.size(); i-- > 0;)
    if (arguments.test(i))
      block.eraseArgument(i);
}

void BodyRewriter::eraseDead() {
  llvm::BitVector dead = findDeadCarries();
  // Not the last carry: a program computes something.
  if (dead.count() == numCarries() && numCarries() > 0)
    dead.reset(0);
  numDead += dead.count();
  erase(dead);
  llvm::BitVector unread(block.getNumArguments());
  for (unsigned i = numCarries(); i < block.getNumArguments(); ++i)
    if (block.getArgument(i).use_empty())
      unread.set(i);
  erase(unread);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void BodyRewriter::replaceLoops() {
  SmallVector<int64_t> slices;
  for (auto [i, place] : llvm::enumerate(places))
    if (place)
      slices.append({int64_t(i), place->start, place->step, place->last});
  // A loop may begin with results of another one.
  llvm::DenseMap<Value, Value> replaced;
  for (auto [loop, own] : llvm::zip_equal(loops, operands)) {
    for (Value &value : own)
      if (Value found = replaced.lookup(value))
        value = found;
    OpBuilder b(loop);
    auto named =
        slices.empty() ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(slices);
    IntegerAttr condition = loop.getConditionAttr();
    if (condition)
      condition = b.getI64IntegerAttr(
          llvm::find(results, unsigned(condition.getInt())) - results.begin());
    ValueRange carries = ArrayRef(own).take_front(numCarries());
    auto rebuilt = plan::IterateOp::create(
        b, loop.getLoc(), carries.getTypes(), loop.getCalleeAttr(), carries,
        ArrayRef(own).drop_front(numCarries()), loop.getTripsAttr(), condition,
        named);
    rebuilt->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    for (auto [i, number] : llvm::enumerate(results)) {
      replaced[loop.getResult(number)] = rebuilt.getResult(i);
      loop.getResult(number).replaceAllUsesWith(rebuilt.getResult(i));
    }
  }
  for (plan::IterateOp loop : llvm::reverse(loops))
    loop.erase();
}

void BodyRewriter::run() {
  findCounters();
  bindReads();
  bindWrites();
  eraseDead();
  Builder b(body.getContext());
  body.setFunctionType(
      b.getFunctionType(block.getArgumentTypes(), ret->getOperandTypes()));
  SmallVector<Attribute> attrs(block.getNumArguments(),
                               b.getDictionaryAttr({}));
  for (unsigned i = 0; i < numCarries(); ++i)
    attrs[i] = b.getDictionaryAttr(b.getNamedAttr(
        "tf.aliasing_output", b.getI32IntegerAttr(static_cast<int32_t>(i))));
  body.setAllArgAttrs(attrs);
  replaceLoops();
}

void BindLoopSlicesPass::runOnOperation() {
  // Functions of inner loops come first: fewer reads are left for outer ones.
  for (auto body : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
    SmallVector<plan::IterateOp> loops;
    getOperation().walk([&](plan::IterateOp loop) {
      if (loop.getCallee() == body.getSymName())
        loops.push_back(loop);
    });
    bool isAlike = llvm::all_of(loops, [&](plan::IterateOp loop) {
      return loop.getTrips() == loops.front().getTrips() && !loop.getSlices();
    });
    if (loops.empty() || !isAlike)
      continue;
    BodyRewriter rewriter(body, loops);
    rewriter.run();
    numReads += rewriter.numReads;
    numWrites += rewriter.numWrites;
    numDead += rewriter.numDead;
  }
}
