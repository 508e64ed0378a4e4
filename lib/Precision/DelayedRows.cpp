//===- DelayedRows.cpp - Rows of the history of amaxes --------------------===//
//
// Casts share a row if they are at one place of the program: because their
// operands are produced at one place, or because their readers are at one. The
// gradient that enters the last layer is produced by the loss, that of any
// other layer by the layer after it, but dots at one place read both.
//
//===----------------------------------------------------------------------===//

#include "DelayedRows.h"
#include "FreeScales.h"
#include "Places.h"
#include "PlainForm.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Precision/StoredState.h"
#include "scalify/Precision/ValueOrigin.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using stablehlo::DotGeneralOp;
using stablehlo::WhileOp;

/// Returns the producers of a value, looking through moves, stacks and carries
/// of loops. A carry has several: its start and the result of an iteration.
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
      // The value is a part of the concatenation, as of a stack.
      llvm::append_range(worklist, op->getOperands());
    } else {
      producers.push_back(origin);
    }
  }
  return producers;
}

/// Returns the key of casts whose operands are produced at one place; empty if
/// the place is unknown.
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

/// Returns the key of casts that dots of one class, or at one place, read as
/// the same operand; empty if the place is unknown.
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

/// Returns the uses by dots of `value` or of its moved and converted copies.
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

/// Returns the keys of a cast; casts with a common key share a row. Slices of
/// an argument, as of stacked weights, have the row of the whole. A weight has
/// no other key, though each layer reads one at the same place.
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

/// True if an amax computed at the op can leave its loops and branches.
static bool canLeaveRegions(Operation *op) {
  if (isInManualComputation(op))
    return false;
  for (; op; op = op->getParentOp())
    if (auto loop = dyn_cast_or_null<WhileOp>(op->getParentOp()))
      if (op->getParentRegion() == &loop.getCond())
        return false;
  return true;
}

/// True if all readers of the data use the cast's own scale. A measured scale
/// may belong to one iteration, which must then contain all readers.
static bool isReadAtOwnScale(QuantizeOp cast) {
  Value scale = cast.getScale();
  return mlir::cast<ShapedType>(scale.getType()).getRank() == 0 &&
         llvm::all_of(getCastReaders(cast), [&](Operation *op) {
           auto reader = dyn_cast<DequantizeOp>(op);
           return reader && reader.getScale() == scale;
         });
}

/// State has scales of its own: the floor of a second moment depends on its.
bool scalify::canCarryScale(QuantizeOp cast) {
  return !isStateCast(cast) && canLeaveRegions(cast) &&
         (hasFreeScale(cast) || isReadAtOwnScale(cast)) &&
         llvm::none_of(getCastReaders(cast), isInManualComputation);
}

static bool isDelayed(QuantizeOp cast) {
  return hasFP8Elements(cast.getType()) && getScaleExponent(cast.getScale()) &&
         canCarryScale(cast);
}

/// True if one scale can serve all casts, by their predicted scales. Code that
/// JAX hides has one place for all of its ops: the squares of a matrix power
/// are no layers of a stack.
static bool canShareRow(ArrayRef<QuantizeOp> casts) {
  int64_t least = INT64_MAX, most = INT64_MIN;
  bool areGradients = true;
  for (QuantizeOp cast : casts) {
    // If the step measures the scale, the row holds a factor of it.
    int64_t exponent = getScaleExponent(cast.getScale()).value_or(0);
    least = std::min(least, exponent);
    most = std::max(most, exponent);
    areGradients &= isGradient(cast.getValue());
  }
  return most - least <= getLargestSpread(areGradients);
}

/// Joins casts that write data for one reader and, with `byKeys`, casts with a
/// common key.
static llvm::IntEqClasses joinCasts(ArrayRef<QuantizeOp> casts, bool byKeys) {
  llvm::IntEqClasses classes(casts.size());
  llvm::StringMap<SmallVector<unsigned>> withKey;
  DenseMap<Operation *, unsigned> firstOfReader;
  for (auto [i, cast] : llvm::enumerate(casts)) {
    SmallVector<Operation *> readers = getCastReaders(cast);
    for (Operation *reader : readers)
      classes.join(firstOfReader.try_emplace(reader, i).first->second, i);
    if (!byKeys)
      continue;
    for (const std::string &key : getRowKeys(cast, readers))
      withKey[key].push_back(i);
  }
  for (const auto &entry : withKey) {
    ArrayRef<unsigned> members = entry.second;
    auto get = [&](unsigned i) { return casts[i]; };
    if (canShareRow(llvm::map_to_vector(members, get)))
      for (unsigned i : members.drop_front())
        classes.join(members.front(), i);
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
    // If the step measures the scale, the row holds a factor of it.
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
