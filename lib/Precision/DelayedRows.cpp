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

/// Of what is made at one place; empty where that is not known.
static std::string getProducerKey(QuantizeOp cast) {
  Operation *def = cast.getValue().getDefiningOp();
  std::string key = getPlace(cast.getLoc());
  if (!def || key.empty())
    return "";
  llvm::raw_string_ostream(key)
      << '|' << def->getName() << '|' << cast.getType() << '|'
      << isGradient(cast.getValue());
  return key;
}

/// Of what one operand of the dots of one place reads.
static std::string getReaderKey(QuantizeOp cast, OpOperand &use) {
  std::string place = getDotPlace(use.getOwner());
  if (place.empty())
    return "";
  llvm::raw_string_ostream(place) << '|' << use.getOperandNumber() << '|'
                                  << getElementTypeOrSelf(cast.getType()) << '|'
                                  << isGradient(cast.getValue());
  return place;
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
  SmallVector<std::string> keys;
  if (auto arg =
          dyn_cast_or_null<BlockArgument>(getStepArgument(cast.getValue()))) {
    llvm::raw_string_ostream(keys.emplace_back())
        << "argument " << arg.getArgNumber() << '|'
        << getElementTypeOrSelf(cast.getType());
    if (getWeight(arg))
      return keys;
  }
  if (std::string key = getProducerKey(cast); !key.empty())
    keys.push_back(key);
  for (Operation *reader : readers)
    for (OpOperand *use : getDotUses(reader->getResult(0)))
      if (std::string key = getReaderKey(cast, *use); !key.empty())
        keys.push_back(key);
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

/// What becomes state has a scale of its own: a second moment's floor is of it.
static bool isDelayed(QuantizeOp cast) {
  return !isStateCast(cast) &&
         isa<Float8E4M3FNType, Float8E5M2Type>(
             getElementTypeOrSelf(cast.getType())) &&
         isCarriedOut(cast) && hasFreeScale(cast) &&
         llvm::none_of(getCastReaders(cast), isInManualComputation);
}

/// Joins casts of one key, and casts that write data for one reader.
static llvm::IntEqClasses joinCasts(ArrayRef<QuantizeOp> casts) {
  llvm::IntEqClasses classes(casts.size());
  llvm::StringMap<unsigned> firstOfKey;
  DenseMap<Operation *, unsigned> firstOfReader;
  for (auto [i, cast] : llvm::enumerate(casts)) {
    SmallVector<Operation *> readers = getCastReaders(cast);
    for (Operation *reader : readers)
      classes.join(firstOfReader.try_emplace(reader, i).first->second, i);
    for (const std::string &key : getRowKeys(cast, readers))
      classes.join(firstOfKey.try_emplace(key, i).first->second, i);
  }
  classes.compress();
  return classes;
}

DelayedRows scalify::findDelayedRows(func::FuncOp main) {
  SmallVector<QuantizeOp> casts;
  main.walk([&](QuantizeOp cast) {
    if (isDelayed(cast))
      casts.push_back(cast);
  });
  llvm::IntEqClasses classes = joinCasts(casts);
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
    auto exponent = static_cast<int>(*getScaleExponent(cast.getScale()));
    float &predicted = found.entries[row].predicted;
    predicted = std::max(predicted, std::ldexp(1.0f, exponent));
  }
  return found;
}
