//===- ScaleRuleInterface.td - How an op carries scales ----*- tablegen -*-===//

#ifndef SCALE_RULE_INTERFACE_TD
#define SCALE_RULE_INTERFACE_TD

include "mlir/IR/OpBase.td"

def ScaleRuleInterface : OpInterface<"ScaleRuleInterface"> {
  let cppNamespace = "::scalify";
  let description = [{
    The rule by which an op carries scales. It is attached to the ops of the
    input language by external models (`lib/Scaling/Rules`), so that those
    dialects know nothing of scaling. A rule has two halves: `inferFacts` says
    what is known of the results, and the family says how a scale moves through
    the op.
  }];
  let methods = [
    InterfaceMethod<"how a scale moves through the op",
      "::scalify::ScaleFamily", "getScaleFamily", (ins)>,
    StaticInterfaceMethod<[{
        The family in words, for the table of rules: "by operands" where it is
        not the same for every instance of the op.
      }],
      "::llvm::StringRef", "describeFamily", (ins)>,
    InterfaceMethod<[{
        The facts of the results from those of the operands, in operand order.
        `results` has one entry per result of the op.
      }],
      "void", "inferFacts",
      (ins "const ::scalify::FactsQuery &":$query,
           "::llvm::MutableArrayRef<::scalify::ScaleFacts>":$results)>
  ];
}

#endif // SCALE_RULE_INTERFACE_TD
