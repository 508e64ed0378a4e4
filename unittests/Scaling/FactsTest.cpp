// The laws of the join of facts, and that rules are monotone in its order.
#include "scalify/Dialect/Scalify/Scalify.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Pipeline/InitAll.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

using namespace mlir;
using namespace scalify;

namespace {

/// Facts that can be true of one value: moments lie within the bound and have
/// the sign.
class RandomFacts {
public:
  ScaleFacts next() {
    if (draw(8) == 0)
      return ScaleFacts::constantOf(kConstants[draw(std::size(kConstants))]);
    ScaleFacts facts;
    facts.sign = static_cast<Sign>(draw(3));
    facts.rms = std::exp2(static_cast<double>(draw(12)) - 6);
    double direction = facts.sign == Sign::NonPositive ? -1 : 1;
    facts.mean = facts.sign == Sign::Any ? 0 : direction * 0.5 * facts.rms;
    if (draw(2) == 0)
      facts.bound = facts.rms * std::exp2(static_cast<double>(draw(4)));
    facts.scaleByBound = draw(4) == 0;
    facts.masked = draw(4) == 0;
    return facts;
  }

  /// Returns the same moments with weaker facts of the elements.
  ScaleFacts widen(ScaleFacts facts) {
    facts.joinElements(next());
    return facts;
  }

  /// Reproducible: the same facts in each run.
  unsigned draw(size_t count) {
    return static_cast<unsigned>(random() % count);
  }

private:
  static constexpr double kConstants[] = {
      0.0,
      1.0,
      -2.5,
      0x1p-30,
      std::numeric_limits<double>::infinity(),
      std::numeric_limits<double>::quiet_NaN()};
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same in each run.
  std::mt19937 random{1};
};

ScaleFacts join(ScaleFacts a, const ScaleFacts &b) {
  a.joinElements(b);
  return a;
}

std::string describe(const ScaleFacts &facts) {
  static constexpr const char *kSigns[] = {"any sign", "not negative",
                                           "not positive"};
  std::ostringstream out;
  out << kSigns[static_cast<int>(facts.sign)] << ", mean " << facts.mean
      << ", rms " << facts.rms << ", bound " << facts.bound;
  if (facts.constant)
    out << ", constant " << *facts.constant;
  for (auto [is, name] : {std::pair(facts.scaleByBound, "by bound"),
                          {facts.anyScale, "any scale"},
                          {facts.masked, "masked"},
                          {facts.indicator, "indicator"}})
    if (is)
      out << ", " << name;
  return out.str();
}

/// True if both hold the same for each element.
bool isAlike(const ScaleFacts &a, const ScaleFacts &b) {
  return a.covers(b) && b.covers(a);
}

} // namespace

TEST(Facts, JoinIsTheLeastUpperBound) {
  RandomFacts facts;
  for (int i = 0; i < 20000; ++i) {
    ScaleFacts a = facts.next(), b = facts.next(), c = facts.next();
    ScaleFacts both = join(a, b);
    EXPECT_TRUE(both.covers(a) && both.covers(b));
    EXPECT_TRUE(!c.covers(a) || !c.covers(b) || c.covers(both));
    EXPECT_TRUE(isAlike(join(a, a), a));
    EXPECT_TRUE(isAlike(both, join(b, a)));
    EXPECT_TRUE(isAlike(join(both, c), join(a, join(b, c))));
  }
}

TEST(Facts, CoversIsAnOrder) {
  RandomFacts facts;
  for (int i = 0; i < 20000; ++i) {
    ScaleFacts a = facts.next(), b = facts.widen(a), c = facts.widen(b);
    EXPECT_TRUE(a.covers(a));
    EXPECT_TRUE(b.covers(a) && c.covers(b) && c.covers(a));
  }
}

