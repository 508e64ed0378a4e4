//===- Propagate.cpp - Write scales where they are used -------------------===//
//
// Values stay true: only casts use scales. The facts of ScaleAnalysis give each
// value a power of two. It becomes an attribute of the op that defines the
// value, and an operand of the hint on each operand of a dot, where a narrow
// format may be used.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Passes.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Scaling/Priors.h"
#include "scalify/Scaling/Provenance.h"
#include "scalify/Scaling/ScaleAnalysis.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {
#define GEN_PASS_DEF_PROPAGATESCALES
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// True if a function has integer arguments and converts integers to floats.
static bool convertsIntegers(func::FuncOp func) {
  if (llvm::none_of(func.getArgumentTypes(), isIntegerTensor))
    return false;
  auto isConversion = [](stablehlo::ConvertOp op) {
    return isIntegerTensor(op.getOperand().getType()) &&
                   isFloatTensor(op.getType())
               ? WalkResult::interrupt()
               : WalkResult::advance();
  };
  return func.walk(isConversion).wasInterrupted();
}

namespace {
/// Integer arguments have no declared scale, and count as 2^0, as results of
/// ops without a rule do. A second analysis, in which they have this size,
/// tells which scales rest on that: those that differ. At 2^4 even a fourth
/// root differs by a binade.
constexpr double kProbedSize = 16;

/// Tells which scales depend on priors: those that differ between an analysis
/// with all priors and one without any, whichever are in use, or with integer
/// arguments and results of ops without a rule of another size. Only propagated
/// scales are those of casts.
class PriorScales {
public:
  PriorScales(func::FuncOp func, const ScaleAnalysis &analysis, bool composites)
      : analysis(analysis) {
    auto recipe = RecipeAttr::of(func->getParentOp());
    if (recipe.getScales() != ScaleSource::Propagated)
      return;
    const Priors &used = analysis.getPriors();
    if (!(used == Priors::all()))
      others.emplace_back(func, composites, Priors::all());
    if (used.mayMatter())
      others.emplace_back(func, composites, Priors::none());
    if (convertsIntegers(func) || !analysis.getOpsWithoutRule().empty())
      others.emplace_back(func, composites, used, /*trained=*/false,
                          kProbedSize);
  }

  bool affect(Value value) const {
    int64_t exponent = analysis.lookup(value).scaleExponent();
    return llvm::any_of(others, [&](const ScaleAnalysis &other) {
      return other.lookup(value).scaleExponent() != exponent;
    });
  }

private:
  const ScaleAnalysis &analysis;
  std::vector<ScaleAnalysis> others;
};

class ScaleWriter {
public:
  ScaleWriter(func::FuncOp func, const ScaleAnalysis &analysis,
              const PriorScales &priors)
      : analysis(analysis), priors(priors), scales(func.getBody().front()),
        builder(func.getContext()) {}

  void write(Block &block);

private:
  int64_t getExponent(Value value) const;
  void markByPrior(Operation *op, Value value);
  void annotate(Operation &op);
  void annotateControlFlow(Operation &op);
  ArrayAttr describeGrowing(Operation &op);
  void markOperands(Operation &dot);

  const ScaleAnalysis &analysis;
  const PriorScales &priors;
  ScaleArithmetic scales;
  OpBuilder builder;
};
} // namespace

/// Returns log2 of a value's scale; 0 for types without one.
int64_t ScaleWriter::getExponent(Value value) const {
  return hasScale(value.getType()) ? analysis.lookup(value).scaleExponent() : 0;
}

void ScaleWriter::markByPrior(Operation *op, Value value) {
  if (isScalableTensor(value.getType()) && priors.affect(value))
    op->setAttr(kByPriorAttr, builder.getUnitAttr());
}

void ScaleWriter::annotate(Operation &op) {
  if (op.getNumResults() == 0 || !isFloatTensor(op.getResult(0).getType()))
    return;
  Value result = op.getResult(0);
  op.setAttr(kScaleAttr, builder.getI32IntegerAttr(getExponent(result)));
  op.setAttr(kRuleAttr, builder.getStringAttr(analysis.lookup(result).rule));
  markByPrior(&op, result);
}

/// Returns the carries with a run-time scale, or null if there are none.
ArrayAttr ScaleWriter::describeGrowing(Operation &op) {
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

void ScaleWriter::annotateControlFlow(Operation &op) {
  auto loop = dyn_cast<stablehlo::WhileOp>(op);
  SmallVector<int64_t> exponents;
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    Value value = loop ? Value(loop.getBody().getArgument(i)) : result;
    exponents.push_back(analysis.lookup(value).anyScale ? 0
                                                        : getExponent(value));
  }
  op.setAttr(kCarryScalesAttr, builder.getDenseI64ArrayAttr(exponents));
  if (ArrayAttr growing = describeGrowing(op))
    op.setAttr(kGrowingCarriesAttr, growing);
}

