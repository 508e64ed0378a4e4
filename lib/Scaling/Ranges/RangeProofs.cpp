//===- RangeProofs.cpp - Range proofs of casts ----------------------------===//
//
// A state records the operands that its bounds depend on. Following them back
// from a cast gives the declared arguments that a proof assumes. Without a
// proof it gives the op at which the bound was lost.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/RangeProofs.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Locations.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

/// Returns the values whose bounds the bound of `value` depends on.
static SmallVector<Value> getSources(const ModuleRanges &ranges, Value value) {
  SmallVector<Value> sources;
  unsigned number;
  Operation *op;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    op = argument.getOwner()->getParentOp();
    number = argument.getArgNumber();
    if (!isa<hlo::WhileOp>(op))
      return sources;
  } else {
    op = value.getDefiningOp();
    number = cast<OpResult>(value).getResultNumber();
  }
  if (auto loop = dyn_cast<hlo::WhileOp>(op))
    return {op->getOperand(number),
            loop.getBody().front().getTerminator()->getOperand(number)};
  if (isa<hlo::CaseOp, hlo::IfOp>(op)) {
    for (Region &branch : op->getRegions())
      sources.push_back(branch.front().getTerminator()->getOperand(number));
    return sources;
  }
  uint64_t mask = ranges.lookup(value).sources;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (i >= 64 || (mask >> i & 1))
      sources.push_back(operand);
  return sources;
}

static SmallVector<BlockArgument> findAssumed(const ModuleRanges &ranges,
                                              Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  SmallVector<BlockArgument> assumed;
  for (size_t i = 0; i < seen.size(); ++i) {
    auto argument = dyn_cast<BlockArgument>(seen[i]);
    if (argument && getRangeAttr(argument))
      assumed.push_back(argument);
    for (Value source : getSources(ranges, seen[i]))
      seen.insert(source);
  }
  llvm::sort(assumed, [](BlockArgument a, BlockArgument b) {
    return a.getArgNumber() < b.getArgNumber();
  });
  return assumed;
}

/// Follows a value beyond the limit back to the first such value.
static Value findLostBound(const ModuleRanges &ranges, Value value,
                           double limit) {
  llvm::SetVector<Value> seen;
  while (seen.insert(value)) {
    Value worst;
    double most = limit;
    for (Value source : getSources(ranges, value)) {
      auto shaped = dyn_cast<ShapedType>(source.getType());
      double bound = ranges.lookup(source).maxAbs();
      if (!shaped || !isa<FloatType>(shaped.getElementType()) || bound <= most)
        continue;
      worst = source;
      most = bound;
    }
    if (!worst)
      return value;
    value = worst;
  }
  return value;
}

static std::string describeNumber(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.4g", value);
  return text;
}

static constexpr StringLiteral kMeasuredReason =
    "the scale is measured in the step";

static std::string describeBound(double bound, double data) {
  return "|x| <= " + describeNumber(bound) + ", data up to " +
         describeNumber(data);
}

static std::string describeValue(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (!isa<FunctionOpInterface>(argument.getOwner()->getParentOp()))
      return "an argument of '" +
             argument.getOwner()
                 ->getParentOp()
                 ->getName()
                 .getStringRef()
                 .str() +
             "'";
    std::string name = "argument '" + getArgumentName(argument) + "'";
    return getRangeAttr(argument) ? name : name + " without a declared range";
  }
  Operation *op = value.getDefiningOp();
  std::string text = "'" + op->getName().getStringRef().str() + "'";
  std::string place = describeLocation(op->getLoc());
  return place.empty() ? text : text + " at " + place;
}

static std::string describeFormat(FloatType format) {
  std::string text;
  llvm::raw_string_ostream(text) << format;
  return text;
}

