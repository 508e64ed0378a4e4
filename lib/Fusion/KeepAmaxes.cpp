//===- KeepAmaxes.cpp - Amaxes of weights, carried across steps -----------===//
//
// A scale from the current amax of a weight costs a read of the weight. The
// step that wrote the weight had each element in a register: it computes the
// amax there, and main reads it as an argument. A maximum has the same bits in
// any order. A caller that passes main another weight than the last result
// first computes its amax, by `@measure`.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Precision/KeptArgument.h"

#include "scalify/Dialect/Scalify/ElementAttr.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Integers.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Precision/KeptAmaxes.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace scalify {
#define GEN_PASS_DEF_KEEPAMAXES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

namespace {
/// The amax of an argument, or of one slice of a stacked argument.
struct Maximum {
  ReduceOp reduce;
  BlockArgument argument;
  /// Roundings of the elements before the maximum, the last one first. Rounding
  /// is monotonic, so it commutes with the maximum.
  SmallVector<ConvertOp> roundings;
  /// The index along the first dimension; -1 for the whole.
  int64_t slice = -1;
};

/// An argument whose amaxes are kept.
struct Kept {
  BlockArgument argument;
  SmallVector<Maximum> maxima;
  /// The result that replaces it in the next step.
  Value next;
  /// One amax for each slice along the first dimension.
  bool isStack = false;
  int64_t first = 0; // place of its amaxes in the vector

  int64_t count() const {
    return isStack ? cast<ShapedType>(argument.getType()).getDimSize(0) : 1;
  }
};
} // namespace

static bool isMaximumOfAll(ReduceOp reduce) {
  return reduce.getInputs().size() == 1 &&
         cast<ShapedType>(reduce->getResult(0).getType()).getRank() == 0 &&
         isa<MaxOp>(reduce.getBody().front().front()) &&
         reduce.getBody().front().getOperations().size() == 2 &&
         matchPattern(reduce.getInitValues()[0], m_AnyZeroFloat());
}

static bool isRounding(ConvertOp convert) {
  return isa<FloatType>(getElementTypeOrSelf(convert.getOperand())) &&
         isa<FloatType>(getElementTypeOrSelf(convert.getType()));
}

/// Returns the index along the first dimension of a slice that is whole along
/// the others; -1 for other slices.
static int64_t getPlace(SliceOp slice) {
  ArrayRef<int64_t> shape = slice.getOperand().getType().getShape();
  auto type = cast<RankedTensorType>(slice.getType());
  bool isOne = shape.size() > 1 && type.getDimSize(0) == 1 &&
               shape.drop_front() == type.getShape().drop_front();
  return isOne ? slice.getStartIndices()[0] : -1;
}

static std::optional<Maximum> findMaximum(ReduceOp reduce) {
  if (!isMaximumOfAll(reduce))
    return std::nullopt;
  Maximum found{reduce, {}, {}};
  bool isMagnitude = false;
  Value value = reduce.getInputs()[0];
  while (Operation *op = value.getDefiningOp()) {
    if (auto convert = dyn_cast<ConvertOp>(op); convert && isRounding(convert))
      found.roundings.push_back(convert);
    else if (auto slice = dyn_cast<SliceOp>(op); slice && found.slice < 0) {
      found.slice = getPlace(slice);
      if (found.slice < 0)
        return std::nullopt;
    } else if (isa<AbsOp>(op))
      isMagnitude = true;
    else if (!isa<ReshapeOp, TransposeOp, ReverseOp>(op) || found.slice >= 0)
      return std::nullopt; // a move before the slice would change its elements
    value = op->getOperand(0);
  }
  found.argument = cast<BlockArgument>(value);
  // Amaxes are kept in F32, which must represent them.
  bool isHeld = stablehlo::getElementBits(value.getType()) <= 32;
  return isMagnitude && isHeld ? std::optional(found) : std::nullopt;
}

