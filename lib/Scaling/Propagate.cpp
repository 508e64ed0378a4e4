//===- Propagate.cpp - Give every floating-point tensor a scale -----------===//
//
// One forward walk with a map from values to (data, scale). Facts come first,
// from ScaleAnalysis; they fix the scale of every result, a power of two. The
// family of an op then says how it computes on data, and a rescale brings the
// result to its scale. Bodies of loops and branches are rewritten in the same
// walk: a carry is data of one scale, and values from outside are read as the
// data they are. A walk and not a dialect conversion: the order of the
// block is all the driver needs, and a step of 80 layers stays fast.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Passes.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Scaling/Provenance.h"
#include "scalify/Scaling/ScaleAnalysis.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

#include "llvm/ADT/SetVector.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_PROPAGATESCALES
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {

/// Data and its scale; a null scale marks a constant that adopts any.
struct ScaledValue {
  Value data;
  Value scale;
};

class Propagator {
public:
  Propagator(func::FuncOp func, const ScaleAnalysis &analysis)
      : analysis(analysis), scales(func.getBody().front()),
        builder(func.getContext()) {}

  void run(func::FuncOp func);

private:
  void rewrite(Operation &op);
  void rewriteTrue(Operation &op);
  void rewritePass(Operation &op);
  void rewritePassEach(Operation &op);
  void rewriteAlign(Operation &op);
  void rewriteReduce(Operation &op);
  int64_t getNarrowGrowth(Operation &op, Value from);
  void rewriteAt(Operation &op, Value scale);
  void rewriteProduct(Operation &op, bool quotient);
  void rewriteControlFlow(Operation &op);
  ArrayAttr describeGrowing(Operation &op);
  void rewriteManual(Operation &op);
  void rewriteRegion(Region &from, Region &to, ArrayRef<int64_t> argExponents,
                     ArrayRef<int64_t> resultExponents);

  /// The operand as data of scale `to`; itself if it adopts any scale or is
  /// not floating point.
  Value dataAt(Value original, Value to, Location loc);
  Value target(Value original) {
    return scales.powerOfTwo(analysis.lookup(original).scaleExponent());
  }
  /// log2 of the scale of data that crosses the border of a region. What fits
  /// any scale crosses as it is.
  int64_t getBorderExponent(Value original);
  /// Records the results of `op`, which `clone` computes as data of scale
  /// `from`, and brings them to their own scale.
  void setResults(Operation &op, Operation *clone, Value from);
  void setResult(Location loc, Value old, Value result, Value from);
  void annotate(Operation *clone, Operation &op);
  ScaledValue lookup(Value original);

  const ScaleAnalysis &analysis;
  ScaleArithmetic scales;
  OpBuilder builder;
  DenseMap<Value, ScaledValue> values;
};

} // namespace

/// Rank-0 statistics stay f32 and true: learning rate, clip factor, loss. So
/// do types that `scalify.rescale` does not take: a program's own FP8 data.
static bool carriesScale(Value value) {
  return isScalableTensor(value.getType()) &&
         cast<ShapedType>(value.getType()).getRank() > 0;
}

ScaledValue Propagator::lookup(Value original) {
  auto it = values.find(original);
  return it == values.end() ? ScaledValue{original, scales.one()} : it->second;
}

Value Propagator::dataAt(Value original, Value to, Location loc) {
  ScaledValue value = lookup(original);
  if (!value.scale || !isFloatTensor(original.getType()))
    return value.data;
  return scales.rescale(builder, loc, value.data, value.scale, to);
}

void Propagator::annotate(Operation *clone, Operation &op) {
  if (op.getNumResults() == 0 || !isFloatTensor(op.getResult(0).getType()))
    return;
  const ScaleFacts &facts = analysis.lookup(op.getResult(0));
  int64_t exponent = carriesScale(op.getResult(0)) ? facts.scaleExponent() : 0;
  clone->setAttr(kScaleAttr, builder.getI32IntegerAttr(exponent));
  clone->setAttr(kRuleAttr, builder.getStringAttr(facts.rule));
  if (facts.anyScale)
    clone->setAttr(kAnyScaleAttr, builder.getUnitAttr());
}

void Propagator::setResult(Location loc, Value old, Value result, Value from) {
  if (!isFloatTensor(old.getType()) || analysis.lookup(old).anyScale) {
    values[old] = {result, {}};
  } else if (!carriesScale(old)) {
    values[old] = {scales.rescale(builder, loc, result, from, scales.one()),
                   scales.one()};
  } else {
    Value to = target(old);
    values[old] = {scales.rescale(builder, loc, result, from, to), to};
  }
}

void Propagator::setResults(Operation &op, Operation *clone, Value from) {
  annotate(clone, op);
  for (auto [old, result] : llvm::zip(op.getResults(), clone->getResults()))
    setResult(op.getLoc(), old, result, from);
}

