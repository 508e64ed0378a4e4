//===- Chunks.cpp - The pipeline chunk of a collective --------------------===//

#include "Chunks.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;
using stablehlo::isStageBorder;

/// True if the value is one number or its broadcast: a loss, a norm, a factor.
/// Such a value depends on all chunks and is read by all of them.
static bool isScalarOrSplat(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  auto spread = value.getDefiningOp<stablehlo::BroadcastInDimOp>();
  return (type && type.hasStaticShape() && type.getNumElements() == 1) ||
         (spread && isScalarOrSplat(spread.getOperand()));
}

static bool isForward(Operation *border) {
  return border->getAttrOfType<StringAttr>(stablehlo::kStageBorderAttr) ==
         "forward";
}

//===----------------------------------------------------------------------===//
// Places of definitions
//===----------------------------------------------------------------------===//

static void join(ChunkPlace &place, const ChunkPlace &other) {
  place.forward = std::max(place.forward, other.forward);
  place.backward = std::max(place.backward, other.backward);
  place.microbatch = std::max(place.microbatch, other.microbatch);
}

/// Returns the latest place of the array operands; of numbers only if there are
/// no arrays.
ChunkPlace Chunks::getOperandPlace(Operation *op) const {
  bool hasArrays = !llvm::all_of(op->getOperands(), isScalarOrSplat);
  ChunkPlace place;
  for (Value operand : op->getOperands())
    if (!hasArrays || !isScalarOrSplat(operand))
      join(place, places.lookup(operand));
  return place;
}

/// Visits regions once: a loop's result has the place of the yielded value.
void Chunks::enter(Operation *op, const ChunkPlace &before) {
  for (Value result : op->getResults())
    places[result] = before;
  for (Region &region : op->getRegions()) {
    if (region.empty())
      continue;
    Block &body = region.front();
    if (isa<stablehlo::WhileOp>(op))
      for (auto [argument, operand] :
           llvm::zip_equal(body.getArguments(), op->getOperands()))
        places[argument] = places.lookup(operand);
    walk(body);
    Operation *terminator = body.getTerminator();
    if (terminator->getNumOperands() != op->getNumResults())
      continue; // a condition
    for (auto [result, made] :
         llvm::zip_equal(op->getResults(), terminator->getOperands()))
      places[result] = places.lookup(made);
  }
}

void Chunks::walk(Block &block) {
  llvm::DenseMap<int64_t, int64_t> forwards, backwards; // borders, by depth
  for (Operation &op : block.without_terminator()) {
    ChunkPlace place = getOperandPlace(&op);
    if (isStageBorder(&op)) {
      int64_t &depth = isForward(&op) ? place.forward : place.backward;
      ++depth;
      place.microbatch = (isForward(&op) ? forwards : backwards)[depth]++;
    }
    if (isa<stablehlo::WhileOp, stablehlo::CaseOp, stablehlo::IfOp>(op))
      enter(&op, place);
    else
      for (Value result : op.getResults())
        places[result] = place;
  }
}

//===----------------------------------------------------------------------===//
// Places of readers
//===----------------------------------------------------------------------===//

/// Returns the values that a use makes of its operand: region arguments of a
/// loop, results of the op around a terminator, or else the user's results.
static SmallVector<Value> getForwardedValues(OpOperand &use) {
  Operation *user = use.getOwner(), *around = user->getParentOp();
  unsigned number = use.getOperandNumber();
  SmallVector<Value> found;
  if (isa<stablehlo::WhileOp>(user))
    for (Region &region : user->getRegions())
      found.push_back(region.getArgument(number));
  else if (user->hasTrait<OpTrait::IsTerminator>() &&
           number < around->getNumResults() &&
           user->getNumOperands() == around->getNumResults())
    found.push_back(around->getResult(number));
  else
    llvm::append_range(found, user->getResults());
  return found;
}

/// Returns the place of the first chunk that reads the collective's result.
ChunkPlace Chunks::getReaderPlace(Operation *op) const {
  std::optional<ChunkPlace> first;
  llvm::SetVector<Value> reached(op->result_begin(), op->result_end());
  for (size_t i = 0; i < reached.size(); ++i)
    for (OpOperand &use : reached[i].getUses())
      for (Value value : getForwardedValues(use)) {
        ChunkPlace place = places.lookup(value);
        if (!place.isBehindBorder()) {
          reached.insert(value);
          continue;
        }
        // The chunk before a border reads it.
        if (isStageBorder(use.getOwner()))
          --(isForward(use.getOwner()) ? place.forward : place.backward);
        if (!first || place.asTuple() < first->asTuple())
          first = place;
      }
  return first.value_or(ChunkPlace());
}

ChunkPlace Chunks::placeOf(Operation *collective) const {
  ChunkPlace place = places.lookup(collective->getResult(0));
  return place.isBehindBorder() ? place : getReaderPlace(collective);
}
