//===- Rules.h - Attaching scale rules to ops -------------------*- C++ -*-===//
//
// A rule is a family (how a scale moves through the op) and a function from the
// operands' facts to the results' facts. One line attaches a rule to several
// ops:
//
//   attachRule<ScaleFamily::Pass, passFacts, NegOp, ReshapeOp>(context);
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_SCALING_RULES_H
#define SCALIFY_SCALING_RULES_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Idioms/Rows.h"

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

/// A rule whose family depends on the op's operands or region.
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

/// Registers every rule of `lib/Scaling/Rules`, attached when dialects load.
void registerScaleRules(mlir::DialectRegistry &registry);

// Each attaches the rules that a file of lib/Scaling/Rules has for a dialect.
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

/// Writes the rule table, one line per op: its name, a tab, and its family or
/// MISSING. Fails if an op of the input language has neither a rule nor an
/// entry that gives a reason.
llvm::LogicalResult listScaleRules(mlir::MLIRContext &context,
                                   llvm::raw_ostream &os);

struct TermCount;
/// Returns the facts of a reduction of `n` elements by the only op of its body
/// (null: unknown).
ScaleFacts reductionOf(const ScaleFacts &x, mlir::Operation *body,
                       const TermCount &n);
std::string describeReduction(mlir::Operation *op, mlir::Operation *body,
                              double n);

/// If the op ends a known expression (a norm, a softmax, GELU, ..), replaces
/// its facts by those of the expression and returns true.
bool inferCompositeFacts(const FactsQuery &query,
                         llvm::MutableArrayRef<ScaleFacts> results);

} // namespace scalify

#endif // SCALIFY_SCALING_RULES_H
