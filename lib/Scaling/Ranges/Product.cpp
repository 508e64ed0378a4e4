//===- Product.cpp - Bounds of dots and convolutions ----------------------===//
//
// With C the contracting axes, F and R the free ones of the two operands:
//
//   |y|     <= |a|_C |b|_C                   (Cauchy-Schwarz)
//   |y|     <= |a|_C,1 max|b|                (Hoelder: convex weights)
//   |y|_R   <= |a|_C |b|_{C + R}             (Frobenius over spectral norm)
//   |y|_R   <= |a|_C,1 |b|_R                 (triangle inequality)
//   |y|_R,1 <= |a|_C,1 |b|_R,1
//
// and the same with a and b exchanged. All bound the sum of magnitudes, and so
// its rounding error.
//
//===----------------------------------------------------------------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

namespace {
/// One operand of a dot: its state, and the axes of the result that its free
/// axes become.
struct DotSide {
  const RangeState &state;
  AxisSet contracting, batch;
  /// The first axis of the result that is a free axis of this operand.
  int64_t first;

  AxisSet free() const { return state.allAxes() & ~contracting & ~batch; }
  int64_t countFree() const {
    return state.getRank() - llvm::popcount(contracting | batch);
  }
  AxisSet toResult(AxisSet axes) const {
    AxisSet result = 0;
    int64_t next = first;
    for (int64_t axis = 0; axis < state.getRank(); ++axis) {
      if ((contracting | batch) >> axis & 1)
        continue;
      if (axes >> axis & 1)
        result |= AxisSet(1) << next;
      ++next;
    }
    return result;
  }
  /// Returns sets of free axes whose norms may bound the result's.
  SmallVector<AxisSet, 4> getCandidates() const {
    SmallVector<AxisSet, 4> sets{free()};
    auto add = [&](AxisSet set) {
      if (set && !llvm::is_contained(sets, set))
        sets.push_back(set);
    };
    for (AxisSet axes : state.getNormAxes())
      add(axes & free());
    for (int64_t axis = 0; axis < state.getRank(); ++axis)
      add(free() & (AxisSet(1) << axis));
    return sets;
  }
};
} // namespace

static double least(std::initializer_list<double> bounds) {
  double best = RangeState::infinity();
  for (double bound : bounds)
    if (!std::isnan(bound))
      best = std::min(best, bound);
  return best;
}

/// Adds norms of the result's rows along the free axes of `b`.
static void addNorms(const DotSide &a, const DotSide &b, double factor,
                     RangeState &state) {
  double rows = a.state.getL2(a.contracting);
  double weights = a.state.getL1(a.contracting);
  for (AxisSet axes : b.getCandidates()) {
    double l2 = least({product(rows, b.state.getL2(b.contracting | axes)),
                       product(weights, b.state.getL2(axes))});
    double l1 =
        least({product(weights, b.state.getL1(axes)),
               product(a.state.maxAbs(), b.state.getL1(b.contracting | axes))});
    state.addL2(b.toResult(axes), l2 * factor);
    state.addL1(b.toResult(axes), l1 * factor);
  }
}

static RangeState dot(const RangeQuery &query, const DotSide &a,
                      const DotSide &b) {
  double l2a = a.state.getL2(a.contracting), l1a = a.state.getL1(a.contracting);
  double l2b = b.state.getL2(b.contracting), l1b = b.state.getL1(b.contracting);
  double most =
      least({product(l1a, b.state.maxAbs()), product(a.state.maxAbs(), l1b)});
  // Roots are inexact, and integer bounds have no slack.
  if (query.isFloat())
    most = least({most, product(l2a, l2b)});
  bool isPositive = a.state.isNonNegative() && b.state.isNonNegative();
  RangeState state =
      RangeState::interval(query.getType(), isPositive ? 0 : -most, most,
                           !a.state.isFinite() || !b.state.isFinite());
  if (!query.isFloat())
    return state;
  Type element = query.getElement();
  double factor = Rounding::ofSum(element, a.state.count(a.contracting),
                                  /*wide=*/true);
  addNorms(a, b, 1, state);
  addNorms(b, a, 1, state);
  // All free axes of both operands, without the batch axes.
  state.addL2(a.toResult(a.free()) | b.toResult(b.free()),
              product(a.state.getL2(a.contracting | a.free()),
                      b.state.getL2(b.contracting | b.free())));
  state.round(element, factor);
  state.nan |= !state.isBounded();
  return state;
}

static RangeState dotGeneral(const RangeQuery &query, hlo::DotGeneralOp op) {
  auto numbers = op.getDotDimensionNumbers();
  int64_t batch = numbers.getLhsBatchingDimensions().size();
  DotSide a{query[0], toAxisSet(numbers.getLhsContractingDimensions()),
            toAxisSet(numbers.getLhsBatchingDimensions()), batch};
  DotSide b{query[1], toAxisSet(numbers.getRhsContractingDimensions()),
            toAxisSet(numbers.getRhsBatchingDimensions()),
            batch + a.countFree()};
  return dot(query, a, b);
}

static RangeState plainDot(const RangeQuery &query) {
  const RangeState &x = query[0], &y = query[1];
  if (x.getRank() == 0 || y.getRank() == 0)
    return RangeState::unknown(query.getType());
  DotSide a{x, AxisSet(1) << (x.getRank() - 1), 0, 0};
  DotSide b{y, AxisSet(1), 0, x.getRank() - 1};
  return dot(query, a, b);
}

/// Each element is a dot of a window with the kernel. Padding and dilation only
/// remove terms.
static RangeState convolution(const RangeQuery &query, hlo::ConvolutionOp op) {
  const RangeState &x = query[0], &kernel = query[1];
  AxisSet terms = ~(AxisSet(1) << op.getDimensionNumbers()
                                      .getKernelOutputFeatureDimension()) &
                  kernel.allAxes();
  double n = kernel.count(terms);
  // With batch groups, batches share the kernel's feature axis.
  double most = product(kernel.maxAbs(), n * x.maxAbs());
  if (op.getBatchGroupCount() == 1 && query.isFloat())
    most = least({most, product(kernel.getL1(terms), x.maxAbs()),
                  product(kernel.getL2(terms), std::sqrt(n) * x.maxAbs())});
  bool isPositive = x.isNonNegative() && kernel.isNonNegative();
  RangeState state =
      RangeState::interval(query.getType(), isPositive ? 0 : -most, most,
                           !x.isFinite() || !kernel.isFinite());
  state.round(query.getElement(),
              Rounding::ofSum(query.getElement(), n, /*wide=*/true));
  state.nan |= !state.isBounded();
  return state;
}

MaybeRange scalify::transferProduct(const RangeQuery &query) {
  if (auto op = dyn_cast<hlo::DotGeneralOp>(query.op))
    return dotGeneral(query, op);
  if (isa<hlo::DotOp>(query.op))
    return plainDot(query);
  if (auto op = dyn_cast<hlo::ConvolutionOp>(query.op))
    return convolution(query, op);
  return std::nullopt;
}