RangeProof scalify::proveCast(const ModuleRanges &ranges, Value value,
                              std::optional<double> scale, FloatType format) {
  RangeProof proof;
  proof.format = format;
  const RangeState &state = ranges.lookup(value);
  if (state.initialized)
    proof.bound = std::max(state.maxAbs(), 0.0);
  if (!scale) {
    proof.reason = kMeasuredReason;
    return proof;
  }
  double limit = Rounding::of(format).largest * *scale;
  proof.data = proof.bound / *scale;
  proof.isProved = proof.bound <= limit;
  if (!std::isinf(proof.bound))
    proof.assumed = findAssumed(ranges, value);
  if (proof.isProved)
    return proof;
  proof.lostAt = findLostBound(ranges, value, limit);
  bool isUnbounded = std::isinf(proof.bound);
  proof.reason =
      isUnbounded ? "no bound" : describeBound(proof.bound, proof.data);
  proof.reason += ": " + describeValue(proof.lostAt);
  return proof;
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

DictionaryAttr RangeProof::toAttribute(MLIRContext *context) const {
  Builder builder(context);
  NamedAttrList entries;
  entries.set("bound", builder.getF64FloatAttr(bound));
  entries.set("data", builder.getF64FloatAttr(data));
  entries.set("format", TypeAttr::get(format));
  SmallVector<Attribute> names;
  for (BlockArgument argument : assumed)
    names.push_back(builder.getStringAttr(getArgumentName(argument)));
  entries.set("assumed", builder.getArrayAttr(names));
  if (!isProved)
    entries.set("reason", builder.getStringAttr(reason));
  return entries.getDictionary(context);
}

DictionaryAttr scalify::toAttribute(MLIRContext *context,
                                    const RangeState &state) {
  Builder builder(context);
  NamedAttrList entries;
  entries.set("lo", builder.getF64FloatAttr(state.lo));
  entries.set("hi", builder.getF64FloatAttr(state.hi));
  entries.set("nan", builder.getBoolAttr(state.nan));
  auto addNorms = [&](StringRef key, ArrayRef<NormBound> norms) {
    SmallVector<int64_t> axes;
    SmallVector<double> bounds;
    for (const NormBound &norm : norms) {
      axes.push_back(norm.axes);
      bounds.push_back(norm.bound);
    }
    if (axes.empty())
      return;
    entries.set((key + "_axes").str(), builder.getDenseI64ArrayAttr(axes));
    entries.set(key, builder.getDenseF64ArrayAttr(bounds));
  };
  addNorms("l2", state.l2);
  addNorms("l1", state.l1);
  if (state.peak) {
    entries.set("peak", builder.getF64FloatAttr(state.peak->bound));
    entries.set("peak_axes", builder.getI64IntegerAttr(state.peak->axes));
  }
  return entries.getDictionary(context);
}

static DictionaryAttr getProof(Operation *op) {
  if (auto proved = op->getAttrOfType<DictionaryAttr>(kProvedAttr))
    return proved;
  return op->getAttrOfType<DictionaryAttr>(kUnprovedAttr);
}

/// Returns the bound on data; infinite if nothing was analysed.
static double getDataBound(DictionaryAttr proof) {
  auto data = proof ? proof.getAs<FloatAttr>("data") : FloatAttr();
  return data ? data.getValueAsDouble() : RangeState::infinity();
}

FloatType scalify::chooseFormat(Operation *hint, FloatType wanted) {
  double data = getDataBound(getProof(hint));
  auto wide = Float8E5M2Type::get(wanted.getContext());
  bool onlyWideFits =
      data > Rounding::of(wanted).largest && data <= Rounding::of(wide).largest;
  return onlyWideFits && wanted.getWidth() == 8 ? FloatType(wide) : wanted;
}

void scalify::moveProof(Operation *hint, Value operand) {
  Operation *op = operand.getDefiningOp();
  while (isa_and_nonnull<DequantizeOp, hlo::ReshapeOp, hlo::TransposeOp,
                         hlo::ReverseOp>(op))
    op = op->getOperand(0).getDefiningOp();
  auto cast = dyn_cast_or_null<QuantizeOp>(op);
  if (!cast)
    return;
  // If a value has two hints, the later one counts: both have its bound.
  cast->removeAttr(kProvedAttr);
  if (DictionaryAttr proof = getProof(hint))
    cast->setAttr(kUnprovedAttr, proof);
  updateProof(cast);
}

/// Returns why data up to `data` is not proved to fit the format of a cast.
static std::string getReason(double bound, double data, FloatType format,
                             std::optional<int64_t> exponent) {
  if (!exponent)
    return kMeasuredReason.str();
  return describeBound(bound, data) + " in " + describeFormat(format) +
         " at scale 2^" + std::to_string(*exponent);
}

void scalify::updateProof(QuantizeOp cast) {
  DictionaryAttr proof = getProof(cast);
  if (!proof)
    return;
  std::optional<int64_t> exponent = getScaleExponent(cast.getScale());
  double bound = proof.getAs<FloatAttr>("bound").getValueAsDouble();
  double data =
      exponent ? std::ldexp(bound, -*exponent) : RangeState::infinity();
  auto format = mlir::cast<FloatType>(getElementTypeOrSelf(cast.getType()));
  bool isProved = data <= Rounding::of(format).largest;
  Builder builder(cast.getContext());
  NamedAttrList entries(proof);
  if (isProved)
    entries.erase("reason");
  else if (data != getDataBound(proof) || !proof.get("reason"))
    entries.set("reason", builder.getStringAttr(
                              getReason(bound, data, format, exponent)));
  entries.set("data", builder.getF64FloatAttr(data));
  entries.set("format", TypeAttr::get(format));
  cast->removeAttr(kProvedAttr);
  cast->removeAttr(kUnprovedAttr);
  cast->setAttr(isProved ? kProvedAttr : kUnprovedAttr,
                entries.getDictionary(cast.getContext()));
}

std::string scalify::getReasonUnproved(Operation *hint, FloatType wanted) {
  DictionaryAttr proof = getProof(hint);
  if (!proof)
    return "";
  FloatType format = chooseFormat(hint, wanted);
  if (getDataBound(proof) <= Rounding::of(format).largest)
    return "";
  auto reason = proof.getAs<StringAttr>("reason");
  return "not proved to fit " + describeFormat(format) +
         (reason ? ": " + reason.str() : "");
}

std::string scalify::describeProof(Operation *op) {
  DictionaryAttr proof = getProof(op);
  if (!proof)
    return "";
  if (op->hasAttr(kUnprovedAttr))
    return "unproved: " + proof.getAs<StringAttr>("reason").str();
  auto format = cast<FloatType>(proof.getAs<TypeAttr>("format").getValue());
  double bound = proof.getAs<FloatAttr>("bound").getValueAsDouble();
  std::string text = "proved: " + describeBound(bound, getDataBound(proof)) +
                     " of " + describeNumber(Rounding::of(format).largest);
  SmallVector<StringRef> names;
  for (auto name : proof.getAs<ArrayAttr>("assumed").getAsRange<StringAttr>())
    names.push_back(name);
  return names.empty() ? text : text + ", assuming " + llvm::join(names, ", ");
}
