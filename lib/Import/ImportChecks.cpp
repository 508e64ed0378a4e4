//===- ImportChecks.cpp - Checks of test programs as counts ---------------===//
//
// A test program compares what it computes with what it expects, by ops of the
// check dialect or by custom calls of their names. An artefact has no op that
// fails, so a check becomes a result of main: how many elements are not as
// expected. Comparisons and tolerances are those of the StableHLO project's
// interpreter (stablehlo/tests/CheckOps.td; for custom calls
// stablehlo/tools/StablehloTranslateMain.cpp).
//
//===----------------------------------------------------------------------===//

#include "ArgumentInfo.h"
#include "scalify/Dialect/Check/Check.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace scalify {
#define GEN_PASS_DEF_IMPORTCHECKSPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

namespace {
enum class Kind { Equal, Almost, Close };

struct Check {
  Kind kind;
  StringRef name;
  Value actual, expected;
  double tolerance = 0;      // Almost
  uint64_t min = 0, max = 0; // Close, in units in the last place
};

struct ImportChecks : scalify::impl::ImportChecksPassBase<ImportChecks> {
  void runOnOperation() override;
};
} // namespace

/// The tolerances of custom calls are constants of the interpreter.
static std::optional<Check> readCall(CustomCallOp call) {
  StringRef target = call.getCallTargetName();
  if (!target.consume_front("check.") || call->getNumOperands() != 2)
    return std::nullopt;
  Value actual = call->getOperand(0), expected = call->getOperand(1);
  if (actual.getType() != expected.getType() || call->getNumResults() != 0)
    return std::nullopt;
  if (target == "expect_eq")
    return Check{Kind::Equal, target, actual, expected};
  if (target == "expect_almost_eq")
    return Check{Kind::Almost, target, actual, expected, 1e-3};
  if (target == "expect_close")
    return Check{Kind::Close, target, actual, expected, 0, 0, 3};
  return std::nullopt;
}

static std::optional<Check> readCheck(Operation *op) {
  OpBuilder b(op);
  auto constant = [&](ElementsAttr value) -> Value {
    return ConstantOp::create(b, op->getLoc(), value);
  };
  auto number = [](const APFloat &value) { return value.convertToDouble(); };
  using Result = std::optional<Check>;
  StringRef name = op->getName().stripDialect();
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](check::ExpectEqOp op) {
        return Check{Kind::Equal, name, op.getLhs(), op.getRhs()};
      })
      .Case([&](check::ExpectEqConstOp op) {
        return Check{Kind::Equal, name, op.getLhs(), constant(op.getValue())};
      })
      .Case([&](check::ExpectAlmostEqOp op) {
        return Check{Kind::Almost, name, op.getLhs(), op.getRhs(),
                     number(op.getTolerance())};
      })
      .Case([&](check::ExpectAlmostEqConstOp op) {
        return Check{Kind::Almost, name, op.getLhs(), constant(op.getValue()),
                     number(op.getTolerance())};
      })
      .Case([&](check::ExpectCloseOp op) {
        return Check{Kind::Close,
                     name,
                     op.getActual(),
                     op.getExpected(),
                     0,
                     op.getMinUlpDifference(),
                     op.getMaxUlpDifference()};
      })
      .Case([](CustomCallOp call) { return readCall(call); })
      .Default([](Operation *) { return std::nullopt; });
}

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

static Value compare(ImplicitLocOpBuilder &b, Value x, Value y,
                     ComparisonDirection direction) {
  Type element = getElementTypeOrSelf(x);
  ComparisonType kind =
      isa<FloatType, ComplexType>(element) ? ComparisonType::FLOAT
      : hasUnsignedElements(element)       ? ComparisonType::UNSIGNED
                                           : ComparisonType::SIGNED;
  return CompareOp::create(b, x, y, direction, kind);
}

static Value bothNaN(ImplicitLocOpBuilder &b, Value x, Value y) {
  return AndOp::create(b, compare(b, x, x, ComparisonDirection::NE),
                       compare(b, y, y, ComparisonDirection::NE));
}

static Value equal(ImplicitLocOpBuilder &b, Value x, Value y) {
  return compare(b, x, y, ComparisonDirection::EQ);
}

static Value almost(ImplicitLocOpBuilder &b, Value x, Value y,
                    double tolerance) {
  Value wideX = ConvertOp::create(b, x, b.getF64Type());
  Value wideY = ConvertOp::create(b, y, b.getF64Type());
  Value apart = AbsOp::create(b, SubtractOp::create(b, wideX, wideY));
  Value near =
      compare(b, apart, buildNumber(b, b.getLoc(), apart.getType(), tolerance),
              ComparisonDirection::LE);
  return OrOp::create(b, OrOp::create(b, equal(b, x, y), bothNaN(b, x, y)),
                      near);
}

