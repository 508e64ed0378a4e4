//===- Rules.cpp - Registration and shared parts of the rules -------------===//

#include "scalify/Scaling/Rules.h"

#include "Hints.h"
#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;

void scalify::registerScaleRules(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *context, stablehlo::StableHLODialect *) {
        attachArithmeticRules(context);
        attachFunctionRules(context);
        attachMaskRules(context);
        attachShapeRules(context);
        attachReduceRules(context);
        attachWindowRules(context);
        attachDotRules(context);
        attachCollectiveRules(context);
        attachNumericRules(context);
        attachEntries(context);
      });
  registry.addExtension(+[](MLIRContext *context, chlo::CHLODialect *) {
    attachCHLORules(context);
  });
  registry.addExtension(+[](MLIRContext *context, sdy::SdyDialect *) {
    attachSdyRules(context);
  });
  registry.addExtension(+[](MLIRContext *context, ScalifyDialect *) {
    attachHintRules(context);
  });
}

static constexpr Move kSourceMoves =
    Move::Broadcast | Move::Reshape | Move::Convert | Move::Barrier;

Value scalify::peelToSource(Value value) {
  value = lookThrough(value, kSourceMoves);
  auto max = value.getDefiningOp<stablehlo::MaxOp>();
  for (unsigned i : {0, 1})
    if (max && matchPattern(max->getOperand(i), m_Constant()))
      return peelToSource(max->getOperand(1 - i));
  return value;
}

double scalify::countElements(Value value) {
  return static_cast<double>(
      cast<RankedTensorType>(value.getType()).getNumElements());
}

double scalify::countElements(Value value, ArrayRef<int64_t> dims) {
  auto type = cast<RankedTensorType>(value.getType());
  double size = 1;
  for (int64_t dim : dims)
    size *= static_cast<double>(type.getDimSize(dim));
  return size;
}
