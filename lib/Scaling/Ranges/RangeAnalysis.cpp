//===- RangeAnalysis.cpp - Bounds of every value of a module --------------===//
//
// Ties the transfer functions to MLIR's dataflow framework. The loops and
// branches of the input dialect have regions without control flow interfaces:
// their arguments and results are joined here from what is known to flow into
// them, and a body's argument that keeps growing is widened to what it cannot
// leave.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/RangeAnalysis.h"

#include "Transfer.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Analysis/DataFlow/ConstantPropagationAnalysis.h"
#include "mlir/Analysis/DataFlow/DeadCodeAnalysis.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

//===----------------------------------------------------------------------===//
// The lattice
//===----------------------------------------------------------------------===//

// A value outside of loops changes once or twice. Two rounds of a loop show
// what grows in it.
static constexpr unsigned kMaxChanges = 4;

ChangeResult RangeLattice::join(const RangeState &other) {
  if (!other.initialized)
    return ChangeResult::NoChange;
  Type type = getAnchor().getType();
  RangeState next = numChanges < kMaxChanges ? RangeState::join(value, other)
                                             : RangeState::widen(value, other);
  // Widened integers stay of their type.
  auto shaped = dyn_cast<ShapedType>(type);
  if (shaped && shaped.getElementType().isIntOrIndex()) {
    RangeState bounds = RangeState::unknown(type);
    next.lo = std::max(next.lo, bounds.lo);
    next.hi = std::min(next.hi, bounds.hi);
  }
  // A chain of improvements by rounding must end as well.
  if (numChanges > 4 * kMaxChanges)
    next = RangeState::unknown(type);
  if (next == value)
    return ChangeResult::NoChange;
  ++numChanges;
  value = next;
  return ChangeResult::Change;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

DictionaryAttr scalify::getRangeAttr(BlockArgument argument) {
  auto func =
      dyn_cast_or_null<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!func || &func.getFunctionBody().front() != argument.getOwner())
    return {};
  return func.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(),
                                               kRangeAttr);
}

static std::optional<double> getNumber(DictionaryAttr range, StringRef key) {
  Attribute attr = range.get(key);
  if (auto value = dyn_cast_or_null<FloatAttr>(attr))
    return value.getValueAsDouble();
  if (auto value = dyn_cast_or_null<IntegerAttr>(attr))
    return value.getValue().roundToDouble(/*isSigned=*/true);
  return std::nullopt;
}

RangeState scalify::getDeclaredRange(BlockArgument argument) {
  RangeState state = RangeState::unknown(argument.getType());
  DictionaryAttr range = getRangeAttr(argument);
  if (!range)
    return state;
  std::optional<double> min = getNumber(range, "min");
  std::optional<double> max = getNumber(range, "max");
  if (max) {
    state.lo = std::max(state.lo, min ? *min : -*max);
    state.hi = std::min(state.hi, *max);
    state.nan = false;
  } else if (min) {
    state.lo = std::max(state.lo, *min);
  }
  if (auto norms = range.getAs<DenseF64ArrayAttr>("norms"))
    for (auto [axis, bound] : llvm::enumerate(norms.asArrayRef()))
      if (axis < static_cast<size_t>(state.getRank()))
        state.addL2(AxisSet(1) << axis, bound);
  if (std::optional<double> frobenius = getNumber(range, "frobenius"))
    state.addL2(state.allAxes(), *frobenius);
  state.allowFlush(getElementTypeOrSelf(argument.getType()));
  return state;
}

void RangeAnalysis::setToEntryState(RangeLattice *lattice) {
  Value value = lattice->getAnchor();
  auto argument = dyn_cast<BlockArgument>(value);
  propagateIfChanged(
      lattice, lattice->join(argument ? getDeclaredRange(argument)
                                      : RangeState::unknown(value.getType())));
}

//===----------------------------------------------------------------------===//
// Loops and branches
//===----------------------------------------------------------------------===//

/// Arguments of a loop's regions hold its operands first and what its body
/// returns after. Those of other regions (reductions, sorts) are elements of
/// anything.
void RangeAnalysis::visitNonControlFlowArguments(
    Operation *op, const RegionSuccessor &successor,
    ArrayRef<RangeLattice *> arguments, unsigned firstIndex) {
  auto loop = dyn_cast<hlo::WhileOp>(op);
  if (!loop)
    return setAllToEntryStates(arguments);
  ProgramPoint *point =
      getProgramPointBefore(&successor.getSuccessor()->front());
  Operation *yield = loop.getBody().front().getTerminator();
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    join(argument, *getLatticeElementFor(point, op->getOperand(i)));
    join(argument, *getLatticeElementFor(point, yield->getOperand(i)));
  }
}

