//===- LargeConstants.cpp - Constants that a format cannot hold -----------===//
//
// The rules take a constant that is far from the data beside it for a mask,
// which sets no scale. If the constant reaches a dot, no function has consumed
// the mask: it is data, and no scale of one format holds both.
//
//===----------------------------------------------------------------------===//

#include "LargeConstants.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Returns the operands whose elements are elements of the result.
static SmallVector<Value> getParts(Operation *op) {
  if (auto select = dyn_cast<SelectOp>(op))
    return {select.getOnTrue(), select.getOnFalse()};
  if (isa<PadOp, ConcatenateOp>(op))
    return SmallVector<Value>(op->getOperands());
  if (auto update = dyn_cast<DynamicUpdateSliceOp>(op))
    return {update.getOperand(), update.getUpdate()};
  if (isa<ConvertOp, ReshapeOp, TransposeOp, SliceOp, BroadcastInDimOp,
          ReverseOp, NegOp, ScaleHintOp>(op))
    return {op->getOperand(0)};
  return {};
}

static double getLargestMagnitude(DenseFPElementsAttr elements) {
  double largest = 0;
  visitNumbers(elements, [&](double value) {
    if (std::isfinite(value))
      largest = std::max(largest, std::fabs(value));
  });
  return largest;
}

static double findLargestConstant(Value root) {
  double largest = 0;
  llvm::SetVector<Value> reached;
  reached.insert(root);
  for (size_t i = 0; i < reached.size(); ++i) {
    DenseFPElementsAttr elements;
    if (matchPattern(reached[i], m_Constant(&elements)))
      largest = std::max(largest, getLargestMagnitude(elements));
    else if (Operation *op = reached[i].getDefiningOp())
      reached.insert_range(getParts(op));
  }
  return largest;
}

DecisionAttr scalify::describeLargeConstant(ScaleHintOp hint,
                                            FloatType format) {
  std::optional<int64_t> exponent = getScaleExponent(hint.getScale());
  double largest = findLargestConstant(hint.getValue());
  if (!exponent || std::ldexp(largest, -*exponent) <= getLargestFinite(format))
    return {};
  std::string name;
  llvm::raw_string_ostream(name) << format;
  return DecisionAttr::get(
      hint.getContext(), "constant",
      llvm::formatv("{0:E2} is among the elements of an operand and "
                    "saturates in {1} at scale 2^{2}; keep it out of the "
                    "operand, or leave this dot wide by name",
                    largest, name, *exponent)
          .str());
}
