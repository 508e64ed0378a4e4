//===- DiscardableAttrs.cpp - Verification of scalify.* attributes --------===//

#include "scalify/Dialect/DiscardableAttrs.h"
#include "scalify/Dialect/Scalify/InputAttrs.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Contraction.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::discardable;

static bool isTensorType(Attribute attr) {
  auto type = dyn_cast_or_null<TypeAttr>(attr);
  return type && isa<RankedTensorType>(type.getValue());
}

/// The parts of each dimension.
static bool areParts(Attribute attr) { return areAll<DenseI64ArrayAttr>(attr); }

/// The parts of a flat run of elements, and what they are parts of.
static bool isFlat(Attribute attr) {
  auto record = dyn_cast<DictionaryAttr>(attr);
  return record && isTensorType(record.get("whole")) &&
         areParts(record.get("parts"));
}

/// Carries that grow, by their numbers.
static bool areGrowing(Attribute attr) {
  return areAll<DictionaryAttr>(attr) &&
         llvm::all_of(cast<ArrayAttr>(attr), [](Attribute entry) {
           Attribute carry = cast<DictionaryAttr>(entry).get("carry");
           return carry && isNumber(carry);
         });
}

/// The origins of values, as reports read them; each names others of them.
static bool areOrigins(Attribute attr) {
  if (!areAll<DictionaryAttr>(attr))
    return false;
  auto origins = cast<ArrayAttr>(attr);
  auto isOrigin = [&](int32_t id) {
    return id >= 0 && id < static_cast<int64_t>(origins.size());
  };
  return llvm::all_of(origins, [&](Attribute entry) {
    auto origin = cast<DictionaryAttr>(entry);
    auto from = origin.getAs<DenseI32ArrayAttr>("from");
    return from && llvm::all_of(from.asArrayRef(), isOrigin) &&
           origin.getAs<LocationAttr>("loc") && origin.getAs<TypeAttr>("type");
  });
}

/// Powers of two of a product's operands, which F64 holds.
static bool areExponents(Attribute attr) {
  auto list = dyn_cast<DenseI32ArrayAttr>(attr);
  return list && list.size() == 2 &&
         llvm::all_of(list.asArrayRef(), [](int32_t exponent) {
           return exponent >= -1074 && exponent <= 1023;
         });
}

static constexpr Kind kTexts{areAll<StringAttr>, "an array of strings"};
static constexpr Kind kDecision{is<DecisionAttr>, "#scalify.decision"};

static constexpr Entry kEntries[] = {
    // For every stage. The last number: what a program has before Import, by a
    // user's hand or from the passes that partition it.
    {"scalify.phase", OnOp, {is<PhaseAttr>, "#scalify.phase"}, OnOp},
    {"scalify.recipe", OnModule, {is<RecipeAttr>, "#scalify.recipe"}, OnModule},
    {"scalify.target", OnModule, {is<TargetAttr>, "#scalify.target"}, OnModule},
    {"scalify.role", OnArgument, {is<RoleAttr>, "#scalify.role"}, OnArgument},
    {"scalify.name", OnArgument, kText, OnArgument},
    {"scalify.element",
     OnArgument | OnResult,
     {is<TypeAttr>, "a type"},
     OnArgument | OnResult},
    {"scalify.in_memory", OnOp, kFlag},
    {"scalify.in_order", OnOp, kFlag, OnOp},
    {"scalify.chunk_sums", OnOp, kFlag, OnOp},
    {"scalify.stage_border", OnOp, kText, OnOp},
    // Scaling.
    {"scalify.scale", OnOp | OnArgument, kNumber, OnArgument},
    {"scalify.moments",
     OnArgument,
     {is<DenseF64ArrayAttr>, "an array of f64"},
     OnArgument},
    {"scalify.range", OnArgument, kRecord, OnArgument},
    {"scalify.measured", OnArgument, kNumber},
    {"scalify.rule", OnOp, kText},
    {"scalify.by_prior", OnOp, kFlag},
    {"scalify.unrounded", OnOp, kFlag},
    {"scalify.carry_scales", OnOp, kNumbers64},
    {"scalify.growing_carries",
     OnOp,
     {areGrowing, "an array of dictionaries with a 'carry'"}},
    {"scalify.priors", OnModule, kTexts, OnModule},
    {"scalify.rescale_at", OnModule, kTexts, OnModule},
    {"scalify.proved", OnOp, kRecord},
    {"scalify.unproved", OnOp, kRecord},
    {"scalify.ranges", OnOp, kList},
    {"scalify.assumptions", OnModule, kRecords},
    {"scalify.id", OnOp | OnArgument, kNumber},
    {"scalify.body_ids", OnOp, kNumbers32},
    {"scalify.provenance",
     OnModule,
     {areOrigins,
      "an array of dictionaries with 'loc', 'type' and 'from' in it"}},
    // Precision.
    {"scalify.wide_casts", OnModule, kRecords, OnModule},
    {"scalify.dot_role", OnOp, {is<DotRoleAttr>, "#scalify.dot_role"}},
    {"scalify.dot_kind", OnOp, {is<DotKindAttr>, "#scalify.dot_kind"}},
    {"scalify.dot_weight", OnOp, kText},
    {"scalify.formats", OnOp, {is<FormatsAttr>, "#scalify.formats"}},
    {"scalify.whole_stack", OnOp, kFlag},
    {"scalify.wide", OnOp, kDecision},
    {"scalify.judgement", OnOp, kDecision},
    {"scalify.accumulation",
     OnOp,
     {is<AccumulationAttr>, "#scalify.accumulation"}},
    {"scalify.uncounted", OnOp, kFlag},
    {"scalify.carried", OnOp, kFlag},
    {"scalify.scaled", OnOp, kFlag},
    {"scalify.state", OnOp, kText},
    {"scalify.stored", OnArgument, kRecord},
    {"scalify.casts", OnArgument, kTexts},
    {"scalify.initial", OnArgument, kNumbers32},
    {"scalify.gradient", OnOp, kNumber},
    {"scalify.gradient_part", OnOp, kText},
    {"scalify.gradient_group", OnOp, kNumber},
    {"scalify.plain_form", OnOp, kFlag},
    {"scalify.plain_scales",
     OnOp,
     {areExponents, "an array of two i32 from -1074 to 1023"}},
    {"scalify.plain_decision", OnOp, kDecision},
    {"scalify.plain_class", OnOp, kNumber},
    // Distribution.
    {"scalify.mark", OnOp, kRecord},
    {"scalify.whole_type",
     OnArgument | OnResult,
     {isTensorType, "a tensor's type"},
     OnArgument | OnResult},
    {"scalify.parts",
     OnArgument | OnResult,
     {areParts, "an array of arrays of i64"},
     OnArgument | OnResult},
    {"scalify.flat",
     OnArgument | OnResult,
     {isFlat, "a tensor's type and its parts"},
     OnArgument | OnResult},
    {"scalify.of_each_rank", OnResult, kFlag, OnResult},
    {"scalify.fills_shares", OnOp, kFlag, OnOp},
    // Reports.
    {"scalify.report", OnModule, kRecords},
    {"scalify.remarks", OnModule, kRecords},
};