/// A loop that runs no round gives its operands.
void RangeAnalysis::visitWhile(Operation *op,
                               ArrayRef<const RangeLattice *> operands,
                               ArrayRef<RangeLattice *> results) {
  ProgramPoint *point = getProgramPointAfter(op);
  Operation *yield = cast<hlo::WhileOp>(op).getBody().front().getTerminator();
  for (auto [i, result] : llvm::enumerate(results)) {
    join(result, *operands[i]);
    join(result, *getLatticeElementFor(point, yield->getOperand(i)));
  }
}

void RangeAnalysis::visitBranches(Operation *op,
                                  ArrayRef<RangeLattice *> results) {
  ProgramPoint *point = getProgramPointAfter(op);
  for (Region &branch : op->getRegions())
    for (auto [result, value] :
         llvm::zip(results, branch.front().getTerminator()->getOperands()))
      join(result, *getLatticeElementFor(point, value));
}

LogicalResult
RangeAnalysis::visitOperation(Operation *op,
                              ArrayRef<const RangeLattice *> operands,
                              ArrayRef<RangeLattice *> results) {
  if (isa<hlo::WhileOp>(op)) {
    visitWhile(op, operands, results);
    return success();
  }
  if (isa<hlo::CaseOp, hlo::IfOp>(op)) {
    visitBranches(op, results);
    return success();
  }
  SmallVector<const RangeState *> states;
  for (const RangeLattice *operand : operands) {
    // Bottom: what makes the operand has not been visited yet.
    if (!operand->getValue().initialized)
      return success();
    states.push_back(&operand->getValue());
  }
  ProgramPoint *point = getProgramPointAfter(op);
  auto lookup = [&](Value value) -> const RangeState & {
    return getLatticeElementFor(point, value)->getValue();
  };
  RangeQuery query{op, states, lookup};
  for (auto [i, result] : llvm::enumerate(results))
    propagateIfChanged(result, result->join(inferRange(query, i)));
  return success();
}

//===----------------------------------------------------------------------===//
// Transfer
//===----------------------------------------------------------------------===//

/// The formats that the recipe gives operands of dots, gradients or not.
static SmallVector<FloatType> getFormats(RecipeAttr recipe, bool isGradient) {
  SmallVector<DotFormats> parts(recipe.getRoles());
  for (const FormatOverride &entry : recipe.getOverrides())
    parts.push_back(entry.formats);
  parts.push_back({});
  return llvm::map_to_vector(parts, [&](DotFormats part) {
    DotFormats formats = recipe.resolve(part);
    return cast<FloatType>(isGradient ? formats.gradient : formats.forward);
  });
}

namespace {
/// The coarsest of some formats.
struct CastRounding {
  explicit CastRounding(ArrayRef<FloatType> formats) {
    for (FloatType format : formats) {
      int digits = static_cast<int>(format.getFPMantissaWidth());
      unit = std::max(unit, std::ldexp(1.0, -digits));
      half = std::max(half, Rounding::of(format).absolute / 2);
      largest = std::min(largest, getLargestFinite(format));
    }
  }
  /// To nearest, relative.
  double unit = 0;
  /// Half of the least magnitude, up to which values round up.
  double half = 0;
  double largest = RangeState::infinity();
};
} // namespace

/// Rounding in the formats that Precision may cast the operand of `op` to.
static CastRounding getCastRounding(Operation *op, double data) {
  RecipeAttr recipe = RecipeAttr::of(op->getParentOfType<ModuleOp>());
  Operation *def = op->getOperand(0).getDefiningOp();
  auto phase = def ? def->getAttrOfType<StringAttr>(kPhaseAttr) : StringAttr();
  SmallVector<FloatType> formats = getFormats(recipe, /*isGradient=*/false);
  CastRounding forward(formats);
  if (phase && phase.getValue() == "forward" && data <= forward.largest)
    return forward;
  // What is not surely of the forward, or does not fit its format, may get
  // any; so may what the ranges choose E5M2 for.
  llvm::append_range(formats, getFormats(recipe, /*isGradient=*/true));
  formats.push_back(Float8E5M2Type::get(op->getContext()));
  return CastRounding(formats);
}

/// The largest scale that Precision may cast a value of magnitude `most` by
/// whose hint is `scale`.
static double getCastScale(RecipeAttr recipe, double scale, double most,
                           double largest) {
  auto shift = std::max<int>(0, recipe.getGradientExponent());
  switch (recipe.getScales()) {
  case ScaleSource::Current:
    return 2 * most / largest;
  case ScaleSource::Unit:
    return std::ldexp(1.0, shift);
  case ScaleSource::Propagated:
  case ScaleSource::None:
    break;
  }
  return std::ldexp(scale, shift);
}

