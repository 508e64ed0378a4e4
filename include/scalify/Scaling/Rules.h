//===- Rules.h - Attaching scale rules to ops -------------------*- C++ -*-===//
//
// A rule is a family (how the op computes on scaled data) and a function from
// the operands' facts to the results'. A family of ops is one line:
//
//   attachRule<ScaleFamily::Pass, passFacts, NegOp, ReshapeOp>(context);
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_SCALING_RULES_H
#define SCALIFY_SCALING_RULES_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

using FactsFunction = void (*)(const FactsQuery &,
                               llvm::MutableArrayRef<ScaleFacts>);

template <ScaleFamily Family, FactsFunction Facts, typename OpTy>
struct ScaleRule
    : ScaleRuleInterface::ExternalModel<ScaleRule<Family, Facts, OpTy>, OpTy> {
  ScaleFamily getScaleFamily(mlir::Operation *) const { return Family; }
  void inferFacts(mlir::Operation *, const FactsQuery &query,
                  llvm::MutableArrayRef<ScaleFacts> results) const {
    Facts(query, results);
  }
};

template <ScaleFamily Family, FactsFunction Facts, typename... Ops>
void attachRule(mlir::MLIRContext *context) {
  (Ops::template attachInterface<ScaleRule<Family, Facts, Ops>>(*context), ...);
}

/// Attaches every rule of `lib/Scaling/Rules` when its dialect loads.
void registerScaleRules(mlir::DialectRegistry &registry);

// One per file of lib/Scaling/Rules.
void attachElementwiseRules(mlir::MLIRContext *context);
void attachShapeRules(mlir::MLIRContext *context);
void attachReduceRules(mlir::MLIRContext *context);
void attachDotRules(mlir::MLIRContext *context);

/// The value behind ops that change only its shape, or clamp it against a
/// constant: broadcasts, reshapes, converts, barriers, max(x, constant).
mlir::Value peelToSource(mlir::Value value);

/// The number of elements of a ranked tensor of static shape.
double countElements(mlir::Value value);

} // namespace scalify

#endif // SCALIFY_SCALING_RULES_H