/// Values from outside that the op's regions read; constants, as a rule.
static llvm::SetVector<Value> getCaptures(Operation &op) {
  llvm::SetVector<Value> captures;
  getUsedValuesDefinedAbove(op.getRegions(), captures);
  return captures;
}

void Propagator::rewriteTrue(Operation &op) {
  IRMapping mapping;
  for (Value captured : getCaptures(op))
    mapping.map(captured, dataAt(captured, scales.one(), op.getLoc()));
  for (Value operand : op.getOperands())
    mapping.map(operand, dataAt(operand, scales.one(), op.getLoc()));
  setResults(op, builder.clone(op, mapping), scales.one());
}

void Propagator::rewritePass(Operation &op) {
  Value scale = lookup(op.getOperand(0)).scale;
  if (!scale || !isFloatTensor(op.getOperand(0).getType()))
    scale = scales.one();
  IRMapping mapping;
  for (Value operand : op.getOperands())
    mapping.map(operand, dataAt(operand, scale, op.getLoc()));
  setResults(op, builder.clone(op, mapping), scale);
}

/// Results and operands of one number are one value that the op reorders.
void Propagator::rewritePassEach(Operation &op) {
  IRMapping mapping;
  for (Value operand : op.getOperands())
    mapping.map(operand, lookup(operand).data);
  Operation *clone = builder.clone(op, mapping);
  annotate(clone, op);
  for (auto [i, old] : llvm::enumerate(op.getResults())) {
    Value scale;
    if (i < op.getNumOperands())
      scale = lookup(op.getOperand(i)).scale;
    setResult(op.getLoc(), old, clone->getResult(i),
              scale ? scale : scales.one());
  }
}

/// Rewrites `op` on operands of one scale.
void Propagator::rewriteAt(Operation &op, Value scale) {
  IRMapping mapping;
  for (Value operand : op.getOperands())
    mapping.map(operand, dataAt(operand, scale, op.getLoc()));
  setResults(op, builder.clone(op, mapping), scale);
}

void Propagator::rewriteAlign(Operation &op) {
  Value result = op.getResult(0);
  rewriteAt(op, carriesScale(result) ? target(result) : scales.one());
}

/// By how many binades the result of `op` on data of scale `from` outgrows its
/// own scale, where that could overflow: F16 ends at 2^16, so a long sum there
/// has its factor folded into the operands.
int64_t Propagator::getNarrowGrowth(Operation &op, Value from) {
  Value result = op.getResult(0);
  std::optional<float> scale = getConstantScale(from);
  if (!carriesScale(result) || !scale ||
      !cast<ShapedType>(result.getType()).getElementType().isF16() ||
      analysis.lookup(result).anyScale)
    return 0;
  int64_t exponent = std::ilogb(*scale);
  return std::max<int64_t>(0,
                           analysis.lookup(result).scaleExponent() - exponent);
}

void Propagator::rewriteReduce(Operation &op) {
  // What a select_and_scatter scatters is its second operand.
  bool isScatter = isa<stablehlo::SelectAndScatterOp>(op);
  Value scale = lookup(op.getOperand(isScatter ? 1 : 0)).scale;
  scale = scale ? scale : scales.one();
  if (getNarrowGrowth(op, scale) > 0)
    scale = target(op.getResult(0));
  rewriteAt(op, scale);
}

void Propagator::rewriteProduct(Operation &op, bool quotient) {
  ScaledValue a = lookup(op.getOperand(0)), b = lookup(op.getOperand(1));
  Value left = a.scale ? a.scale : scales.one();
  Value right = b.scale ? b.scale : scales.one();
  auto combine = [&] {
    return quotient ? scales.quotient(builder, op.getLoc(), left, right)
                    : scales.product(builder, op.getLoc(), left, right);
  };
  Value scale = combine();
  int64_t growth = isa<stablehlo::MulOp, stablehlo::DivOp>(op)
                       ? 0
                       : getNarrowGrowth(op, scale);
  if (growth > 0 && a.scale && b.scale) {
    left = scales.product(builder, op.getLoc(), left,
                          scales.powerOfTwo(growth / 2));
    right = scales.product(builder, op.getLoc(), right,
                           scales.powerOfTwo(growth - growth / 2));
    scale = combine();
  } else {
    growth = 0;
  }
  IRMapping mapping;
  mapping.map(op.getOperand(0), dataAt(op.getOperand(0), left, op.getLoc()));
  mapping.map(op.getOperand(1), dataAt(op.getOperand(1), right, op.getLoc()));
  for (Value operand : op.getOperands().drop_front(2))
    mapping.map(operand, dataAt(operand, scales.one(), op.getLoc()));
  Operation *clone = builder.clone(op, mapping);
  if (growth > 0)
    clone->setAttr(kOperandGrowthAttr, builder.getDenseI64ArrayAttr(
                                           {growth / 2, growth - growth / 2}));
  setResults(op, clone, scale);
}

