//===- DoubleBessel.cpp - Bessel's function exp(-x) I_1(x) in F64 ---------===//
//
// x P(x / 4 - 1) up to 8, and Q(16 / x - 1) / sqrt(x) beyond, by Chebyshev
// series. Their coefficients were computed by interpolation at 40 Chebyshev
// points with 40 digits; what is left out is below 1e-18.
//
//===----------------------------------------------------------------------===//

#include "SpecialFunctions.h"

#include "RealOps.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

static constexpr double kSmall[] = {
    0.12629359322181682,     -0.17641651835783406,    0.1026436586898471,
    -0.05294598120809499,    0.024726449030626516,    -0.010564084894626197,
    0.004156422944312888,    -0.0015135724506312532,  0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05,   -1.3273163656039436e-05,
    3.4702513081376785e-06,  -8.568720264695455e-07,  2.0032947535521353e-07,
    -4.445059128796328e-08,  9.381537386495773e-09,   -1.8872497517228294e-09,
    3.625590281552117e-10,   -6.663489723502027e-11,  1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13,   -5.042185504727912e-14,
    7.600684294735408e-15,   -1.1055969477353862e-15, 1.5536319577362005e-16,
    -2.111421214358166e-17,  2.7779141127610464e-18};

static constexpr double kLarge[] = {
    0.38928811750914005,     -0.009761097491361469,   -0.00011058893876262371,
    -3.882564808877691e-06,  -2.512236237870209e-07,  -2.6314688468895196e-08,
    -3.835380385964237e-09,  -5.589743462196584e-10,  -1.8974958123505413e-11,
    3.2526035830154884e-11,  1.4125807436613782e-11,  2.0356285441470896e-12,
    -7.198551776245908e-13,  -4.0835511110921974e-13, -2.1015418427726643e-14,
    4.2724400167119517e-14,  1.0420276984128802e-14,  -3.814403072437007e-15,
    -1.8803547755107805e-15, 3.30820231092085e-16,    2.9626289976460157e-16,
    -3.209525921991637e-17,  -4.6503053684947827e-17, 4.414348323093937e-18,
    7.517296311011398e-18,   -9.314178870907263e-19,  -1.2421932752759928e-18};

/// Sums c_k T_k(t) by Clenshaw's recurrence (1955).
static Real chebyshev(ArrayRef<double> coefficients, Real t) {
  Real last = t.like(0), sum = t.like(coefficients.back());
  Real twice = t * 2.0;
  for (double coefficient :
       llvm::reverse(coefficients.drop_front().drop_back())) {
    Real next = twice * sum - last + coefficient;
    last = sum;
    sum = next;
  }
  return t * sum - last + coefficients.front();
}

Value import::buildDoubleBesselI1e(ImplicitLocOpBuilder &b, Value operand) {
  Real x{&b, operand}, a = abs(x);
  Real small = chebyshev(kSmall, a * 0.25 + -1.0) * a;
  Real large = chebyshev(kLarge, a.like(16) / a + -1.0) / sqrt(a);
  return withSign(select(a.isLess(8), small, large), x).value;
}
