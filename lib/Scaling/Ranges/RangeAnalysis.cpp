//===- RangeAnalysis.cpp - Bounds of every value of a module --------------===//
//
// Connects the transfer functions to MLIR's dataflow framework. Loops and
// branches of the input dialect have regions without control flow interfaces,
// so their arguments and results are joined here from the values that flow into
// them. A body argument that keeps growing is widened to a bound that it cannot
// leave.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/RangeAnalysis.h"

#include "Transfer.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Analysis/DataFlow/ConstantPropagationAnalysis.h"
#include "mlir/Analysis/DataFlow/DeadCodeAnalysis.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

//===----------------------------------------------------------------------===//
// The lattice
//===----------------------------------------------------------------------===//

// A value outside of loops changes once or twice. Two rounds of a loop show
// which values grow.
static constexpr unsigned kMaxChanges = 4;

ChangeResult RangeLattice::join(const RangeState &other) {
  if (!other.initialized)
    return ChangeResult::NoChange;
  Type type = getAnchor().getType();
  RangeState next = numChanges < kMaxChanges ? RangeState::join(value, other)
                                             : RangeState::widen(value, other);
  // Widened integers stay within their type's range.
  auto shaped = dyn_cast<ShapedType>(type);
  if (shaped && shaped.getElementType().isIntOrIndex()) {
    RangeState bounds = RangeState::unknown(type);
    next.lo = std::max(next.lo, bounds.lo);
    next.hi = std::min(next.hi, bounds.hi);
  }
  // A chain of small changes by rounding must terminate too.
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

/// The arguments of a loop's regions hold the loop's operands first, and then
/// the values that its body returns. Those of other regions (reductions, sorts)
/// hold any elements.
void RangeAnalysis::visitNonControlFlowArguments(
    Operation *op, const RegionSuccessor &successor,
    ArrayRef<RangeLattice *> arguments, unsigned firstIndex) {
  auto loop = dyn_cast<hlo::WhileOp>(op);
  if (!loop)
    return setAllToEntryStates(arguments);
  ProgramPoint *point =
      getProgramPointBefore(&successor.getSuccessor()->front());
  Operation *yield = loop.getBody().front().getTerminator();
  FloatType saved = getSavedFormat(op);
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    Value start = op->getOperand(i);
    const RangeState &state = getLatticeElementFor(point, start)->getValue();
    propagateIfChanged(argument,
                       argument->join(readOperand(start, state, saved)));
    join(argument, *getLatticeElementFor(point, yield->getOperand(i)));
  }
}

/// A loop of no iterations returns its operands.
void RangeAnalysis::visitWhile(Operation *op,
                               ArrayRef<const RangeLattice *> operands,
                               ArrayRef<RangeLattice *> results) {
  ProgramPoint *point = getProgramPointAfter(op);
  Operation *yield = cast<hlo::WhileOp>(op).getBody().front().getTerminator();
  FloatType saved = getSavedFormat(op);
  for (auto [i, result] : llvm::enumerate(results)) {
    const RangeState &state = operands[i]->getValue();
    propagateIfChanged(
        result, result->join(readOperand(op->getOperand(i), state, saved)));
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
  FloatType saved = getSavedFormat(op);
  SmallVector<RangeState, 0> read;
  read.reserve(operands.size());
  SmallVector<const RangeState *> states;
  for (auto [value, operand] : llvm::zip(op->getOperands(), operands)) {
    // Bottom: the op that defines the operand was not visited yet.
    if (!operand->getValue().initialized)
      return success();
    states.push_back(&operand->getValue());
    if (saved)
      states.back() =
          &read.emplace_back(readOperand(value, operand->getValue(), saved));
  }
  ProgramPoint *point = getProgramPointAfter(op);
  auto lookup = [&](Value value) -> const RangeState & {
    return getLatticeElementFor(point, value)->getValue();
  };
  RangeQuery query{op, states, lookup, /*readsSaved=*/saved != nullptr};
  for (auto [i, result] : llvm::enumerate(results))
    propagateIfChanged(result, result->join(inferRange(query, i)));
  return success();
}

//===----------------------------------------------------------------------===//
// Transfer
//===----------------------------------------------------------------------===//

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
  if (!query.readsSaved)
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
  // The framework visits only ops that these two analyses find reachable.
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