int64_t Propagator::getBorderExponent(Value original) {
  return carriesScale(original) && !analysis.lookup(original).anyScale
             ? analysis.lookup(original).scaleExponent()
             : 0;
}

/// Rewrites the ops of `from` into a new block in `to`. Its arguments are data
/// of the given scales, true values without any, and what it returns is data of
/// the given scales too.
void Propagator::rewriteRegion(Region &from, Region &to,
                               ArrayRef<int64_t> argExponents,
                               ArrayRef<int64_t> resultExponents) {
  OpBuilder::InsertionGuard guard(builder);
  Block &source = from.front();
  SmallVector<Location> locs;
  for (BlockArgument arg : source.getArguments())
    locs.push_back(arg.getLoc());
  Block *block = builder.createBlock(&to, {}, source.getArgumentTypes(), locs);
  for (auto [i, arg] : llvm::enumerate(source.getArguments())) {
    Value data = block->getArgument(i);
    if (argExponents.empty())
      setResult(arg.getLoc(), arg, data, scales.one());
    else
      values[arg] = {data, isFloatTensor(arg.getType())
                               ? scales.powerOfTwo(argExponents[i])
                               : Value()};
  }
  for (Operation &op : source.without_terminator())
    rewrite(op);
  Operation *terminator = source.getTerminator();
  // One operand may leave by several results, at another scale each.
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(terminator->getOperands()))
    operands.push_back(dataAt(operand, scales.powerOfTwo(resultExponents[i]),
                              terminator->getLoc()));
  IRMapping none;
  builder.clone(*terminator, none)->setOperands(operands);
}

/// The carries of a loop whose scales the step computes; null if there is none.
ArrayAttr Propagator::describeGrowing(Operation &op) {
  SmallVector<Attribute> carries;
  for (const GrowingCarry &entry : analysis.getGrowingCarries()) {
    if (entry.op != &op)
      continue;
    NamedAttrList attrs;
    attrs.set("carry", builder.getI64IntegerAttr(entry.index));
    attrs.set("rule",
              builder.getStringAttr(analysis.lookup(entry.getValue()).rule));
    attrs.set("start", builder.getF64FloatAttr(entry.start));
    if (entry.growth)
      attrs.set("growth", builder.getF64FloatAttr(*entry.growth));
    carries.push_back(attrs.getDictionary(builder.getContext()));
  }
  return carries.empty() ? ArrayAttr() : builder.getArrayAttr(carries);
}

void Propagator::rewriteControlFlow(Operation &op) {
  auto loop = dyn_cast<stablehlo::WhileOp>(op);
  SmallVector<int64_t> exponents;
  for (Value result : op.getResults())
    exponents.push_back(getBorderExponent(
        loop ? loop.getBody().getArgument(exponents.size()) : result));
  OperationState state(op.getLoc(), op.getName());
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    Value to = scales.powerOfTwo(loop ? exponents[i] : 0);
    state.operands.push_back(dataAt(operand, to, op.getLoc()));
  }
  state.addTypes(op.getResultTypes());
  state.addAttributes(op.getAttrs());
  state.addAttribute(kCarryScalesAttr, builder.getDenseI64ArrayAttr(exponents));
  if (ArrayAttr growing = describeGrowing(op))
    state.addAttribute(kGrowingCarriesAttr, growing);
  for (unsigned i = 0; i < op.getNumRegions(); ++i)
    state.addRegion();
  Operation *clone = builder.create(state);
  for (auto [from, to] : llvm::zip(op.getRegions(), clone->getRegions())) {
    bool isCondition = loop && &from == &loop.getCond();
    rewriteRegion(from, to, exponents,
                  isCondition ? ArrayRef<int64_t>{0} : exponents);
  }
  for (auto [i, old] : llvm::enumerate(op.getResults())) {
    Value from = scales.powerOfTwo(exponents[i]);
    Value to = scales.powerOfTwo(getBorderExponent(old));
    Value data = clone->getResult(i);
    values[old] = {data, {}};
    if (isFloatTensor(old.getType()))
      values[old] = {scales.rescale(builder, op.getLoc(), data, from, to), to};
  }
}

/// What devices exchange with the rest is true; each side rescales its own.
void Propagator::rewriteManual(Operation &op) {
  SmallVector<Value> operands;
  for (Value operand : op.getOperands())
    operands.push_back(dataAt(operand, scales.one(), op.getLoc()));
  IRMapping none;
  Operation *clone = builder.cloneWithoutRegions(op, none);
  clone->setOperands(operands);
  SmallVector<int64_t> trueResults(op.getNumResults());
  rewriteRegion(op.getRegion(0), clone->getRegion(0), {}, trueResults);
  for (auto [old, result] : llvm::zip(op.getResults(), clone->getResults()))
    setResult(op.getLoc(), old, result, scales.one());
}

