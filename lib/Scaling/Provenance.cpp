//===- Provenance.cpp - The rule and the sources of each scale ------------===//

#include "scalify/Scaling/Provenance.h"
#include "scalify/Dialect/Scalify/Donation.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Scaling/ScaleAnalysis.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;

MutableArrayRef<Region> scalify::getScaledBodies(Operation *op) {
  if (stablehlo::isControlFlow(op))
    return op->getRegions();
  return {};
}

namespace {
class ProvenanceWriter {
public:
  ProvenanceWriter(FunctionOpInterface func, const ScaleAnalysis *analysis)
      : func(func), analysis(analysis), builder(func.getContext()) {}

  void run();

private:
  void numberValues();
  void number(Block &block);
  void describe(Value value);
  void setFacts(Value value, NamedAttrList &entry);
  /// Returns the values that the scale of `value` came from.
  llvm::SetVector<Value> getSources(Value value);
  void addFlowSources(Operation *op, unsigned index,
                      llvm::SetVector<Value> &sources);

  FunctionOpInterface func;
  const ScaleAnalysis *analysis;
  Builder builder;
  DenseMap<Value, int32_t> ids;
  SmallVector<Value> values;
  SmallVector<Attribute> table;
};
} // namespace

void ProvenanceWriter::number(Block &block) {
  auto add = [&](Value value) {
    ids[value] = static_cast<int32_t>(table.size() + values.size());
    values.push_back(value);
  };
  for (BlockArgument arg : block.getArguments())
    add(arg);
  for (Operation &op : block.without_terminator()) {
    bool isStorage = isa<ScaleHintOp, QuantizeOp, DequantizeOp>(op);
    if (op.getNumResults() && !isStorage) {
      op.setAttr(kIdAttr,
                 builder.getI32IntegerAttr(table.size() + values.size()));
      for (Value result : op.getResults())
        add(result);
    }
    SmallVector<int32_t> bodies;
    for (Region &region : getScaledBodies(&op)) {
      bodies.push_back(static_cast<int32_t>(table.size() + values.size()));
      if (region.hasOneBlock())
        number(region.front());
    }
    if (!bodies.empty())
      op.setAttr(kBodyIdsAttr, builder.getDenseI32ArrayAttr(bodies));
  }
}

void ProvenanceWriter::numberValues() {
  Block &block = func.getFunctionBody().front();
  number(block);
  for (BlockArgument arg : block.getArguments())
    func.setArgAttr(arg.getArgNumber(), kIdAttr,
                    builder.getI32IntegerAttr(ids.lookup(arg)));
}

/// Adds the sources of a loop's or branch's result: the initial value, and the
/// values that its bodies yield.
void ProvenanceWriter::addFlowSources(Operation *op, unsigned index,
                                      llvm::SetVector<Value> &sources) {
  if (isa<stablehlo::WhileOp>(op) && index < op->getNumOperands())
    sources.insert(op->getOperand(index));
  for (Region &region : getScaledBodies(op)) {
    if (!region.hasOneBlock() || !region.front().mightHaveTerminator())
      continue;
    Operation *terminator = region.front().getTerminator();
    // The condition of a loop yields a predicate, not a carry.
    bool isCondition =
        isa<stablehlo::WhileOp>(op) && region.getRegionNumber() == 0;
    if (!isCondition && index < terminator->getNumOperands())
      sources.insert(terminator->getOperand(index));
  }
}

llvm::SetVector<Value> ProvenanceWriter::getSources(Value value) {
  llvm::SetVector<Value> sources;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    Operation *parent = arg.getOwner()->getParentOp();
    if (isa<sdy::ManualComputationOp>(parent)) {
      sources.insert(parent->getOperand(arg.getArgNumber()));
      return sources;
    }
    if (parent != func) {
      addFlowSources(parent, arg.getArgNumber(), sources);
      return sources;
    }
    // State without a declared scale takes the scale of the values written into
    // it.
    OpOperand *next = getNextValue(func, arg.getArgNumber());
    auto declared =
        func.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(), kScaleAttr);
    bool isWritten = !declared || declared.getInt() == kZeroScale;
    if (analysis)
      isWritten = analysis->takesScaleOfUpdates(arg);
    if (next && isWritten)
      sources.insert(next->get());
    return sources;
  }
  Operation *op = value.getDefiningOp();
  if (!getScaledBodies(op).empty()) {
    addFlowSources(op, cast<OpResult>(value).getResultNumber(), sources);
    return sources;
  }
  auto rule = dyn_cast<ScaleRuleInterface>(op);
  if (!rule || !analysis) {
    for (Value operand : op->getOperands())
      sources.insert(operand);
    return sources;
  }
  // Record the values that the rule looks up.
  auto record = [&](Value asked) -> const ScaleFacts & {
    if (asked.getDefiningOp() != op)
      sources.insert(asked);
    return analysis->lookup(asked);
  };
  SmallVector<ScaleFacts> results(op->getNumResults());
  rule.inferFacts(FactsQuery{op, record}, results);
  return sources;
}

