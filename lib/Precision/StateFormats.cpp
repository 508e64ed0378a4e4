//===- StateFormats.cpp - Parameters and moments in narrow formats --------===//
//
// New values of donated parameters and moments are cast to the recipe's format
// before main returns them, rounded to nearest or stochastically; the
// argument's type stays. The argument's values are then in that format already.
//
// A second moment is stored as its square root, which halves its range in
// binades, and only zero becomes zero: a flushed second moment under a first
// moment that is not flushed would divide by eps alone.
//
//===----------------------------------------------------------------------===//

#include "StateDecay.h"
#include "StateTerms.h"
#include "StorageFormats.h"

#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/DeviceTables.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/StoredState.h"
#include "scalify/Scaling/NoiseAnalysis.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

static int64_t getSmallestExponent(FloatType format) {
  return llvm::ilogb(APFloat::getSmallest(format.getFloatSemantics()));
}

/// Returns the number of parts of a dimension, given (stride, size) pairs.
static int64_t countParts(ArrayRef<int64_t> split) {
  int64_t count = 1;
  for (size_t i = 1; i < split.size(); i += 2)
    count *= split[i];
  return count;
}

namespace {
class StateCaster {
public:
  StateCaster(func::FuncOp func, RecipeAttr recipe, Caster &caster,
              bool hasRoundingKey)
      : func(func), recipe(recipe), caster(caster),
        isStochastic(recipe.getStorage().rounding == RoundingMode::Stochastic),
        hasRoundingKey(hasRoundingKey),
        terminator(func.getBody().front().getTerminator()),
        builder(terminator) {}
  void run();

private:
  bool isParam(Value value);
  bool isAverageOfOthers(unsigned index, Value written);
  Type getFormat(unsigned index, Value written);
  StringRef getReasonAgainst(unsigned index, Value written, FloatType format);
  bool isSecondMoment(unsigned index, Value written);
  std::optional<int64_t> getExponent(unsigned index, Value written,
                                     FloatType format);
  Type getWholeType(unsigned index);
  void findStreams();
  void findNewParams();
  void markState(Value stored, unsigned index, StringRef kind);
  void placeShare(QuantizeOp cast, unsigned index);
  ScaleHint makeHint(unsigned index, int64_t exponent, StringRef rule);
  Value castSecondMoment(Value written, unsigned index, int64_t exponent,
                         FloatType format);
  Value spread(float value, Value like);
  template <typename Op> Value create(ValueRange operands);

  func::FuncOp func;
  RecipeAttr recipe;
  Caster &caster;
  bool isStochastic, hasRoundingKey;
  Operation *terminator;
  OpBuilder builder;
  /// The stream of random words of each argument.
  llvm::DenseMap<unsigned, int64_t> streams;
  /// The new parameters that the step returns.
  llvm::DenseSet<Value> newParams;
};
} // namespace

bool StateCaster::isSecondMoment(unsigned index, Value written) {
  return isOneOf(getRoleAttr(func, index), Role::Moment) &&
         isMeanOfSquares(func.getArgument(index), written);
}

/// Returns the type of the whole value of which the argument is a part or a
/// share.
Type StateCaster::getWholeType(unsigned index) {
  if (auto flat = func.getArgAttrOfType<DictionaryAttr>(index, kFlatAttr))
    return flat.getAs<TypeAttr>("whole").getValue();
  auto whole = func.getArgAttrOfType<TypeAttr>(index, kWholeTypeAttr);
  return whole ? whole.getValue() : func.getArgument(index).getType();
}

/// Assigns streams so that no two arguments share random words. A parameter and
/// its moment, which one kernel writes, take the two words of one block if the
/// moments are in the order of the parameters.
void StateCaster::findStreams() {
  // Only separates the blocks of parameters and of later moments.
  constexpr int64_t kMaxArguments = 1 << 20;
  struct Group {
    SmallVector<unsigned> params, moments;
  };
  llvm::MapVector<Type, Group> groups;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    RoleAttr role = getRoleAttr(func, i);
    Group &group = groups[getWholeType(i)];
    if (isOneOf(role, Role::Moment))
      group.moments.push_back(i);
    else if (isOneOf(role, {Role::Param, Role::Master}))
      group.params.push_back(i);
  }
  for (auto &[type, group] : groups) {
    ArrayRef<unsigned> first =
        group.params.empty() ? group.moments : group.params;
    SmallVector<unsigned> all(group.params);
    llvm::append_range(all, group.moments);
    for (auto [place, index] : llvm::enumerate(all)) {
      int64_t turn = place / first.size();
      int64_t block = first[place % first.size()] + kMaxArguments * (turn / 2);
      streams[index] = 2 * block + turn % 2;
    }
  }
}

