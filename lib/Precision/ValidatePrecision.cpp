//===- ValidatePrecision.cpp - Verify the output of Precision -------------===//

#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Precision/Passes.h"

#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/StoredState.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {
#define GEN_PASS_DEF_VALIDATEPRECISION
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static InFlightDiagnostic emitStateError(func::FuncOp main, unsigned index) {
  return main.emitOpError("argument '")
         << getArgumentName(main.getArgument(index))
         << "', which is stored narrow, ";
}

/// Checks that the readers of narrow state dequantize it by its scale: that of
/// the attribute, or a run-time scale.
static LogicalResult checkReaders(func::FuncOp main, unsigned index,
                                  std::optional<int64_t> exponent) {
  for (Operation *reader : main.getArgument(index).getUsers()) {
    auto wide = dyn_cast<DequantizeOp>(reader);
    if (wide && getScaleExponent(wide.getScale()) == exponent)
      continue;
    InFlightDiagnostic diag = emitStateError(main, index);
    diag << "is read other than at its scale";
    if (exponent)
      diag << " of 2^" << *exponent;
    diag.attachNote(reader->getLoc()) << "read here";
    return diag;
  }
  return success();
}

static bool hasStateScale(func::FuncOp main, int64_t index) {
  for (BlockArgument argument : main.getArguments())
    if (getArgumentName(argument) == kStateScalesName)
      return index >= 0 &&
             index < cast<ShapedType>(argument.getType()).getNumElements();
  return false;
}

/// Checks that a narrow argument and the result that aliases it are data of one
/// format and one scale.
static LogicalResult checkStored(func::FuncOp main, unsigned index) {
  auto stored = main.getArgAttrOfType<DictionaryAttr>(index, kStoredAttr);
  if (!stored)
    return success();
  auto predicted = stored.getAs<IntegerAttr>("exponent");
  if (!predicted || !stored.getAs<BoolAttr>("root"))
    return emitStateError(main, index)
           << "has no 'exponent' or no 'root' in 'scalify.stored'";
  std::optional<int64_t> exponent = predicted.getInt();
  if (auto entry = stored.getAs<IntegerAttr>("scale_index")) {
    if (!hasStateScale(main, entry.getInt()))
      return emitStateError(main, index)
             << "has scale " << entry.getInt() << " of '" << kStateScalesName
             << "', which has no such entry";
    exponent.reset();
  }
  OpOperand *next = getNextValue(main, index);
  if (!next)
    return emitStateError(main, index) << "is donated to no result";
  Value written = next->get();
  QuantizeOp cast = findStateCast(written);
  if (!cast || written.getType() != main.getArgumentTypes()[index] ||
      getScaleExponent(cast.getScale()) != exponent) {
    InFlightDiagnostic diag = emitStateError(main, index);
    diag << "is donated to a result that is not data of its type at its scale";
    if (exponent)
      diag << " of 2^" << *exponent;
    return diag;
  }
  return checkReaders(main, index, exponent);
}

/// Returns the format to which a dot's operand was cast. State that is stored
/// narrow was not cast for the dot, and counts as wide.
static Type getNarrowFormat(Value operand) {
  auto dequantize = operand.getDefiningOp<DequantizeOp>();
  if (!dequantize)
    return Type();
  Value data = dequantize.getData();
  auto argument = dyn_cast<BlockArgument>(data);
  auto func = argument
                  ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                  : func::FuncOp();
  if (func && func.getArgAttr(argument.getArgNumber(), kStoredAttr))
    return Type();
  return getElementTypeOrSelf(data.getType());
}

static LogicalResult checkDot(Operation *dot, bool casts) {
  Type lhs = getNarrowFormat(dot->getOperand(0));
  Type rhs = getNarrowFormat(dot->getOperand(1));
  if (!lhs != !rhs)
    return dot->emitOpError("has one narrow operand and one wide operand");
  if (lhs && lhs != rhs &&
      lhs.getIntOrFloatBitWidth() + rhs.getIntOrFloatBitWidth() > 16)
    return dot->emitOpError("has operands in ")
           << lhs << " and " << rhs << ", which cannot meet in one dot";
  if (casts && !lhs && !dot->hasAttr(kWideAttr))
    return dot->emitOpError("is neither on narrow operands nor marked ")
           << kWideAttr << " with a reason";
  return success();
}

namespace {
struct ValidatePrecisionPass
    : scalify::impl::ValidatePrecisionBase<ValidatePrecisionPass> {
  void runOnOperation() override {
    bool casts = RecipeAttr::of(getOperation()).castsDots();
    DenseMap<std::pair<std::pair<Value, Type>, Attribute>, QuantizeOp> casted;
    WalkResult result = getOperation().walk([&](Operation *op) -> WalkResult {
      if (isa<ScaleHintOp, MeasuredScaleOp, RoundScaleOp, SharedScaleOp,
              OverrideScaleOp, RescalePointOp, DataScaleOp>(op))
        return op->emitOpError("is left after quantisation");
      if (isContraction(op) &&
          isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
        return checkDot(op, casts);
      if (auto quantize = dyn_cast<QuantizeOp>(op)) {
        // State may round stochastically a value that a dot reads rounded to
        // nearest, or that other state has, by random words of its own.
        Attribute kind = quantize.isStochastic()
                             ? Attribute(quantize.getStreamAttr())
                             : quantize.getBlockAttr();
        auto [it, isNew] = casted.try_emplace(
            {{quantize.getValue(), quantize.getType()}, kind}, quantize);
        if (!isNew) {
          InFlightDiagnostic diag =
              quantize.emitOpError("casts a value that is cast already");
          diag.attachNote(it->second.getLoc()) << "first cast here";
          return diag;
        }
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (auto func : getOperation().getOps<func::FuncOp>())
      for (unsigned i = 0; i < func.getNumArguments(); ++i)
        if (!func.isExternal() && failed(checkStored(func, i)))
          return signalPassFailure();
  }
};
} // namespace