static const Table &getTable() {
  static const Table table("scalify", kEntries);
  return table;
}

/// Checks that what is written of carries is on a loop or a branch that has
/// them; passes take them by number.
static LogicalResult verifyCarries(Operation *op, NamedAttribute attr) {
  auto scales = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
  auto growing = dyn_cast<ArrayAttr>(attr.getValue());
  bool isOfScales = attr.getName() == "scalify.carry_scales";
  if (!isOfScales && attr.getName() != "scalify.growing_carries")
    return success();
  int64_t count = op->getNumResults();
  if (op->getNumRegions() == 0 || isa<FunctionOpInterface>(op))
    return op->emitOpError("has '")
           << attr.getName().getValue() << "', but is no loop and no branch";
  if (isOfScales && scales.size() > count)
    return op->emitOpError("has ")
           << scales.size() << " scales of carries for " << count << " results";
  if (!isOfScales)
    for (auto entry : growing.getAsRange<DictionaryAttr>())
      if (int64_t carry = entry.getAs<IntegerAttr>("carry").getInt();
          carry < 0 || carry >= count)
        return op->emitOpError("has no carry ") << carry << " that grows";
  return success();
}

/// Checks that decisions about the formats of a product are on one.
static LogicalResult verifyProduct(Operation *op, NamedAttribute attr) {
  constexpr StringLiteral decisions[] = {
      "scalify.formats", "scalify.accumulation", "scalify.plain_scales"};
  if (!llvm::is_contained(decisions, attr.getName().strref()) ||
      stablehlo::isContraction(op))
    return success();
  return op->emitOpError("has '")
         << attr.getName().getValue() << "', but is no product";
}

LogicalResult ScalifyDialect::verifyOperationAttribute(Operation *op,
                                                       NamedAttribute attr) {
  if (failed(getTable().verify(op, attr)))
    return failure();
  if (failed(verifyProduct(op, attr)))
    return failure();
  return verifyCarries(op, attr);
}

LogicalResult ScalifyDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                       unsigned index,
                                                       NamedAttribute attr) {
  return getTable().verify(op, attr, OnArgument,
                           "argument " + std::to_string(index));
}

LogicalResult ScalifyDialect::verifyRegionResultAttribute(Operation *op,
                                                          unsigned,
                                                          unsigned index,
                                                          NamedAttribute attr) {
  return getTable().verify(op, attr, OnResult,
                           "result " + std::to_string(index));
}

LogicalResult scalify::verifyInputAttributes(Operation *op) {
  auto verifyAll = [&](DictionaryAttr attrs, Place place) {
    return llvm::all_of(attrs, [&](NamedAttribute attr) {
      StringRef name = attr.getName().strref();
      // No attribute of a plan is one of an input.
      return !(name.starts_with("scalify.") || name.starts_with("plan.")) ||
             succeeded(getTable().verifyInput(op, attr, place));
    });
  };
  Place place = isa<ModuleOp>(op) ? OnModule : OnOp;
  if (!verifyAll(op->getDiscardableAttrDictionary(), place))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (DictionaryAttr attrs = function.getArgAttrDict(i);
        attrs && !verifyAll(attrs, OnArgument))
      return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (DictionaryAttr attrs = function.getResultAttrDict(i);
        attrs && !verifyAll(attrs, OnResult))
      return failure();
  return success();
}
