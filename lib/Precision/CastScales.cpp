//===- CastScales.cpp - Calibrated, adaptive and carried scales -----------===//
//
// A calibration replaces the constant scales of casts by measured ones.
// Adaptive scales turn the constants into an argument of main, one entry per
// cast, so that they can move between two steps without recompilation. With the
// constants as entries the step computes the same bits: a division by a power
// of two is exact either way.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/CastScales.h"

#include "FreeScales.h"
#include "scalify/Precision/RescaleFunction.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Locations.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Precision/ValueOrigin.h"
#include "scalify/Scaling/RangeProofs.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_ADAPTSCALES
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static int64_t countElements(QuantizeOp cast) {
  return mlir::cast<RankedTensorType>(cast.getType()).getNumElements();
}

SmallVector<Operation *> scalify::getCastReaders(QuantizeOp cast) {
  llvm::SetVector<Operation *> readers;
  SmallVector<Value> worklist{cast.getResult()};
  DenseSet<Value> seen;
  Type element = getElementTypeOrSelf(cast.getType());
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    for (OpOperand &use : value.getUses()) {
      SmallVector<Value> moved;
      if (!isa<DequantizeOp>(use.getOwner()))
        moved = stablehlo::getFollowers(use);
      llvm::erase_if(moved, [&](Value result) {
        return getElementTypeOrSelf(result.getType()) != element;
      });
      if (moved.empty())
        readers.insert(use.getOwner());
      llvm::append_range(worklist, moved);
    }
  }
  return readers.takeVector();
}

bool scalify::hasFreeScale(QuantizeOp cast) {
  return getScaleExponent(cast.getScale()) &&
         llvm::all_of(getCastReaders(cast), llvm::IsaPred<DequantizeOp>);
}

llvm::StringSet<> scalify::findVaryingArguments(FunctionOpInterface main) {
  llvm::StringSet<> names;
  for (BlockArgument argument : main.getArguments())
    if (isa<FloatType>(getElementTypeOrSelf(argument.getType())) &&
        !main.getArgAttr(argument.getArgNumber(), kMomentsAttr))
      names.insert(getArgumentName(argument));
  return names;
}

bool scalify::isProvedToFit(Operation *cast, const llvm::StringSet<> &moving) {
  auto proof = cast->getAttrOfType<DictionaryAttr>(kProvedAttr);
  auto assumed = proof ? proof.getAs<ArrayAttr>("assumed") : ArrayAttr();
  auto moves = [&](StringAttr name) {
    return moving.contains(name.getValue());
  };
  return proof &&
         (!assumed || llvm::none_of(assumed.getAsRange<StringAttr>(), moves));
}

void scalify::setCastScale(QuantizeOp cast, Value scale) {
  cast.getScaleMutable().assign(scale);
  for (Operation *reader : getCastReaders(cast))
    mlir::cast<DequantizeOp>(reader).getScaleMutable().assign(scale);
}

static constexpr StringLiteral kCalibratedRule = "calibrated: measured";

bool scalify::isCalibrated(QuantizeOp cast) {
  auto rule = cast->getAttrOfType<StringAttr>(kRuleAttr);
  return rule && rule.getValue() == kCalibratedRule;
}

/// Returns the entries for the existing casts, in the order of the casts.
static SmallVector<CastScale> orderByName(ArrayRef<QuantizeOp> casts,
                                          ArrayRef<CastScale> given) {
  llvm::StringMap<const CastScale *> byName;
  for (const CastScale &scale : given)
    byName[scale.cast] = &scale;
  SmallVector<CastScale> scales;
  for (QuantizeOp cast : casts)
    if (const CastScale *scale = byName.lookup(cast.getCast().value_or("")))
      scales.push_back(*scale);
  return scales;
}

LogicalResult scalify::applyCastScales(ModuleOp module,
                                       ArrayRef<CastScale> given,
                                       bool someAreWide) {
  SmallVector<QuantizeOp> casts;
  module.walk([&](QuantizeOp cast) { casts.push_back(cast); });
  SmallVector<CastScale> scales(given);
  if (someAreWide)
    scales = orderByName(casts, given);
  if (casts.size() != scales.size())
    return module.emitError("the calibration is of a program with ")
           << scales.size() << " casts and this one has " << casts.size()
           << ": calibrate this program, by this recipe";
  for (auto [cast, scale] : llvm::zip(casts, scales)) {
    StringRef name = cast.getCast().value_or("");
    std::string names = getNameStack(cast.getLoc());
    int64_t elements = countElements(cast);
    if (name != scale.cast || elements != scale.elements ||
        names != scale.names)
      return cast.emitOpError("is cast '")
             << name << "' of " << elements << " elements at '" << names
             << "', and the calibration has '" << scale.cast << "' of "
             << scale.elements << " elements at '" << scale.names
             << "': calibrate this program, by this recipe";
    if (!hasFreeScale(cast))
      continue;
    // Readers may be outside of the body that contains the cast.
    OpBuilder builder = OpBuilder::atBlockBegin(
        &cast->getParentOfType<func::FuncOp>().getBody().front());
    float value = std::ldexp(1.0f, scale.exponent);
    setCastScale(cast, stablehlo::buildScalar(builder, cast.getLoc(), value));
    cast->setAttr(kRuleAttr, builder.getStringAttr(kCalibratedRule));
    updateProof(cast);
  }
  return success();
}

namespace {
struct AdaptScalesPass : scalify::impl::AdaptScalesBase<AdaptScalesPass> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    SmallVector<QuantizeOp> casts;
    main.walk([&](QuantizeOp cast) { casts.push_back(cast); });
    OpBuilder builder(&getContext());
    auto count = static_cast<int64_t>(casts.size());
    auto type = RankedTensorType::get({count}, builder.getF32Type());
    auto initial = llvm::map_to_vector(casts, [](QuantizeOp cast) {
      return static_cast<int32_t>(
          getScaleExponent(cast.getScale()).value_or(0));
    });
    auto names = llvm::map_to_vector(
        casts, [](QuantizeOp cast) { return cast.getCast().value_or(""); });
    DictionaryAttr attrs = builder.getDictionaryAttr(
        {builder.getNamedAttr(kCastsAttr, builder.getStrArrayAttr(names)),
         builder.getNamedAttr(kNameAttr,
                              builder.getStringAttr(kCastScalesName)),
         builder.getNamedAttr(kInitialAttr,
                              builder.getDenseI32ArrayAttr(initial)),
         builder.getNamedAttr(
             kRoleAttr, RoleAttr::get(builder.getContext(), Role::Input))});
    unsigned index = main.getNumArguments();
    if (failed(main.insertArgument(index, type, attrs, main.getLoc())))
      return signalPassFailure();
    builder.setInsertionPointToStart(&main.getBody().front());
    SmallVector<CountedCast> counted;
    for (auto [i, cast] : llvm::enumerate(casts)) {
      // Casts in bodies of loops keep their constants.
      bool moves = hasFreeScale(cast) && cast->getParentOp() == main;
      counted.push_back({countElements(cast), moves});
      if (!moves)
        continue;
      auto first = static_cast<int64_t>(i);
      Value entry = stablehlo::SliceOp::create(
          builder, cast.getLoc(), main.getArgument(index), 0, first, first + 1);
      setCastScale(cast,
                   stablehlo::ReshapeOp::create(
                       builder, cast.getLoc(),
                       RankedTensorType::get({}, builder.getF32Type()), entry));
      ++numAdapted;
    }
    if (!casts.empty())
      buildRescaleFunction(getOperation(), counted);
  }
};
} // namespace
