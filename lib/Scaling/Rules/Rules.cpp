//===- Rules.cpp - Registration and shared parts of the rules -------------===//

#include "scalify/Scaling/Rules.h"

#include "Hints.h"
#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/DialectRegistry.h"

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
