//===- DiscardableAttrs.cpp - Verifies attributes named scalify.* ---------===//
//
// The stages hand decisions on as discardable attributes. MLIR keeps any
// attribute of any name, so that a misspelt one would be a decision lost:
// the dialect knows every name, where it may stand, and its kind.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace scalify;

namespace {
/// Where an attribute may stand.
enum Place : unsigned { OnOp = 1, OnArgument = 2, OnResult = 4, OnModule = 8 };

struct Entry {
  StringLiteral name; // behind "scalify."
  unsigned places;
  bool (*fits)(Attribute);
  StringLiteral expected;
};
} // namespace

template <typename Attr> static bool is(Attribute attr) {
  return isa<Attr>(attr);
}

static constexpr Entry makeFlag(StringLiteral name, unsigned places) {
  return {name, places, is<UnitAttr>, "a unit attribute"};
}
static constexpr Entry makeText(StringLiteral name, unsigned places) {
  return {name, places, is<StringAttr>, "a string"};
}
static constexpr Entry makeNumber(StringLiteral name, unsigned places) {
  return {name, places, is<IntegerAttr>, "an integer"};
}
static constexpr Entry makeList(StringLiteral name, unsigned places) {
  return {name, places, is<ArrayAttr>, "an array"};
}
static constexpr Entry makeRecord(StringLiteral name, unsigned places) {
  return {name, places, is<DictionaryAttr>, "a dictionary"};
}

static constexpr Entry kEntries[] = {
    // Of the input, for every stage.
    {"phase", OnOp, is<PhaseAttr>, "#scalify.phase"},
    {"recipe", OnModule, is<RecipeAttr>, "#scalify.recipe"},
    {"target", OnModule, is<TargetAttr>, "#scalify.target"},
    {"role", OnArgument, is<RoleAttr>, "#scalify.role"},
    makeText("name", OnArgument),
    makeFlag("in_memory", OnOp),
    makeFlag("in_order", OnOp),
    makeFlag("chunk_sums", OnOp),
    makeText("stage_border", OnOp),
    // Scaling.
    makeNumber("scale", OnOp | OnArgument),
    {"moments", OnArgument, is<DenseF64ArrayAttr>, "an array of f64"},
    makeRecord("range", OnArgument),
    makeNumber("measured", OnArgument),
    makeText("rule", OnOp),
    makeFlag("any_scale", OnOp),
    makeFlag("unrounded", OnOp),
    {"carry_scales", OnOp, is<DenseI64ArrayAttr>, "an array of i64"},
    {"operand_growth", OnOp, is<DenseI64ArrayAttr>, "an array of i64"},
    makeList("growing_carries", OnOp),
    makeList("rescale_at", OnModule),
    makeRecord("proved", OnOp),
    makeRecord("unproved", OnOp),
    makeList("ranges", OnOp),
    makeList("assumptions", OnModule),
    makeNumber("id", OnOp | OnArgument),
    {"body_ids", OnOp, is<DenseI32ArrayAttr>, "an array of i32"},
    makeList("provenance", OnModule),
    // Precision.
    makeList("wide_casts", OnModule),
    {"wide", OnOp, is<DecisionAttr>, "#scalify.decision"},
    {"judgement", OnOp, is<DecisionAttr>, "#scalify.decision"},
    {"accumulation", OnOp, is<AccumulationAttr>, "#scalify.accumulation"},
    makeFlag("uncounted", OnOp),
    makeFlag("carried", OnOp),
    makeFlag("scaled", OnOp),
    makeText("state", OnOp),
    makeRecord("stored", OnArgument),
    makeList("casts", OnArgument),
    {"initial", OnArgument, is<DenseI32ArrayAttr>, "an array of i32"},
    makeNumber("gradient", OnOp),
    makeText("gradient_part", OnOp),
    makeNumber("gradient_group", OnOp),
    makeFlag("plain_form", OnOp),
    {"plain_scales", OnOp, is<DenseI32ArrayAttr>, "an array of i32"},
    {"plain_decision", OnOp, is<DecisionAttr>, "#scalify.decision"},
    {"plain_role", OnOp, is<DotRoleAttr>, "#scalify.dot_role"},
    makeNumber("plain_class", OnOp),
    // Distribution.
    makeRecord("mark", OnOp),
    {"whole_type", OnArgument | OnResult, is<TypeAttr>, "a type"},
    makeList("parts", OnArgument | OnResult),
    makeRecord("flat", OnArgument | OnResult),
    makeFlag("fills_shares", OnOp),
    // Reports.
    makeList("report", OnModule),
    makeList("remarks", OnModule),
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
  if (!entry->fits(attr.getValue()))
    return op->emitOpError("has '")
           << full << "' = " << attr.getValue() << " on " << where
           << ": expected " << entry->expected;
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