ScaleHint StateCaster::makeHint(unsigned index, int64_t exponent,
                                StringRef rule) {
  ScaleHint hint{
      caster.makeConstant(std::ldexp(1.0f, static_cast<int>(exponent))),
      builder.getStringAttr(rule)};
  hint.isPrescribed = true;
  if (isStochastic && hasRoundingKey)
    hint.stream = builder.getI64IntegerAttr(streams.lookup(index));
  return hint;
}

/// True if errors of rounding in each step outgrow a value that each step
/// multiplies by `decay`. Stochastic rounding has twice the mean square of
/// rounding to nearest; by that, smaller changes would be lost for ever.
static bool outgrows(double decay, FloatType format) {
  return 2 * getRoundingNoise(format) >= 1 - decay * decay;
}

bool StateCaster::isParam(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getOwner() == terminator->getBlock() &&
         isOneOf(getRoleAttr(func, argument.getArgNumber()),
                 {Role::Param, Role::Master});
}

/// True for a parameter that is a mean of its old value and of other ones that
/// the step updates, and of nothing else, as the weights of a target or a
/// teacher are.
bool StateCaster::isAverageOfOthers(unsigned index, Value written) {
  Value own = func.getArgument(index);
  std::optional<double> decay = findDecay(own, written);
  if (!decay || *decay == 0 || *decay == 1)
    return false;
  llvm::DenseSet<Value> others(newParams);
  others.erase(written);
  auto isOther = [&](Value term) {
    auto argument = dyn_cast<BlockArgument>(term);
    return others.contains(term) ||
           (argument && argument != own && isParam(argument) &&
            getNextValue(func, argument.getArgNumber()));
  };
  // A branch may leave the average as it was.
  return llvm::any_of(findAlternatives(written), [&](Value value) {
    SmallVector<Value> terms = findTerms(own, value, others);
    return llvm::any_of(terms, isOther) && llvm::all_of(terms, [&](Value term) {
             return term == own || isOther(term);
           });
  });
}

/// Returns why state is no moment that a narrow format holds; empty if it is.
StringRef StateCaster::getReasonAgainst(unsigned index, Value written,
                                        FloatType format) {
  Value own = func.getArgument(index);
  // A sum of gradients between two updates is no average: like sums over
  // micro-batches it is rounded once, when it is used.
  if (isReset(own, written))
    return "is a sum that the step sets to zero";
  std::optional<double> decay = findDecay(own, written);
  if (decay && outgrows(*decay, format))
    return *decay == 1
               ? "is a sum over all steps"
               : "decays so slowly that its rounding errors would outgrow it";
  if (entersVariance(written))
    return "is a part of a variance, which rounding could make negative";
  if (isSecondMoment(index, written))
    return {};
  // A step moves a slow average by less than a narrow format rounds it.
  if (llvm::any_of(findTerms(own, written, newParams),
                   [&](Value term) { return newParams.contains(term); }))
    return "is an average of parameters";
  if (llvm::any_of(findAlternatives(written),
                   [&](Value value) { return isParam(value); }))
    return "holds parameters";
  if (!decay)
    return "is no average: the step computes it by more than sums and factors";
  return {};
}

