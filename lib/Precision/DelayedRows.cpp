//===- DelayedRows.cpp - Which casts share a history of amaxes ------------===//
//
// Casts have one row if they stand for one place: because what they cast is
// made at one place, or because what reads them is at one. The gradient that
// enters the last layer is made by the loss and that of any other layer by the
// one after it, and the same products read both.
//
//===----------------------------------------------------------------------===//

#include "DelayedRows.h"
#include "FreeScales.h"
#include "Places.h"
#include "PlainForm.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Precision/StoredState.h"
#include "scalify/Precision/ValueOrigin.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using stablehlo::DotGeneralOp;
using stablehlo::WhileOp;

/// What makes a value, behind moves, stacks and the carries of loops: several
/// ops for a carry, which is what came in or what an iteration left.
static SmallVector<Value> findProducers(Value value) {
  SmallVector<Value> producers, worklist{value};
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    Value origin = getOrigin(next);
    if (!seen.insert(origin).second)
      continue;
    auto argument = dyn_cast<BlockArgument>(origin);
    Operation *op =
        argument ? argument.getOwner()->getParentOp() : origin.getDefiningOp();
    if (auto loop = dyn_cast<WhileOp>(op)) {
      unsigned index = argument ? argument.getArgNumber()
                                : cast<OpResult>(origin).getResultNumber();
      if (argument)
        worklist.push_back(loop->getOperand(index));
      worklist.push_back(
          loop.getBody().front().getTerminator()->getOperand(index));
    } else if (isa<stablehlo::ConcatenateOp>(op) && origin != next) {
      // A part of it, as of a stack.
      llvm::append_range(worklist, op->getOperands());
    } else {
      producers.push_back(origin);
    }
  }
  return producers;
}

/// Of what is made at one place; empty where that is not known.
static std::string getProducerKey(QuantizeOp cast, OpResult value) {
  std::string key = getPlace(value.getOwner()->getLoc());
  if (key.empty())
    return "";
  llvm::raw_string_ostream(key)
      << '|' << value.getOwner()->getName() << value.getResultNumber() << '|'
      << value.getType() << '|' << getElementTypeOrSelf(cast.getType()) << '|'
      << isGradient(cast.getValue());
  return key;
}

static std::string getArgumentKey(QuantizeOp cast, BlockArgument argument) {
  std::string key;
  llvm::raw_string_ostream(key) << "argument " << argument.getArgNumber() << '|'
                                << getElementTypeOrSelf(cast.getType());
  return key;
}

/// Of what one operand of dots reads that are decided together.
static std::string getReaderKey(QuantizeOp cast, OpOperand &use) {
  std::string key;
  if (auto dots = use.getOwner()->getAttrOfType<IntegerAttr>(kPlainClassAttr))
    key = "dots " + std::to_string(dots.getInt());
  else
    key = getDotPlace(use.getOwner());
  if (key.empty())
    return "";
  llvm::raw_string_ostream(key) << '|' << use.getOperandNumber() << '|'
                                << getElementTypeOrSelf(cast.getType()) << '|'
                                << isGradient(cast.getValue());
  return key;
}

/// The uses by dots of what `value` or, moved, its followers hold.
static SmallVector<OpOperand *> getDotUses(Value value) {
  SmallVector<OpOperand *> uses;
  SmallVector<Value> worklist{value};
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    for (OpOperand &use : next.getUses()) {
      if (isa<DotGeneralOp>(use.getOwner()))
        uses.push_back(&use);
      else if (isa<stablehlo::TransposeOp, stablehlo::ReshapeOp,
                   stablehlo::ConvertOp>(use.getOwner()))
        worklist.push_back(use.getOwner()->getResult(0));
    }
  }
  return uses;
}

/// The keys of a cast: one in common, and casts have one row. Slices of an
/// argument, as of stacked weights, have the row of the whole; a weight's are
/// no others, though each layer reads one at the same place.
static SmallVector<std::string> getRowKeys(QuantizeOp cast,
                                           ArrayRef<Operation *> readers) {
  if (Value weight = getWeight(cast.getValue()))
    return {getArgumentKey(cast, mlir::cast<BlockArgument>(weight))};
  SmallVector<std::string> keys;
  for (Value producer : findProducers(cast.getValue())) {
    if (auto result = dyn_cast<OpResult>(producer))
      keys.push_back(getProducerKey(cast, result));
    else if (isa<FunctionOpInterface>(producer.getParentBlock()->getParentOp()))
      keys.push_back(getArgumentKey(cast, mlir::cast<BlockArgument>(producer)));
  }
  for (Operation *reader : readers)
    for (OpOperand *use : getDotUses(reader->getResult(0)))
      keys.push_back(getReaderKey(cast, *use));
  llvm::erase_if(keys, [](StringRef key) { return key.empty(); });
  return keys;
}