/// True if a kernel has the elements in registers when it computes them. After
/// a gather or a concatenation, the amax would read them again.
static bool isComputed(Value value) {
  Operation *op =
      lookThrough(value, Move::Reshape | Move::Transpose).getDefiningOp();
  return op && (isElementwiseOp(op) || isa<DequantizeOp>(op));
}

/// Builds the amaxes of a value; reduces rows first, since the kernel that
/// computes the value has whole rows.
static Value buildAmaxes(OpBuilder &builder, Location loc, Value value,
                         const Kept &kept) {
  Type f32 = builder.getF32Type();
  Value amax = AbsOp::create(builder, loc, value);
  if (getElementTypeOrSelf(value) != f32)
    amax = ConvertOp::create(builder, loc, amax, f32);
  int64_t rank = cast<ShapedType>(value.getType()).getRank();
  int64_t first = kept.isStack ? 1 : 0;
  if (rank > first)
    amax = buildMaximum(builder, loc, amax, rank - 1);
  if (rank - 1 > first)
    amax = buildMaximum(builder, loc, amax, first);
  return ReshapeOp::create(builder, loc,
                           RankedTensorType::get({kept.count()}, f32), amax);
}

static Value joinAmaxes(OpBuilder &builder, Location loc,
                        ArrayRef<Value> amaxes, Type type) {
  return ConcatenateOp::create(builder, loc, type, amaxes, 0);
}

static Value takeEntries(OpBuilder &builder, Location loc, Value vector,
                         int64_t first, int64_t count) {
  return SliceOp::create(builder, loc, vector, 0, first, first + count);
}

/// Replaces a maximum that the step computes by the kept amax.
static void replaceMaximum(OpBuilder &builder, Maximum &maximum,
                           const Kept &kept, Value vector) {
  Location loc = maximum.reduce.getLoc();
  bool isOfAll = kept.isStack && maximum.slice < 0;
  Value amax = takeEntries(builder, loc, vector,
                           kept.first + std::max<int64_t>(maximum.slice, 0),
                           isOfAll ? kept.count() : 1);
  if (isOfAll)
    amax = buildMaximum(builder, loc, amax);
  else
    amax = ReshapeOp::create(
        builder, loc, RankedTensorType::get({}, builder.getF32Type()), amax);
  auto convert = [&](Type element) {
    if (getElementTypeOrSelf(amax) != element)
      amax = ConvertOp::create(builder, loc, amax, element);
  };
  convert(getElementTypeOrSelf(kept.argument));
  for (ConvertOp rounding : llvm::reverse(maximum.roundings))
    convert(getElementTypeOrSelf(rounding.getType()));
  maximum.reduce->getResult(0).replaceAllUsesWith(amax);
}

/// Appends `@measure`, which takes the arguments whose amaxes are kept.
static void buildMeasureFunction(func::FuncOp main, ArrayRef<Kept> all,
                                 RankedTensorType type) {
  OpBuilder builder = OpBuilder::atBlockEnd(main->getBlock());
  Location loc = builder.getUnknownLoc();
  auto types = llvm::map_to_vector(
      all, [](const Kept &kept) { return kept.argument.getType(); });
  auto measure = func::FuncOp::create(builder, loc, kMeasureFunction,
                                      builder.getFunctionType(types, {type}));
  builder.setInsertionPointToStart(measure.addEntryBlock());
  SmallVector<Value> amaxes;
  for (auto [i, kept] : llvm::enumerate(all)) {
    unsigned index = kept.argument.getArgNumber();
    measure.setArgAttr(i, kNameAttr, main.getArgAttr(index, kNameAttr));
    if (Attribute element = main.getArgAttr(index, kElementAttr))
      measure.setArgAttr(i, kElementAttr, element);
    measure.setArgAttr(i, kRoleAttr,
                       RoleAttr::get(builder.getContext(), Role::Input));
    amaxes.push_back(buildAmaxes(builder, loc, measure.getArgument(i), kept));
  }
  measure.setResultAttr(0, "jax.result_info",
                        builder.getStringAttr(kArgumentAmaxName));
  func::ReturnOp::create(builder, loc, joinAmaxes(builder, loc, amaxes, type));
}