/// Returns null if the state stays as the program has it. So does one element,
/// which has no other to give it a steady size: its scale would follow it to
/// zero, and hold it there for steps.
Type StateCaster::getFormat(unsigned index, Value written) {
  RoleAttr role = getRoleAttr(func, index);
  auto type = cast<ShapedType>(getWholeType(index));
  if (!role || !type.getElementType().isF32() || type.getNumElements() == 1)
    return {};
  Type format;
  StringRef reason;
  if (isOneOf(role, {Role::Param, Role::Master})) {
    format = recipe.getStorage().masters;
    if (format && entersDistance(func, func.getArgument(index), written))
      reason = "enters its distance from weights that the step keeps, which "
               "rounding would swamp";
    else if (format && isAverageOfOthers(index, written))
      reason = "is an average of other parameters";
  } else if (role.getValue() == Role::Moment) {
    format = isSecondMoment(index, written) ? recipe.getStorage().secondMoments
                                            : recipe.getStorage().firstMoments;
    if (format)
      reason = getReasonAgainst(index, written, cast<FloatType>(format));
  }
  if (reason.empty())
    return format;
  emitRemark(func.getArgument(index).getLoc())
      << "state stays wide: '" << getArgumentName(func.getArgument(index))
      << "' " << reason;
  return {};
}

/// Returns the scale of the value written, or the largest of its alternatives'
/// scales.
static std::optional<int64_t> getWrittenExponent(Value written) {
  std::optional<int64_t> largest;
  for (Value value : findAlternatives(written)) {
    Operation *def = value.getDefiningOp();
    auto found = def ? def->getAttrOfType<IntegerAttr>(kScaleAttr) : nullptr;
    if (found && found.getInt() != kZeroScale)
      largest = std::max(found.getInt(), largest.value_or(found.getInt()));
    if (found && value == written)
      return found.getInt();
  }
  return largest;
}

/// State keeps its declared scale, unless it is a moment of which the step
/// writes values that would saturate there, as where it starts at 1e-8.
std::optional<int64_t> StateCaster::getExponent(unsigned index, Value written,
                                                FloatType format) {
  auto declared = func.getArgAttrOfType<IntegerAttr>(index, kScaleAttr);
  std::optional<int64_t> found = getWrittenExponent(written);
  if (!declared || declared.getInt() == kZeroScale)
    return found;
  int64_t room = llvm::ilogb(APFloat::getLargest(format.getFloatSemantics()));
  bool isMoment = isOneOf(getRoleAttr(func, index), Role::Moment);
  return isMoment && found && *found > declared.getInt() + room
             ? found
             : declared.getInt();
}

template <typename Op> Value StateCaster::create(ValueRange operands) {
  auto op = Op::create(builder, terminator->getLoc(),
                       operands.front().getType(), operands);
  setPhase(op, Phase::Optimizer);
  return op->getResult(0);
}

Value StateCaster::spread(float value, Value like) {
  return stablehlo::BroadcastInDimOp::create(
      builder, terminator->getLoc(), like.getType(), caster.makeConstant(value),
      ArrayRef<int64_t>{});
}

/// Marks the cast of the dequantized value `stored` as one of state, whose
/// scale other passes keep.
void StateCaster::markState(Value stored, unsigned index, StringRef kind) {
  auto wide = stored.getDefiningOp<DequantizeOp>();
  Value root = getDotOperandRoot(wide.getData());
  auto cast = root.getDefiningOp<QuantizeOp>();
  if (!cast)
    return;
  cast->setAttr(kStateAttr, StringAttr::get(cast.getContext(), kind));
  if (cast.isStochastic())
    placeShare(cast, index);
}

/// Rounds a rank's share by the places of its elements in the whole, in
/// row-major order. A share of a stack has a piece of each slice.
void StateCaster::placeShare(QuantizeOp cast, unsigned index) {
  auto flat = func.getArgAttrOfType<DictionaryAttr>(index, kFlatAttr);
  auto split = func.getArgAttrOfType<ArrayAttr>(index, kPartsAttr);
  sdy::MeshAttr mesh = sdy::findLargestMesh(func->getParentOp());
  if (!flat || !split || !mesh)
    return;
  auto type = mlir::cast<ShapedType>(cast.getType());
  auto digits =
      mlir::cast<DenseI64ArrayAttr>(split[split.size() - 1]).asArrayRef();
  int64_t numParts = 1;
  for (Attribute dim : flat.getAs<ArrayAttr>("parts"))
    numParts *= countParts(mlir::cast<DenseI64ArrayAttr>(dim));
  int64_t numShares = countParts(digits) / numParts;
  int64_t share = type.getShape().back();
  SmallVector<int32_t> firsts;
  for (int64_t device = 0; device < mesh.getTotalSize(); ++device) {
    int64_t place = 0;
    for (size_t i = 0; i < digits.size(); i += 2)
      place = place * digits[i + 1] + device / digits[i] % digits[i + 1];
    // Modulo 2^32, as places are.
    firsts.push_back(static_cast<int32_t>(place % numShares * share));
  }
  OpBuilder before(cast);
  cast.getFirstMutable().assign(
      lookUp(before, cast.getLoc(), firsts, mesh.getTotalSize()));
  if (type.getRank() == 1)
    return;
  auto whole = mlir::cast<ShapedType>(flat.getAs<TypeAttr>("whole").getValue());
  int64_t slices = type.getDimSize(0);
  cast.setWhole(ArrayRef({slices, whole.getNumElements() / numParts / slices}));
}