/// Dots on the program's own FP8 data stay as written.
void ScaleWriter::markOperands(Operation &dot) {
  auto operands = dot.getOpOperands().take_front(2);
  if (!llvm::all_of(ValueRange(dot.getOperands().take_front(2)).getTypes(),
                    isScalableTensor))
    return;
  builder.setInsertionPoint(&dot);
  for (OpOperand &operand : operands) {
    Value value = operand.get();
    // A value that fits any scale gets a scale of one.
    int64_t exponent = analysis.lookup(value).anyScale ? 0 : getExponent(value);
    StringAttr rule;
    if (Operation *def = value.getDefiningOp())
      rule = def->getAttrOfType<StringAttr>(kRuleAttr);
    auto hint = ScaleHintOp::create(builder, dot.getLoc(), value,
                                    scales.powerOfTwo(exponent), rule);
    markByPrior(hint, value);
    operand.set(hint);
  }
}

void ScaleWriter::write(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    bool isRegion =
        stablehlo::isControlFlow(&op) || isa<sdy::ManualComputationOp>(op);
    if (!isRegion)
      annotate(op);
    else if (!isa<sdy::ManualComputationOp>(op))
      annotateControlFlow(op);
    if (isRegion)
      for (Region &region : op.getRegions())
        write(region.front());
    else if (stablehlo::isContraction(&op))
      markOperands(op);
  }
}

/// Sorts the users of each value as a parser leaves them, last user first,
/// whatever earlier passes have done. Casts, and with them the rows of carried
/// scales, are created in that order, so that they are the same for any mesh.
static void orderUsers(func::FuncOp func) {
  DenseMap<Operation *, unsigned> places;
  func.walk<WalkOrder::PreOrder>(
      [&](Operation *op) { places.try_emplace(op, places.size()); });
  auto order = [&](Value value) {
    SmallVector<std::pair<unsigned, unsigned>> uses;
    for (OpOperand &use : value.getUses())
      uses.emplace_back(places[use.getOwner()], use.getOperandNumber());
    auto sorted = uses;
    llvm::sort(sorted, std::greater<>());
    if (sorted == uses)
      return;
    value.shuffleUseList(llvm::map_to_vector(uses, [&](const auto &use) {
      return static_cast<unsigned>(llvm::find(sorted, use) - sorted.begin());
    }));
  };
  func.walk([&](Operation *op) {
    for (Value result : op->getResults())
      order(result);
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        order(argument);
  });
}

namespace {
struct PropagateScalesPass
    : scalify::impl::PropagateScalesBase<PropagateScalesPass> {
  using PropagateScalesBase::PropagateScalesBase;

  void runOnOperation() override {
    if (failed(verifyPriors(getOperation())))
      return signalPassFailure();
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      if (!func.getBody().hasOneBlock()) {
        func.emitOpError("has more than one block: inline and structure it "
                         "with scalify-import first");
        return signalPassFailure();
      }
      orderUsers(func);
      ScaleAnalysis analysis(func, composites);
      if (failed(report(func, analysis)))
        return signalPassFailure();
      if (explain)
        annotateProvenance(func, &analysis);
      PriorScales priors(func, analysis, composites);
      ScaleWriter(func, analysis, priors).write(func.getBody().front());
      func.walk([&](ScaleHintOp) { ++numHints; });
    }
  }

  /// Reports the carries and branch results with run-time scales.
  void reportGrowth(const ScaleAnalysis &analysis) {
    for (const GrowingCarry &entry : analysis.getGrowingCarries())
      entry.op->emitRemark(isa<stablehlo::WhileOp>(entry.op) ? "carry "
                                                             : "result ")
          << entry.index << " of '" << entry.op->getName() << "' ("
          << entry.getValue().getType()
          << ") has a run-time scale: " << entry.describe();
  }

  LogicalResult report(func::FuncOp func, const ScaleAnalysis &analysis) {
    numWithoutRule += analysis.getOpsWithoutRule().size();
    for (Operation *op : analysis.getOpsWithoutRule()) {
      if (strict)
        op->emitOpError("has no scale rule; its result would count as 2^0 "
                        "(drop strict, or add a rule in lib/Scaling/Rules)");
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