namespace {
struct KeepAmaxesPass : scalify::impl::KeepAmaxesBase<KeepAmaxesPass> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    RecipeAttr recipe = RecipeAttr::of(getOperation());
    if (!main || main.isExternal() ||
        recipe.getScales() != ScaleSource::Current)
      return;
    SmallVector<Kept> all = findKept(main);
    if (!all.empty() && failed(keep(main, all)))
      return signalPassFailure();
    numKept += all.size();
  }

private:
  SmallVector<Kept> findKept(func::FuncOp main);
  LogicalResult keep(func::FuncOp main, MutableArrayRef<Kept> all);
};
} // namespace

SmallVector<Kept> KeepAmaxesPass::findKept(func::FuncOp main) {
  llvm::MapVector<Value, Kept> found;
  for (auto reduce : main.getBody().front().getOps<ReduceOp>()) {
    std::optional<Maximum> maximum = findMaximum(reduce);
    if (!maximum)
      continue;
    Kept &kept = found[maximum->argument];
    kept.argument = maximum->argument;
    kept.isStack |= maximum->slice >= 0;
    kept.maxima.push_back(std::move(*maximum));
  }
  SmallVector<Kept> all;
  llvm::StringMap<unsigned> names;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (auto name = main.getArgAttrOfType<StringAttr>(i, kNameAttr))
      ++names[name.getValue()];
  int64_t count = 0;
  for (auto &[argument, kept] : found) {
    auto name = main.getArgAttrOfType<StringAttr>(kept.argument.getArgNumber(),
                                                  kNameAttr);
    OpOperand *next = getNextValue(main, kept.argument.getArgNumber());
    kept.next = next ? next->get() : Value();
    if (!kept.next || !name)
      continue;
    // The caller of @measure finds its arguments by their names.
    if (names[name.getValue()] > 1) {
      kept.maxima.front().reduce.emitRemark("reads '")
          << name.getValue()
          << "' for its amax in each step: another argument has the same "
             "name";
      continue;
    }
    if (kept.next != argument && !isComputed(kept.next)) {
      kept.maxima.front().reduce.emitRemark("reads '")
          << name.getValue()
          << "' for its amax in each step: no elementwise op of the last step "
             "computes its new value";
      continue;
    }
    kept.first = count;
    count += kept.count();
    all.push_back(std::move(kept));
  }
  return all;
}

LogicalResult KeepAmaxesPass::keep(func::FuncOp main,
                                   MutableArrayRef<Kept> all) {
  OpBuilder builder(&getContext());
  auto type = RankedTensorType::get({all.back().first + all.back().count()},
                                    builder.getF32Type());
  buildMeasureFunction(main, all, type);
  FailureOr<BlockArgument> vector =
      addKeptArgument(main, type, kArgumentAmaxName);
  if (failed(vector))
    return failure();
  Block &body = main.getBody().front();
  Operation *end = body.getTerminator();
  SmallVector<Value> amaxes;
  for (Kept &kept : all) {
    builder.setInsertionPointToStart(&body);
    for (Maximum &maximum : kept.maxima)
      replaceMaximum(builder, maximum, kept, *vector);
    Location loc = kept.next.getLoc();
    if (kept.next == kept.argument) {
      amaxes.push_back(
          takeEntries(builder, loc, *vector, kept.first, kept.count()));
      continue;
    }
    builder.setInsertionPointAfterValue(kept.next);
    Operation *last = kept.next.getDefiningOp();
    amaxes.push_back(buildAmaxes(builder, loc, kept.next, kept));
    for (Operation *op = amaxes.back().getDefiningOp(); op != last;
         op = op->getPrevNode())
      copyPhase(last, op);
  }
  builder.setInsertionPoint(end);
  end->insertOperands(end->getNumOperands(),
                      joinAmaxes(builder, main.getLoc(), amaxes, type));
  stablehlo::eraseDeadOps(body);
  return success();
}