void Propagator::rewrite(Operation &op) {
  if (isa<sdy::ManualComputationOp>(op))
    return rewriteManual(op);
  if (stablehlo::isControlFlow(&op))
    return rewriteControlFlow(op);
  auto rule = dyn_cast<ScaleRuleInterface>(op);
  bool isFloat = llvm::any_of(op.getResultTypes(), isFloatTensor);
  // What a body reads from outside, it reads as true values.
  if (!rule || !isFloat || !getCaptures(op).empty())
    return rewriteTrue(op);
  switch (rule.getScaleFamily()) {
  case ScaleFamily::Untouched:
  case ScaleFamily::True:
  case ScaleFamily::Opaque:
    return rewriteTrue(op);
  case ScaleFamily::Pass:
    return rewritePass(op);
  case ScaleFamily::PassEach:
    return rewritePassEach(op);
  case ScaleFamily::Align:
    return rewriteAlign(op);
  case ScaleFamily::Reduce:
    return rewriteReduce(op);
  case ScaleFamily::Product:
    return rewriteProduct(op, /*quotient=*/false);
  case ScaleFamily::Quotient:
    return rewriteProduct(op, /*quotient=*/true);
  }
}

void Propagator::run(func::FuncOp func) {
  Block &block = func.getBody().front();
  builder.setInsertionPointToStart(&block);
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  if (!ops.empty())
    builder.setInsertionPoint(ops.front());
  for (BlockArgument arg : func.getArguments()) {
    if (!carriesScale(arg))
      continue;
    Value to = target(arg);
    values[arg] = {scales.rescale(builder, arg.getLoc(), arg, scales.one(), to),
                   to};
  }
  for (Operation *op : ops) {
    builder.setInsertionPoint(op);
    rewrite(*op);
  }
  Operation *terminator = block.getTerminator();
  builder.setInsertionPoint(terminator);
  for (OpOperand &operand : terminator->getOpOperands())
    operand.set(dataAt(operand.get(), scales.one(), terminator->getLoc()));
  for (Operation *op : llvm::reverse(ops))
    op->erase();
}

namespace {
struct PropagateScalesPass
    : scalify::impl::PropagateScalesBase<PropagateScalesPass> {
  using PropagateScalesBase::PropagateScalesBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      if (!func.getBody().hasOneBlock()) {
        func.emitOpError("has more than one block: inline and structure it "
                         "with scalify-import first");
        return signalPassFailure();
      }
      ScaleAnalysis analysis(func, composites);
      if (failed(report(func, analysis)))
        return signalPassFailure();
      if (explain)
        annotateProvenance(func, &analysis);
      Propagator(func, analysis).run(func);
      func.walk([&](RescaleOp) { ++numRescales; });
    }
  }

  /// What no constant scale fits has one of run time.
  void reportGrowth(const ScaleAnalysis &analysis) {
    for (const GrowingCarry &entry : analysis.getGrowingCarries())
      entry.op->emitRemark(isa<stablehlo::WhileOp>(entry.op) ? "carry "
                                                             : "result ")
          << entry.index << " of '" << entry.op->getName() << "' ("
          << entry.getValue().getType()
          << ") has a scale of run time: " << entry.describe();
  }

  LogicalResult report(func::FuncOp func, const ScaleAnalysis &analysis) {
    numWithoutRule += analysis.getOpsWithoutRule().size();
    for (Operation *op : analysis.getOpsWithoutRule()) {
      if (strict)
        op->emitOpError("has no scale rule; its operands would be "
                        "materialised (drop strict, or add a rule in "
                        "lib/Scaling/Rules)");
      else if (remarks)
        op->emitRemark("'") << op->getName()
                            << "' has no scale rule: it computes on true "
                               "values and its result counts as 2^0";
    }
    bool needsScales = strict && declared;
    if (remarks || needsScales)
      for (BlockArgument arg : analysis.getUndeclaredArguments())
        (needsScales ? emitError(arg.getLoc()) : emitRemark(arg.getLoc()))
            << "argument " << arg.getArgNumber() << " of '" << func.getName()
            << "' has no declared scale: it counts as 2^0 (declare "
            << kScaleAttr << ", or measure the arguments)";
    if (remarks)
      reportGrowth(analysis);
    return failure((strict && !analysis.getOpsWithoutRule().empty()) ||
                   (needsScales && !analysis.getUndeclaredArguments().empty()));
  }
};
} // namespace