void ProvenanceWriter::setFacts(Value value, NamedAttrList &entry) {
  bool isFloat = isFloatTensor(value.getType());
  if (!analysis) {
    Operation *op = value.getDefiningOp();
    auto arg = dyn_cast<BlockArgument>(value);
    auto get = [&](StringRef name) -> Attribute {
      if (op)
        return op->getAttr(name);
      if (arg.getOwner()->getParentOp() == func)
        return func.getArgAttr(arg.getArgNumber(), name);
      return {};
    };
    if (Attribute rule = get(kRuleAttr))
      entry.set("rule", rule);
    if (auto scale = dyn_cast_or_null<IntegerAttr>(get(kScaleAttr));
        scale && isFloat)
      entry.set("scale", builder.getI64IntegerAttr(scale.getInt()));
    return;
  }
  const ScaleFacts &facts = analysis->lookup(value);
  entry.set("rule", builder.getStringAttr(facts.rule));
  // A value that the analysis did not reach has no facts.
  if (!isFloat || facts.rule.empty())
    return;
  // Rank-0 values have no scale.
  bool carries = cast<ShapedType>(value.getType()).getRank() > 0;
  entry.set("scale",
            builder.getI64IntegerAttr(carries ? facts.scaleExponent() : 0));
  entry.set("mean", builder.getF64FloatAttr(facts.mean + 0.0));
  entry.set("rms", builder.getF64FloatAttr(facts.rms));
  entry.set("bound", builder.getF64FloatAttr(facts.bound));
}

void ProvenanceWriter::describe(Value value) {
  NamedAttrList entry;
  Operation *op = value.getDefiningOp();
  bool isInBody = value.getParentBlock()->getParentOp() != func;
  StringRef argument = isInBody ? "body_argument" : "argument";
  entry.set("op", builder.getStringAttr(op ? op->getName().stripDialect()
                                           : argument));
  if (PhaseAttr phase = op ? getPhaseAttr(op) : PhaseAttr())
    entry.set("phase", builder.getStringAttr(stringifyPhase(phase.getValue())));
  entry.set("loc", LocationAttr(value.getLoc()));
  entry.set("type", TypeAttr::get(value.getType()));
  if (isInBody)
    entry.set("body", builder.getUnitAttr());
  setFacts(value, entry);
  SmallVector<int32_t> from;
  for (Value source : getSources(value))
    if (auto it = ids.find(lookThrough(source, Move::Cast)); it != ids.end())
      from.push_back(it->second);
  entry.set("from", builder.getDenseI32ArrayAttr(from));
  table.push_back(entry.getDictionary(builder.getContext()));
}

void ProvenanceWriter::run() {
  Operation *module = func->getParentOp();
  if (auto old = module->getAttrOfType<ArrayAttr>(kProvenanceAttr))
    table.append(old.begin(), old.end());
  numberValues();
  // `describe` appends to the table, so numbers start at its old size.
  for (Value value : values)
    describe(value);
  module->setAttr(kProvenanceAttr, builder.getArrayAttr(table));
}

void scalify::annotateProvenance(FunctionOpInterface func,
                                 const ScaleAnalysis *analysis) {
  if (func.isExternal() || !func.getFunctionBody().hasOneBlock())
    return;
  ProvenanceWriter(func, analysis).run();
}

std::vector<ProvenanceEntry> scalify::readProvenance(Operation *module) {
  std::vector<ProvenanceEntry> entries;
  auto table = module->getAttrOfType<ArrayAttr>(kProvenanceAttr);
  if (!table)
    return entries;
  for (auto attrs : table.getAsRange<DictionaryAttr>()) {
    auto text = [&](StringRef name) {
      auto attr = attrs.getAs<StringAttr>(name);
      return attr ? attr.str() : std::string();
    };
    auto number = [&](StringRef name) -> std::optional<double> {
      if (auto attr = attrs.getAs<FloatAttr>(name))
        return attr.getValueAsDouble();
      return std::nullopt;
    };
    ProvenanceEntry entry(attrs.getAs<LocationAttr>("loc"),
                          attrs.getAs<TypeAttr>("type").getValue());
    entry.op = text("op");
    entry.phase = text("phase");
    entry.rule = text("rule");
    if (auto scale = attrs.getAs<IntegerAttr>("scale"))
      entry.scale = scale.getInt();
    entry.mean = number("mean");
    entry.rms = number("rms");
    entry.bound = number("bound");
    ArrayRef<int32_t> from = attrs.getAs<DenseI32ArrayAttr>("from");
    entry.from.assign(from.begin(), from.end());
    entry.isInBody = attrs.contains("body");
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// True if the carry or the result was added for a run-time scale.
static bool isAdded(Operation *op, unsigned index) {
  auto scales = op->getAttrOfType<DenseI64ArrayAttr>(kCarryScalesAttr);
  return scales && index >= static_cast<unsigned>(scales.size());
}

std::optional<int32_t> scalify::getProvenanceId(Value value) {
  if (Operation *op = value.getDefiningOp()) {
    auto id = op->getAttrOfType<IntegerAttr>(kIdAttr);
    unsigned index = cast<OpResult>(value).getResultNumber();
    if (!id || isAdded(op, index))
      return std::nullopt;
    return id.getInt() + index;
  }
  auto arg = cast<BlockArgument>(value);
  Operation *parent = arg.getOwner()->getParentOp();
  if (auto func = dyn_cast<FunctionOpInterface>(parent)) {
    auto id = func.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(), kIdAttr);
    if (!id)
      return std::nullopt;
    return id.getInt();
  }
  auto bodies = parent->getAttrOfType<DenseI32ArrayAttr>(kBodyIdsAttr);
  unsigned region = arg.getParentRegion()->getRegionNumber();
  if (!bodies || region >= bodies.size() || isAdded(parent, arg.getArgNumber()))
    return std::nullopt;
  return bodies[region] + arg.getArgNumber();
}

void scalify::eraseProvenance(Operation *module) {
  module->walk([](Operation *op) {
    op->removeDiscardableAttr(kIdAttr);
    op->removeDiscardableAttr(kBodyIdsAttr);
    op->removeDiscardableAttr(kProvenanceAttr);
    if (auto func = dyn_cast<FunctionOpInterface>(op))
      for (unsigned i = 0; i < func.getNumArguments(); ++i)
        func.removeArgAttr(i, kIdAttr);
  });
}