Value StateCaster::castSecondMoment(Value written, unsigned index,
                                    int64_t exponent, FloatType format) {
  // Rounded down, so that the root's scale is an integer power of two.
  auto half =
      static_cast<int>(exponent >= 0 ? exponent / 2 : -((1 - exponent) / 2));
  Value root = create<stablehlo::SqrtOp>({written});
  Value smallest = spread(
      std::ldexp(1.0f, half + static_cast<int>(getSmallestExponent(format))),
      written);
  Value sign = create<stablehlo::SignOp>({written});
  Value least = create<stablehlo::MulOp>({sign, smallest});
  root = create<stablehlo::MaxOp>({root, least});
  ScaleHint hint =
      makeHint(index, half, "state: the root of the second moment");
  if (DecisionAttr decision = caster.getReasonToStayWide(root, format, hint)) {
    written.getDefiningOp()->emitRemark("state stays wide: ")
        << decision.describe();
    return written;
  }
  Value stored = caster.cast(root, hint, format, terminator->getBlock());
  markState(stored, index, kStateRoot);
  return create<stablehlo::MulOp>({stored, stored});
}

void StateCaster::findNewParams() {
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    OpOperand *next = getNextValue(func, i);
    if (next && isOneOf(getRoleAttr(func, i), {Role::Param, Role::Master}))
      newParams.insert(next->get());
  }
}

void StateCaster::run() {
  findStreams();
  findNewParams();
  unsigned numCast = 0;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    OpOperand *result = getNextValue(func, i);
    if (!result)
      continue;
    Value written = result->get();
    Type format = getFormat(i, written);
    if (!format || isa<BlockArgument>(written))
      continue;
    std::optional<int64_t> exponent =
        getExponent(i, written, cast<FloatType>(format));
    if (!exponent) {
      caster.refuse(written.getDefiningOp(),
                    "state stays wide: '" +
                        getArgumentName(func.getArgument(i)) +
                        "' has no known scale: give it one in scales=");
      continue;
    }
    builder.setInsertionPoint(terminator);
    if (isSecondMoment(i, written)) {
      result->set(
          castSecondMoment(written, i, *exponent, cast<FloatType>(format)));
      numCast += result->get() != written;
      continue;
    }
    ScaleHint hint = makeHint(i, *exponent, "state: written by the step");
    if (DecisionAttr decision =
            caster.getReasonToStayWide(written, format, hint)) {
      written.getDefiningOp()->emitRemark("state stays wide: ")
          << decision.describe();
      continue;
    }
    Value stored = caster.cast(written, hint, format, terminator->getBlock());
    markState(stored, i, kStateValue);
    result->set(stored);
    ++numCast;
  }
  if (numCast > 0 && isStochastic && !hasRoundingKey)
    func.emitRemark("state is rounded to nearest (")
        << numCast << " arrays), which loses updates below half a unit in the "
        << "last place: the recipe's 'state_rounding = stochastic' needs a "
           "rounding_key, a new one in each step";
}

void scalify::castState(func::FuncOp func, RecipeAttr recipe, Caster &caster,
                        bool hasRoundingKey) {
  StorageFormats storage = recipe.getStorage();
  if (storage.masters || storage.firstMoments || storage.secondMoments)
    StateCaster(func, recipe, caster, hasRoundingKey).run();
}
