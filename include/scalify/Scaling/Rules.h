//===- Rules.h - Attaching scale rules to ops -------------------*- C++ -*-===//
//
// A rule is a family (how a scale moves through the op) and a function from
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

using FamilyFunction = ScaleFamily (*)(mlir::Operation *);

template <ScaleFamily Family, FactsFunction Facts, typename OpTy>
struct ScaleRule
    : ScaleRuleInterface::ExternalModel<ScaleRule<Family, Facts, OpTy>, OpTy> {
  ScaleFamily getScaleFamily(mlir::Operation *) const { return Family; }
  static llvm::StringRef describeFamily() {
    return stringifyScaleFamily(Family);
  }
  void inferFacts(mlir::Operation *, const FactsQuery &query,
                  llvm::MutableArrayRef<ScaleFacts> results) const {
    Facts(query, results);
  }
};

/// The rule of an op whose family depends on its operands or its region.
template <FamilyFunction Family, FactsFunction Facts, typename OpTy>
struct VaryingScaleRule
    : ScaleRuleInterface::ExternalModel<VaryingScaleRule<Family, Facts, OpTy>,
                                        OpTy> {
  ScaleFamily getScaleFamily(mlir::Operation *op) const { return Family(op); }
  static llvm::StringRef describeFamily() { return "by operands"; }
  void inferFacts(mlir::Operation *, const FactsQuery &query,
                  llvm::MutableArrayRef<ScaleFacts> results) const {
    Facts(query, results);
  }
};

template <ScaleFamily Family, FactsFunction Facts, typename... Ops>
void attachRule(mlir::MLIRContext *context) {
  (Ops::template attachInterface<ScaleRule<Family, Facts, Ops>>(*context), ...);
}

template <FamilyFunction Family, FactsFunction Facts, typename... Ops>
void attachRule(mlir::MLIRContext *context) {
  (Ops::template attachInterface<VaryingScaleRule<Family, Facts, Ops>>(
       *context),
   ...);
}

/// Attaches every rule of `lib/Scaling/Rules` when its dialect loads.
void registerScaleRules(mlir::DialectRegistry &registry);

// One per file of lib/Scaling/Rules.
void attachArithmeticRules(mlir::MLIRContext *context);
void attachFunctionRules(mlir::MLIRContext *context);
void attachMaskRules(mlir::MLIRContext *context);
void attachShapeRules(mlir::MLIRContext *context);
void attachReduceRules(mlir::MLIRContext *context);
void attachWindowRules(mlir::MLIRContext *context);
void attachDotRules(mlir::MLIRContext *context);
void attachRaggedDotRules(mlir::MLIRContext *context);
void attachCollectiveRules(mlir::MLIRContext *context);
void attachNumericRules(mlir::MLIRContext *context);
void attachEntries(mlir::MLIRContext *context);
void attachSdyRules(mlir::MLIRContext *context);
void attachCHLORules(mlir::MLIRContext *context);

/// Writes the table of rules, a line per op: its name, a tab, its family, or
/// MISSING. Fails if an op of the input language has neither a rule nor an
/// entry that says why not.
llvm::LogicalResult listScaleRules(mlir::MLIRContext &context,
                                   llvm::raw_ostream &os);

struct TermCount;
/// The reduction of `n` elements by a body's only op (null: unknown).
ScaleFacts reductionOf(const ScaleFacts &x, mlir::Operation *body,
                       const TermCount &n);
std::string describeReduction(mlir::Operation *op, mlir::Operation *body,
                              double n);

/// The number of elements whose maximum is subtracted from them, or nothing
/// if `value` is not x - max(x): such a difference is never positive.
std::optional<double> getWidthBelowMaximum(mlir::Value value);

/// Replaces the facts of an op that ends a known expression (a norm, a softmax,
/// GELU, ..) by those of the whole; returns whether it did.
bool inferCompositeFacts(const FactsQuery &query,
                         llvm::MutableArrayRef<ScaleFacts> results);

/// The value behind ops that change only its shape, or clamp it against a
/// constant: broadcasts, reshapes, converts, barriers, max(x, constant).
mlir::Value peelToSource(mlir::Value value);

/// The number of elements of a ranked tensor of static shape.
double countElements(mlir::Value value);
/// The same along some of its dimensions.
double countElements(mlir::Value value, llvm::ArrayRef<int64_t> dims);

} // namespace scalify

#endif // SCALIFY_SCALING_RULES_H