static bool isInManualComputation(Operation *op) {
  return op->getParentOfType<sdy::ManualComputationOp>() != nullptr;
}

/// Whether an amax in this place can leave its loops and branches.
static bool isCarriedOut(Operation *op) {
  if (isInManualComputation(op))
    return false;
  for (; op; op = op->getParentOp())
    if (auto loop = dyn_cast_or_null<WhileOp>(op->getParentOp()))
      if (op->getParentRegion() == &loop.getCond())
        return false;
  return true;
}

/// A scale that the step measures may be of one iteration: then all who read
/// the data must be in it, and know it.
static bool isReadAtOwnScale(QuantizeOp cast) {
  Value scale = cast.getScale();
  return mlir::cast<ShapedType>(scale.getType()).getRank() == 0 &&
         llvm::all_of(getCastReaders(cast), [&](Operation *op) {
           auto reader = dyn_cast<DequantizeOp>(op);
           return reader && reader.getScale() == scale;
         });
}

/// What becomes state has a scale of its own: a second moment's floor is of it.
bool scalify::canCarryScale(QuantizeOp cast) {
  return !isStateCast(cast) && isCarriedOut(cast) &&
         (hasFreeScale(cast) || isReadAtOwnScale(cast)) &&
         llvm::none_of(getCastReaders(cast), isInManualComputation);
}

static bool isDelayed(QuantizeOp cast) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(
             getElementTypeOrSelf(cast.getType())) &&
         getScaleExponent(cast.getScale()) && canCarryScale(cast);
}

/// Joins casts that write data for one reader, and `byKeys` those of one key.
static llvm::IntEqClasses joinCasts(ArrayRef<QuantizeOp> casts, bool byKeys) {
  llvm::IntEqClasses classes(casts.size());
  llvm::StringMap<unsigned> firstOfKey;
  DenseMap<Operation *, unsigned> firstOfReader;
  for (auto [i, cast] : llvm::enumerate(casts)) {
    SmallVector<Operation *> readers = getCastReaders(cast);
    for (Operation *reader : readers)
      classes.join(firstOfReader.try_emplace(reader, i).first->second, i);
    if (!byKeys)
      continue;
    for (const std::string &key : getRowKeys(cast, readers))
      classes.join(firstOfKey.try_emplace(key, i).first->second, i);
  }
  classes.compress();
  return classes;
}

static DelayedRows makeRows(SmallVector<QuantizeOp> casts,
                            const llvm::IntEqClasses &classes) {
  DelayedRows found;
  for (auto [i, cast] : llvm::enumerate(casts)) {
    // Classes are numbered in the order of their first members.
    unsigned row = classes[i];
    if (row == found.entries.size()) {
      auto format = mlir::cast<FloatType>(getElementTypeOrSelf(cast.getType()));
      found.entries.push_back(
          {static_cast<float>(getLargestFinite(format)), 0.0f});
      found.names.push_back(cast.getCast().value_or("").str());
    }
    found.rowOf[cast] = row;
    // Where the step measures the scale, the row is of a factor.
    auto exponent =
        static_cast<int>(getScaleExponent(cast.getScale()).value_or(0));
    float &predicted = found.entries[row].predicted;
    predicted = std::max(predicted, std::ldexp(1.0f, exponent));
  }
  return found;
}

DelayedRows scalify::findDelayedRows(func::FuncOp main) {
  SmallVector<QuantizeOp> casts;
  main.walk([&](QuantizeOp cast) {
    if (isDelayed(cast))
      casts.push_back(cast);
  });
  return makeRows(casts, joinCasts(casts, /*byKeys=*/true));
}

DelayedRows scalify::findRows(ArrayRef<QuantizeOp> casts) {
  return makeRows(llvm::to_vector(casts), joinCasts(casts, /*byKeys=*/false));
}