// One op of each rule that infers facts of elements.
static constexpr llvm::StringLiteral kOps = R"(
func.func @main(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>, %p: tensor<8x4xi1>,
                %s: tensor<f32>, %w: tensor<4x8xf32>) {
  %0 = stablehlo.add %x, %y : tensor<8x4xf32>
  %1 = stablehlo.subtract %x, %y : tensor<8x4xf32>
  %2 = stablehlo.multiply %x, %y : tensor<8x4xf32>
  %3 = stablehlo.divide %x, %y : tensor<8x4xf32>
  %4 = stablehlo.maximum %x, %y : tensor<8x4xf32>
  %5 = stablehlo.minimum %x, %y : tensor<8x4xf32>
  %6 = stablehlo.negate %x : tensor<8x4xf32>
  %7 = stablehlo.abs %x : tensor<8x4xf32>
  %8 = stablehlo.sign %x : tensor<8x4xf32>
  %9 = stablehlo.exponential %x : tensor<8x4xf32>
  %10 = stablehlo.log %x : tensor<8x4xf32>
  %11 = stablehlo.log_plus_one %x : tensor<8x4xf32>
  %12 = stablehlo.exponential_minus_one %x : tensor<8x4xf32>
  %13 = stablehlo.tanh %x : tensor<8x4xf32>
  %14 = stablehlo.logistic %x : tensor<8x4xf32>
  %15 = stablehlo.sqrt %x : tensor<8x4xf32>
  %16 = stablehlo.rsqrt %x : tensor<8x4xf32>
  %17 = stablehlo.cbrt %x : tensor<8x4xf32>
  %18 = stablehlo.sine %x : tensor<8x4xf32>
  %19 = stablehlo.cosine %x : tensor<8x4xf32>
  %20 = stablehlo.floor %x : tensor<8x4xf32>
  %21 = stablehlo.power %x, %y : tensor<8x4xf32>
  %22 = stablehlo.select %p, %x, %y : tensor<8x4xi1>, tensor<8x4xf32>
  %23 = stablehlo.clamp %s, %x, %s : (tensor<f32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %24 = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %25 = stablehlo.reshape %x : (tensor<8x4xf32>) -> tensor<32xf32>
  %26 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %27 = stablehlo.pad %x, %s, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<9x4xf32>
  %28 = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %29 = stablehlo.reduce(%x init: %s) applies stablehlo.maximum across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %30 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %31 = stablehlo.convert %x : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %32 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
  return
}
)";

TEST(Facts, RulesAreMonotone) {
  DialectRegistry registry;
  registerAllDialects(registry);
  registry.insert<func::FuncDialect>();
  MLIRContext context(registry);
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(kOps, ParserConfig(&context));
  ASSERT_TRUE(module);
  auto func = *module->getOps<func::FuncOp>().begin();
  RandomFacts facts;
  func.walk([&](ScaleRuleInterface rule) {
    Operation *op = rule;
    if (op->getNumResults() == 0)
      return;
    for (int i = 0; i < 2000; ++i) {
      llvm::DenseMap<Value, ScaleFacts> less, more;
      for (Value operand : op->getOperands()) {
        ScaleFacts first = facts.next();
        less[operand] = first;
        // Rules read a zero or an infinity as a mask or as a limit, not as a
        // small case of data.
        more[operand] = first.anyScale ? first : facts.widen(first);
      }
      auto infer = [&](llvm::DenseMap<Value, ScaleFacts> &of) {
        auto lookup = [&](Value value) -> const ScaleFacts & {
          return of[value];
        };
        SmallVector<ScaleFacts> results(op->getNumResults());
        FactsQuery query{op, lookup};
        rule.inferFacts(query, results);
        return results.front();
      };
      ScaleFacts narrow = infer(less), wide = infer(more);
      if (wide.covers(narrow))
        continue;
      std::string told;
      for (Value operand : op->getOperands())
        told += "\n  of " + describe(less[operand]) + "\n  and " +
                describe(more[operand]);
      ADD_FAILURE() << op->getName().getStringRef().str() << " makes "
                    << describe(narrow) << "\n  and " << describe(wide) << told;
    }
  });
}
