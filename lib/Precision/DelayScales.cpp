//===- DelayScales.cpp - Scales from the amaxes of earlier steps ----------===//
//
// The history is one argument and one result of main. The casts' constants
// become entries of a vector that the history gives at the step's begin, which
// every body can read; amaxes go the other way, out of loops and branches, as
// maxima.
//
//===----------------------------------------------------------------------===//

#include "DelayedHistory.h"
#include "FreeScales.h"
#include "KeptArgument.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Import/Locations.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Precision/StoredState.h"
#include "scalify/Precision/ValueOrigin.h"
#include "scalify/Scaling/RangeProofs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_DELAYSCALES
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::WhileOp;

/// JAX's names without what says how often, or for the how manieth time, they
/// are run: loops, transformations and checkpoints.
static std::string getPlainNames(StringRef names) {
  SmallVector<StringRef> parts;
  names.split(parts, '/');
  std::string plain;
  for (StringRef part : parts) {
    while (part.consume_front("transpose(") || part.consume_front("jvp(") ||
           part.consume_front("jit("))
      part.consume_back(")");
    part = part.rtrim(')');
    static const StringRef kMarks[] = {"",           "while",
                                       "body",       "closed_call",
                                       "checkpoint", "rematted_computation"};
    if (!llvm::is_contained(kMarks, part))
      plain += "/" + part.str();
  }
  return plain;
}

/// The place of the program that a location says, the same for what a loop's
/// body or a checkpoint evaluates once more.
static std::string getPlace(Location location) {
  return llvm::TypeSwitch<Location, std::string>(location)
      .Case([](NameLoc name) {
        auto frames = reinterpret_cast<uintptr_t>(
            name.getChildLoc().getAsOpaquePointer());
        return getPlainNames(name.getName()) + "@" + llvm::utohexstr(frames);
      })
      .Case([](CallSiteLoc call) {
        return getPlace(call.getCaller()) + ">" + getPlace(call.getCallee());
      })
      .Case([](FusedLoc fused) {
        std::string place;
        for (Location part : fused.getLocations())
          place += getPlace(part) + "+";
        return place;
      })
      .Default([](Location other) {
        return llvm::utohexstr(
            reinterpret_cast<uintptr_t>(other.getAsOpaquePointer()));
      });
}

/// Equal for casts that have one row; empty for one that has its own. Slices
/// of an argument, as of stacked weights, have the row of the whole.
static std::string getRowKey(QuantizeOp cast) {
  auto arg = dyn_cast<BlockArgument>(getOrigin(cast.getValue()));
  if (arg && isa<FunctionOpInterface>(arg.getOwner()->getParentOp())) {
    std::string key = "argument " + std::to_string(arg.getArgNumber());
    llvm::raw_string_ostream(key)
        << '|' << getElementTypeOrSelf(cast.getType());
    return key;
  }
  Operation *def = cast.getValue().getDefiningOp();
  if (!def || !getFileLocation(cast.getLoc()) ||
      getNameStack(cast.getLoc()).empty())
    return "";
  std::string key = getPlace(cast.getLoc());
  llvm::raw_string_ostream(key)
      << '|' << def->getName() << '|' << cast.getType() << '|'
      << isGradient(cast.getValue());
  return key;
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

namespace {
class Delay {
public:
  Delay(func::FuncOp main, DelayedScaling delayed)
      : main(main), delayed(delayed), builder(main.getContext()) {}

  void findRows();
  LogicalResult run();
  unsigned getNumCasts() const { return rowOf.size(); }

private:
  using Amaxes = llvm::MapVector<unsigned, Value>;
  unsigned getRow(QuantizeOp cast, ArrayRef<Operation *> readers);
  FailureOr<BlockArgument> addArgument();
  void setScales(Value history);
  void keepLarger(Amaxes &amaxes, unsigned row, Value amax);
  Amaxes measure(Block &block);
  Amaxes carryOut(Operation *op);
  SmallVector<Amaxes> measureRegions(Operation *op);
  Value zero(Location loc);

  func::FuncOp main;
  DelayedScaling delayed;
  OpBuilder builder;
  SmallVector<HistoryRow> rows;
  SmallVector<std::string> names;
  llvm::MapVector<Operation *, unsigned> rowOf;
  DenseMap<Operation *, unsigned> rowOfReader;
  llvm::StringMap<unsigned> rowOfKey;
};
} // namespace

/// Data that two casts write have one scale, that of their reader.
unsigned Delay::getRow(QuantizeOp cast, ArrayRef<Operation *> readers) {
  for (Operation *reader : readers)
    if (auto known = rowOfReader.find(reader); known != rowOfReader.end())
      return known->second;
  std::string key = getRowKey(cast);
  unsigned row = rows.size();
  if (!key.empty())
    row = rowOfKey.try_emplace(key, row).first->second;
  if (row == rows.size()) {
    auto format = mlir::cast<FloatType>(getElementTypeOrSelf(cast.getType()));
    rows.push_back({static_cast<float>(getLargestFinite(format)), 0.0f});
    names.push_back(cast.getCast().value_or("").str());
  }
  return row;
}

void Delay::findRows() {
  main.walk([&](QuantizeOp cast) {
    if (!isDelayed(cast))
      return;
    SmallVector<Operation *> readers = getCastReaders(cast);
    unsigned row = getRow(cast, readers);
    for (Operation *reader : readers)
      rowOfReader[reader] = row;
    rowOf[cast] = row;
    auto exponent = static_cast<int>(*getScaleExponent(cast.getScale()));
    rows[row].predicted =
        std::max(rows[row].predicted, std::ldexp(1.0f, exponent));
  });
}

FailureOr<BlockArgument> Delay::addArgument() {
  auto type = RankedTensorType::get(
      {static_cast<int64_t>(rows.size()), delayed.history},
      builder.getF32Type());
  auto casts = llvm::to_vector_of<StringRef>(names);
  return addKeptArgument(
      main, type, kAmaxHistoryName,
      builder.getNamedAttr(kCastsAttr, builder.getStrArrayAttr(casts)));
}

void Delay::setScales(Value history) {
  builder.setInsertionPointToStart(&main.getBody().front());
  Location loc = main.getLoc();
  Value scales = buildDelayedScales(builder, loc, history, delayed, rows);
  SmallVector<Value> entries = splitEntries(builder, loc, scales);
  for (auto [op, row] : rowOf) {
    setCastScale(mlir::cast<QuantizeOp>(op), entries[row]);
    // A proof was of the constant.
    op->removeAttr(kProvedAttr);
    op->removeAttr(kUnprovedAttr);
  }
}

Value Delay::zero(Location loc) {
  auto type = RankedTensorType::get({}, builder.getF32Type());
  return stablehlo::ConstantOp::create(
      builder, loc,
      mlir::cast<ElementsAttr>(DenseElementsAttr::get(type, 0.0f)));
}

void Delay::keepLarger(Amaxes &amaxes, unsigned row, Value amax) {
  Value &entry = amaxes[row];
  entry = entry ? stablehlo::MaxOp::create(builder, amax.getLoc(), entry, amax)
                      .getResult()
                : amax;
}

/// The amaxes of all casts in a block and in the bodies of its ops, as values
/// of the block.
Delay::Amaxes Delay::measure(Block &block) {
  Amaxes amaxes;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto known = rowOf.find(&op); known != rowOf.end()) {
      builder.setInsertionPoint(&op);
      auto cast = mlir::cast<QuantizeOp>(op);
      Value amax = buildFiniteAmax(builder, op.getLoc(), cast.getValue());
      keepLarger(amaxes, known->second, amax);
    } else if (stablehlo::isControlFlow(&op) &&
               !isa<sdy::ManualComputationOp>(op)) {
      Operation *after = op.getNextNode();
      for (auto [row, amax] : carryOut(&op)) {
        builder.setInsertionPoint(after);
        keepLarger(amaxes, row, amax);
      }
    }
  }
  return amaxes;
}

