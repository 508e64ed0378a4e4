//===- Window.cpp - Rules of windows and convolutions ---------------------===//
//
// A window at the border, or over a dilated base, holds fewer elements than its
// size. The rules use the mean number of real elements over the result.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "Decays.h"
#include "Moments.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

namespace {
/// A window along one dimension.
struct WindowDim {
  int64_t base = 1, size = 1, stride = 1, padLow = 0, baseDilation = 1,
          dilation = 1, results = 1;

  TermCount countTerms() const;
};
} // namespace

TermCount WindowDim::countTerms() const {
  // Long windows (a cumulative sum over a sequence) are sampled. A window
  // between two samples may hold all of its terms.
  int64_t step = std::max<int64_t>(1, results / 256);
  double most = step > 1 ? static_cast<double>(size) : 0;
  double first = 0, second = 0, samples = 0;
  for (int64_t i = step / 2; i < results; i += step) {
    int64_t begin = i * stride - padLow, count = 0;
    if (baseDilation == 1 && dilation == 1) {
      count = std::min(begin + size, base) - std::max<int64_t>(begin, 0);
    } else {
      for (int64_t j = 0; j < size; ++j) {
        int64_t at = begin + j * dilation;
        count += at >= 0 && at % baseDilation == 0 && at / baseDilation < base;
      }
    }
    double terms = static_cast<double>(std::max<int64_t>(count, 0));
    first += terms;
    second += terms * terms;
    most = std::max(most, terms);
    ++samples;
  }
  samples = std::max(samples, 1.0);
  return {first / samples, second / samples, most};
}

static int64_t at(std::optional<ArrayRef<int64_t>> values, unsigned i) {
  return values && i < values->size() ? (*values)[i] : 1;
}

/// The low padding of dimension i; 0 if the attribute is absent.
static int64_t lowPadding(std::optional<DenseIntElementsAttr> padding,
                          unsigned i) {
  return padding ? padding->getValues<int64_t>()[2 * i] : 0;
}

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static TermCount countWindow(stablehlo::ReduceWindowOp op) {
  TermCount terms;
  ArrayRef<int64_t> base = getShape(op.getInputs()[0]);
  ArrayRef<int64_t> results = getShape(op->getResult(0));
  for (unsigned i = 0; i < base.size(); ++i) {
    WindowDim dim{base[i],
                  op.getWindowDimensions()[i],
                  at(op.getWindowStrides(), i),
                  lowPadding(op.getPadding(), i),
                  at(op.getBaseDilations(), i),
                  at(op.getWindowDilations(), i),
                  results[i]};
    terms = terms.times(dim.countTerms());
  }
  return terms;
}

static void reduceWindowFacts(const FactsQuery &query, Results out) {
  auto op = cast<stablehlo::ReduceWindowOp>(query.op);
  TermCount terms = countWindow(op);
  Operation *body = getSingleBodyOp(op.getBody());
  for (auto [i, result] : llvm::enumerate(out)) {
    result = reductionOf(query.operand(i), body, terms);
    result.anyScale &= query.of(op.getInitValues()[i]).anyScale;
    bool adds = isa_and_nonnull<stablehlo::AddOp>(body);
    result.ramp = adds ? getRampOfSum(op, result) : Ramp();
    result.rule = describeReduction(query.op, body, terms.mean);
  }
}

/// Each source element goes to one element of its window. The share of elements
/// that receive one grows with the overlap of windows.
static void selectAndScatterFacts(const FactsQuery &query, Results out) {
  const ScaleFacts &source = query.operand(1), &init = query.operand(2);
  double share = countElements(query.op->getOperand(1)) /
                 std::max(1.0, countElements(query.op->getResult(0)));
  double mean = share * source.mean;
  out[0] =
      ScaleFacts::moments(mean, share * source.rms * source.rms - mean * mean);
  if (!init.anyScale)
    out[0] = ScaleFacts::moments(mean + init.mean, out[0].variance());
  out[0].sign = source.sign;
  out[0].rule = "select_and_scatter: density of the source";
}

template <typename ConvOp>
static TermCount countTaps(ConvOp op,
                           std::optional<DenseIntElementsAttr> padding) {
  auto dims = op.getDimensionNumbers();
  ArrayRef<int64_t> lhs = getShape(op.getLhs()), rhs = getShape(op.getRhs());
  ArrayRef<int64_t> results = getShape(op->getResult(0));
  TermCount terms = TermCount::of(
      static_cast<double>(rhs[dims.getKernelInputFeatureDimension()]));
  for (unsigned i = 0; i < dims.getInputSpatialDimensions().size(); ++i) {
    WindowDim dim{lhs[dims.getInputSpatialDimensions()[i]],
                  rhs[dims.getKernelSpatialDimensions()[i]],
                  at(op.getWindowStrides(), i),
                  lowPadding(padding, i),
                  at(op.getLhsDilation(), i),
                  at(op.getRhsDilation(), i),
                  results[dims.getOutputSpatialDimensions()[i]]};
    terms = terms.times(dim.countTerms());
  }
  return terms;
}

template <typename ConvOp>
static void convolutionFacts(const FactsQuery &query, Results out) {
  auto op = cast<ConvOp>(query.op);
  std::optional<DenseIntElementsAttr> padding;
  if constexpr (std::is_same_v<ConvOp, stablehlo::ConvolutionOp>)
    padding = op.getPadding();
  TermCount terms = countTaps(op, padding);
  out[0] = dotOf(query.operand(0), query.operand(1), terms);
  bool grows = std::fabs(out[0].mean) > 0.5 * out[0].rms;
  out[0].rule = llvm::formatv("convolution: {0}(K = {1})", grows ? "" : "sqrt",
                              static_cast<int64_t>(terms.mean));
}

static ScaleFamily windowFamily(Operation *op) {
  return isHomogeneous(op->getRegion(0)) ? ScaleFamily::Reduce
                                         : ScaleFamily::True;
}

static ScaleFamily selectAndScatterFamily(Operation *op) {
  return isHomogeneous(op->getRegion(0)) && isHomogeneous(op->getRegion(1))
             ? ScaleFamily::Reduce
             : ScaleFamily::True;
}

void scalify::attachWindowRules(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<windowFamily, reduceWindowFacts, ReduceWindowOp>(context);
  attachRule<selectAndScatterFamily, selectAndScatterFacts, SelectAndScatterOp>(
      context);
  attachRule<ScaleFamily::Product, convolutionFacts<ConvolutionOp>,
             ConvolutionOp>(context);
  attachRule<ScaleFamily::Product, convolutionFacts<DynamicConvOp>,
             DynamicConvOp>(context);
}