/// A value that Precision may cast: the program then computes with the rounded
/// one. Saturation only makes it smaller.
static RangeState mayCast(const RangeQuery &query) {
  const RangeState &scale = query[1];
  if (scale.lo != scale.hi || !scale.isFinite() || !query.isFloat())
    return RangeState::unknown(query.getType());
  RangeState state = query[0];
  state.sources = 1;
  state.peak.reset();
  double most = state.maxAbs();
  CastRounding rounding = getCastRounding(query.op, most / scale.lo);
  double grow = 1 + rounding.unit, shrink = 1 - rounding.unit;
  double added =
      rounding.half *
      getCastScale(RecipeAttr::of(query.op->getParentOfType<ModuleOp>()),
                   scale.lo, most, rounding.largest);
  state.hi = state.hi > 0 ? state.hi * grow + added
                          : std::min(0.0, state.hi * shrink + added);
  state.lo = state.lo < 0 ? state.lo * grow - added
                          : std::max(0.0, state.lo * shrink - added);
  for (NormBound &norm : state.l2)
    norm.bound = norm.bound * grow + added * std::sqrt(state.count(norm.axes));
  for (NormBound &norm : state.l1)
    norm.bound = norm.bound * grow + added * state.count(norm.axes);
  return state;
}

/// data * (from / to), exact but for overflow.
static RangeState rescale(const RangeQuery &query) {
  const RangeState &x = query[0], &from = query[1], &to = query[2];
  bool isKnown = from.lo == from.hi && to.lo == to.hi && to.lo > 0;
  if (!isKnown)
    return RangeState::unknown(query.getType());
  double factor = from.lo / to.lo;
  RangeState state = RangeState::interval(query.getType(), x.lo * factor,
                                          x.hi * factor, x.nan);
  for (const NormBound &norm : x.l2)
    state.addL2(norm.axes, norm.bound * factor);
  for (const NormBound &norm : x.l1)
    state.addL1(norm.axes, norm.bound * factor);
  state.round(query.getElement());
  return state;
}

static MaybeRange transferScalify(const RangeQuery &query) {
  if (isa<SetScaleOp>(query.op))
    return mayCast(query);
  if (isa<RescaleOp>(query.op))
    return rescale(query);
  if (isa<QuantizeOp>(query.op)) {
    double largest = Rounding::of(query.getElement()).largest;
    return RangeState::interval(query.getType(), -largest, largest,
                                query[0].nan);
  }
  if (isa<DequantizeOp>(query.op)) {
    double most = product(query[0].maxAbs(), query[1].maxAbs());
    return RangeState::interval(query.getType(), -most, most,
                                query[0].nan || !query[1].isFinite());
  }
  return std::nullopt;
}

RangeState scalify::inferRange(const RangeQuery &query, unsigned result) {
  auto type = dyn_cast<RankedTensorType>(query.getType(result));
  auto isPlain = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() && tensor.getRank() <= 32 &&
           tensor.getElementType().isIntOrFloat();
  };
  // Tokens, tuples, complex and quantized numbers have no bounds.
  if (!type || !isPlain(type) ||
      !llvm::all_of(query.op->getOperandTypes(), isPlain))
    return RangeState::unknown(query.getType(result));
  MaybeRange state = transferElementwise(query);
  if (!state)
    state = transferUnary(query);
  if (!state)
    state = transferBits(query);
  if (!state)
    state = transferShape(query, result);
  if (!state)
    state = transferIndexing(query, result);
  if (!state)
    state = transferReduction(query, result);
  if (!state)
    state = transferProduct(query);
  if (!state)
    state = transferScalify(query);
  if (!state)
    return RangeState::unknown(type);
  refineByPattern(query, *state);
  state->allowFlush(type.getElementType());
  return *state;
}

//===----------------------------------------------------------------------===//
// A module
//===----------------------------------------------------------------------===//

FailureOr<ModuleRanges> ModuleRanges::compute(ModuleOp module) {
  ModuleRanges ranges;
  ranges.solver = std::make_unique<DataFlowSolver>();
  // The framework visits only what these two say is reached.
  ranges.solver->load<dataflow::DeadCodeAnalysis>();
  ranges.solver->load<dataflow::SparseConstantPropagation>();
  ranges.solver->load<RangeAnalysis>();
  if (failed(ranges.solver->initializeAndRun(module)))
    return failure();
  return ranges;
}

const RangeState &ModuleRanges::lookup(Value value) const {
  static const RangeState bottom;
  auto *lattice = solver->lookupState<RangeLattice>(value);
  return lattice ? lattice->getValue() : bottom;
}