SmallVector<Delay::Amaxes> Delay::measureRegions(Operation *op) {
  SmallVector<Amaxes> perRegion;
  // What a loop's condition casts, nothing carries out.
  for (Region &region : op->getRegions())
    if (!isa<WhileOp>(op) || region.getRegionNumber() != 0)
      perRegion.push_back(measure(region.front()));
  return perRegion;
}

/// Adds to a loop a carry, to branches a result for each row that they cast by.
Delay::Amaxes Delay::carryOut(Operation *op) {
  SmallVector<Amaxes> perRegion = measureRegions(op);
  Amaxes found;
  for (const Amaxes &amaxes : perRegion)
    for (auto [row, amax] : amaxes)
      found[row] = amax;
  if (found.empty())
    return found;
  Location loc = op->getLoc();
  Type type = RankedTensorType::get({}, builder.getF32Type());
  SmallVector<Value> starts;
  auto loop = dyn_cast<WhileOp>(op);
  for (auto [row, amax] : found) {
    if (loop) {
      builder.setInsertionPoint(op);
      starts.push_back(zero(loc));
      loop.getCond().addArgument(type, loc);
      Value carry = loop.getBody().addArgument(type, loc);
      Operation *end = loop.getBody().front().getTerminator();
      builder.setInsertionPoint(end);
      Value larger =
          stablehlo::MaxOp::create(builder, loc, carry, perRegion.back()[row]);
      end->insertOperands(end->getNumOperands(), larger);
      continue;
    }
    for (auto [region, amaxes] : llvm::zip(op->getRegions(), perRegion)) {
      Operation *end = region.front().getTerminator();
      builder.setInsertionPoint(end);
      Value own = amaxes.lookup(row);
      end->insertOperands(end->getNumOperands(), own ? own : zero(loc));
    }
  }
  unsigned first = op->getNumResults();
  Operation *wider = stablehlo::extendControlFlow(
      op, starts, SmallVector<Type>(found.size(), type));
  for (auto [i, entry] : llvm::enumerate(found))
    entry.second = wider->getResult(first + i);
  return found;
}

LogicalResult Delay::run() {
  if (rows.empty())
    return success();
  FailureOr<BlockArgument> history = addArgument();
  if (failed(history))
    return failure();
  setScales(*history);
  Block &body = main.getBody().front();
  Amaxes amaxes = measure(body);
  SmallVector<Value> ordered;
  for (unsigned row = 0; row != rows.size(); ++row)
    ordered.push_back(amaxes.lookup(row));
  Operation *end = body.getTerminator();
  builder.setInsertionPoint(end);
  end->insertOperands(
      end->getNumOperands(),
      buildNextHistory(builder, main.getLoc(), *history, ordered));
  return success();
}

namespace {
struct DelayScalesPass : scalify::impl::DelayScalesBase<DelayScalesPass> {
  using DelayScalesBase::DelayScalesBase;

  void runOnOperation() override {
    RecipeAttr recipe = RecipeAttr::of(getOperation());
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (recipe.getScales() != ScaleSource::Delayed || !main ||
        main.isExternal())
      return;
    Delay delay(main, recipe.getDelayed());
    delay.findRows();
    if (failed(delay.run()))
      return signalPassFailure();
    numDelayed += delay.getNumCasts();
  }
};
} // namespace