/// The position of finite numbers among all of their type: bits without the
/// sign, negated for negative numbers.
static Value position(ImplicitLocOpBuilder &b, Value x) {
  auto type = cast<RankedTensorType>(x.getType());
  unsigned bits = type.getElementTypeBitWidth();
  auto integers = type.clone(b.getIntegerType(bits));
  Value raw = BitcastConvertOp::create(b, integers, x);
  Value size = AndOp::create(
      b, raw, buildConstant(b, integers, APInt::getSignedMaxValue(bits)));
  Value wide = ConvertOp::create(b, size, b.getI64Type());
  Value isNegative = compare(b, raw, buildZeros(b, b.getLoc(), integers),
                             ComparisonDirection::LT);
  return SelectOp::create(b, isNegative, NegOp::create(b, wide), wide);
}

/// Finite numbers are `most` or fewer steps apart.
static Value within(ImplicitLocOpBuilder &b, Value x, Value y, uint64_t most) {
  // A position is below 2^63 - 2^52, so the sums do not overflow.
  auto step = static_cast<int64_t>(std::min<uint64_t>(most, 1ull << 52));
  Value far = buildConstant(b, x.getType(), APInt(64, step));
  return AndOp::create(
      b, compare(b, x, AddOp::create(b, y, far), ComparisonDirection::LE),
      compare(b, y, AddOp::create(b, x, far), ComparisonDirection::LE));
}

static Value close(ImplicitLocOpBuilder &b, Value x, Value y, uint64_t min,
                   uint64_t max) {
  Value areFinite =
      AndOp::create(b, IsFiniteOp::create(b, x), IsFiniteOp::create(b, y));
  Value placeX = position(b, x), placeY = position(b, y);
  Value near = within(b, placeX, placeY, max);
  Value same = OrOp::create(b, equal(b, x, y), bothNaN(b, x, y));
  if (min > 0) {
    near = AndOp::create(b, near,
                         NotOp::create(b, within(b, placeX, placeY, min - 1)));
    same = buildConstant(b, same.getType(), false);
  }
  return OrOp::create(b, same, AndOp::create(b, areFinite, near));
}

static Value holds(ImplicitLocOpBuilder &b, const Check &check, Value x,
                   Value y) {
  Type element = getElementTypeOrSelf(x);
  if (isa<ComplexType>(element)) {
    Value re = holds(b, check, RealOp::create(b, x), RealOp::create(b, y));
    Value im = holds(b, check, ImagOp::create(b, x), ImagOp::create(b, y));
    return AndOp::create(b, re, im);
  }
  switch (check.kind) {
  case Kind::Equal: // also two NaNs, so that a program may expect them
    return isa<FloatType>(element)
               ? OrOp::create(b, equal(b, x, y), bothNaN(b, x, y)).getResult()
               : equal(b, x, y);
  case Kind::Almost:
    return almost(b, x, y, check.tolerance);
  case Kind::Close:
    return close(b, x, y, check.min, check.max);
  }
  llvm_unreachable("unknown kind of check");
}

/// Builds the number of elements that are not as expected.
static Value countFailures(ImplicitLocOpBuilder &b, const Check &check) {
  Value fails = NotOp::create(b, holds(b, check, check.actual, check.expected));
  Value count = ConvertOp::create(b, fails, b.getI32Type());
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(count).getRank()));
  if (dims.empty())
    return count;
  return buildReduce<AddOp>(b, b.getLoc(), count,
                            buildZero(b, b.getLoc(), b.getI32Type()), dims);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

static LogicalResult verifyCheck(Operation *op, func::FuncOp main,
                                 const Check &check) {
  if (op->getParentOp() != main)
    return op->emitOpError("is inside a region; check values that @main "
                           "computes outside of loops and branches");
  auto type = dyn_cast<RankedTensorType>(check.actual.getType());
  if (!type || !type.hasStaticShape())
    return op->emitOpError("compares values of ")
           << check.actual.getType() << "; it needs static shapes";
  Type element = type.getElementType();
  if (auto complex = dyn_cast<ComplexType>(element))
    element = complex.getElementType();
  if (check.kind != Kind::Equal && !isa<FloatType>(element))
    return op->emitOpError("compares elements of ")
           << type.getElementType() << " by a distance, which floats have";
  return success();
}

void ImportChecks::runOnOperation() {
  SmallVector<std::pair<Operation *, Check>> checks;
  getOperation().walk([&](Operation *op) {
    if (std::optional<Check> check = readCheck(op))
      checks.push_back({op, *check});
  });
  if (checks.empty())
    return;
  FailureOr<func::FuncOp> main = import::getMain(getOperation());
  if (failed(main))
    return signalPassFailure();
  Operation *end = main->getBody().front().getTerminator();
  for (auto [index, pair] : llvm::enumerate(checks)) {
    auto &[op, check] = pair;
    if (failed(verifyCheck(op, *main, check)))
      return signalPassFailure();
    ImplicitLocOpBuilder b(op->getLoc(), op);
    Value count = countFailures(b, check);
    std::string name = ("check." + llvm::Twine(index) + "." + check.name).str();
    auto info = b.getDictionaryAttr(
        b.getNamedAttr(import::kResultInfoAttr, b.getStringAttr(name)));
    if (failed(
            main->insertResult(main->getNumResults(), count.getType(), info)))
      return signalPassFailure();
    end->insertOperands(end->getNumOperands(), count);
    op->erase();
  }
}
