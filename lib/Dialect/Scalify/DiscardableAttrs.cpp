//===- DiscardableAttrs.cpp - Verification of scalify.* attributes --------===//
//
// The stages pass decisions on as discardable attributes. MLIR keeps attributes
// of any name, so a misspelt name would lose a decision. The dialect therefore
// knows every name, its places, and its kind.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace scalify;

namespace {
/// The places where an attribute is allowed.
enum Place : unsigned { OnOp = 1, OnArgument = 2, OnResult = 4, OnModule = 8 };

/// The kinds of attributes.
struct Kind {
  bool (*fits)(Attribute);
  StringLiteral expected;
};

struct Entry {
  StringLiteral name; // after "scalify."
  unsigned places;
  Kind kind;
};
} // namespace

template <typename Attr> static bool is(Attribute attr) {
  return isa<Attr>(attr);
}

/// An integer that IntegerAttr::getInt returns.
static bool isNumber(Attribute attr) {
  auto number = dyn_cast<IntegerAttr>(attr);
  return number && (number.getType().isIndex() ||
                    (number.getType().isSignlessInteger() &&
                     number.getType().getIntOrFloatBitWidth() <= 64));
}

static bool isTensorType(Attribute attr) {
  auto type = dyn_cast_or_null<TypeAttr>(attr);
  return type && isa<RankedTensorType>(type.getValue());
}

/// The parts of each dimension.
static bool areParts(Attribute attr) {
  auto dims = dyn_cast_or_null<ArrayAttr>(attr);
  return dims && llvm::all_of(dims, llvm::IsaPred<DenseI64ArrayAttr>);
}

/// The parts of a flat run of elements, and what they are parts of.
static bool isFlat(Attribute attr) {
  auto record = dyn_cast<DictionaryAttr>(attr);
  return record && isTensorType(record.get("whole")) &&
         areParts(record.get("parts"));
}

static constexpr Kind kFlag{is<UnitAttr>, "a unit attribute"};
static constexpr Kind kText{is<StringAttr>, "a string"};
static constexpr Kind kNumber{isNumber, "an integer"};
static constexpr Kind kNumbers32{is<DenseI32ArrayAttr>, "an array of i32"};
static constexpr Kind kNumbers64{is<DenseI64ArrayAttr>, "an array of i64"};
static constexpr Kind kList{is<ArrayAttr>, "an array"};
static constexpr Kind kRecord{is<DictionaryAttr>, "a dictionary"};
static constexpr Kind kDecision{is<DecisionAttr>, "#scalify.decision"};

static constexpr Entry kEntries[] = {
    // Input, for every stage.
    {"phase", OnOp, {is<PhaseAttr>, "#scalify.phase"}},
    {"recipe", OnModule, {is<RecipeAttr>, "#scalify.recipe"}},
    {"target", OnModule, {is<TargetAttr>, "#scalify.target"}},
    {"role", OnArgument, {is<RoleAttr>, "#scalify.role"}},
    {"name", OnArgument, kText},
    {"element", OnArgument | OnResult, {is<TypeAttr>, "a type"}},
    {"in_memory", OnOp, kFlag},
    {"in_order", OnOp, kFlag},
    {"chunk_sums", OnOp, kFlag},
    {"stage_border", OnOp, kText},
    // Scaling.
    {"scale", OnOp | OnArgument, kNumber},
    {"moments", OnArgument, {is<DenseF64ArrayAttr>, "an array of f64"}},
    {"range", OnArgument, kRecord},
    {"measured", OnArgument, kNumber},
    {"rule", OnOp, kText},
    {"by_prior", OnOp, kFlag},
    {"unrounded", OnOp, kFlag},
    {"carry_scales", OnOp, kNumbers64},
    {"growing_carries", OnOp, kList},
    {"priors", OnModule, kList},
    {"rescale_at", OnModule, kList},
    {"proved", OnOp, kRecord},
    {"unproved", OnOp, kRecord},
    {"ranges", OnOp, kList},
    {"assumptions", OnModule, kList},
    {"id", OnOp | OnArgument, kNumber},
    {"body_ids", OnOp, kNumbers32},
    {"provenance", OnModule, kList},
    // Precision.
    {"wide_casts", OnModule, kList},
    {"dot_role", OnOp, {is<DotRoleAttr>, "#scalify.dot_role"}},
    {"dot_kind", OnOp, {is<DotKindAttr>, "#scalify.dot_kind"}},
    {"dot_weight", OnOp, kText},
    {"formats", OnOp, {is<FormatsAttr>, "#scalify.formats"}},
    {"whole_stack", OnOp, kFlag},
    {"wide", OnOp, kDecision},
    {"judgement", OnOp, kDecision},
    {"accumulation", OnOp, {is<AccumulationAttr>, "#scalify.accumulation"}},
    {"uncounted", OnOp, kFlag},
    {"carried", OnOp, kFlag},
    {"scaled", OnOp, kFlag},
    {"state", OnOp, kText},
    {"stored", OnArgument, kRecord},
    {"casts", OnArgument, kList},
    {"initial", OnArgument, kNumbers32},
    {"gradient", OnOp, kNumber},
    {"gradient_part", OnOp, kText},
    {"gradient_group", OnOp, kNumber},
    {"plain_form", OnOp, kFlag},
    {"plain_scales", OnOp, kNumbers32},
    {"plain_decision", OnOp, kDecision},
    {"plain_class", OnOp, kNumber},
    // Distribution.
    {"mark", OnOp, kRecord},
    {"whole_type", OnArgument | OnResult, {isTensorType, "a tensor's type"}},
    {"parts", OnArgument | OnResult, {areParts, "an array of arrays of i64"}},
    {"flat", OnArgument | OnResult, {isFlat, "a tensor's type and its parts"}},
    {"fills_shares", OnOp, kFlag},
    // Reports.
    {"report", OnModule, kList},
    {"remarks", OnModule, kList},
};

static const Entry *findEntry(StringRef name) {
  static const llvm::StringMap<const Entry *> entries = [] {
    llvm::StringMap<const Entry *> map;
    for (const Entry &entry : kEntries)
      map[entry.name] = &entry;
    return map;
  }();
  return entries.lookup(name);
}

static LogicalResult verifyAttr(Operation *op, NamedAttribute attr, Place place,
                                StringRef where) {
  StringRef full = attr.getName().strref(), name = full;
  name.consume_front("scalify.");
  const Entry *entry = findEntry(name);
  if (!entry)
    return op->emitOpError("has an attribute '")
           << full << "' that the scalify dialect does not know";
  if (!(entry->places & place))
    return op->emitOpError("has '")
           << full << "' on " << where << ", where it does not belong";
  if (!entry->kind.fits(attr.getValue()))
    return op->emitOpError("has '")
           << full << "' = " << attr.getValue() << " on " << where
           << ": expected " << entry->kind.expected;
  return success();
}

LogicalResult ScalifyDialect::verifyOperationAttribute(Operation *op,
                                                       NamedAttribute attr) {
  return isa<ModuleOp>(op) ? verifyAttr(op, attr, OnModule, "the module")
                           : verifyAttr(op, attr, OnOp, "the op");
}

LogicalResult ScalifyDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                       unsigned index,
                                                       NamedAttribute attr) {
  return verifyAttr(op, attr, OnArgument, "argument " + std::to_string(index));
}

LogicalResult ScalifyDialect::verifyRegionResultAttribute(Operation *op,
                                                          unsigned,
                                                          unsigned index,
                                                          NamedAttribute attr) {
  return verifyAttr(op, attr, OnResult, "result " + std::to_string(index));
}
