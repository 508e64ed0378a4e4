//===- ScaleRuleInterface.td - Scaling rules of ops --------*- tablegen -*-===//

#ifndef SCALE_RULE_INTERFACE_TD
#define SCALE_RULE_INTERFACE_TD

include "mlir/IR/OpBase.td"

def ScaleRuleInterface : OpInterface<"ScaleRuleInterface"> {
  let cppNamespace = "::scalify";
  let description = [{
    The rule by which an op carries scales. External models
    (`lib/Scaling/Rules`) attach it to the ops of the input dialects, so that
    these are independent of scaling. A rule has two parts: `inferFacts`
    computes facts of the results, and the family maps scales of operands to
    scales of results.
  }];
  let methods = [
    InterfaceMethod<"how the op maps scales of operands to results",
      "::scalify::ScaleFamily", "getScaleFamily", (ins)>,
    StaticInterfaceMethod<[{
        The family's name, for the table of rules: "by operands" if it differs
        between instances of the op.
      }],
      "::llvm::StringRef", "describeFamily", (ins)>,
    InterfaceMethod<[{
        Computes the facts of the results from those of the operands, in operand
        order. `results` has one entry per result of the op.
      }],
      "void", "inferFacts",
      (ins "const ::scalify::FactsQuery &":$query,
           "::llvm::MutableArrayRef<::scalify::ScaleFacts>":$results)>
  ];
}

#endif // SCALE_RULE_INTERFACE_TD
