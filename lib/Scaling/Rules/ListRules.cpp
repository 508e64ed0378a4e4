//===- ListRules.cpp - The table of rules ---------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/OperationSupport.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace scalify;

/// True for ops that carry scales through their regions instead of by a rule:
/// the analysis and the passes of this stage walk into them.
static bool isControlFlow(StringRef name) {
  return llvm::is_contained({"stablehlo.while", "stablehlo.case",
                             "stablehlo.if", "sdy.manual_computation"},
                            name);
}

LogicalResult scalify::listScaleRules(MLIRContext &context,
                                      llvm::raw_ostream &os) {
  context.getOrLoadDialect<stablehlo::StableHLODialect>();
  context.getOrLoadDialect<chlo::CHLODialect>();
  context.getOrLoadDialect<sdy::SdyDialect>();
  bool isComplete = true;
  for (RegisteredOperationName name : context.getRegisteredOperations()) {
    if (!llvm::is_contained({"stablehlo", "chlo", "sdy"},
                            name.getDialectNamespace()))
      continue;
    auto *rule = name.getInterface<ScaleRuleInterface>();
    StringRef family = "MISSING";
    if (rule)
      family = rule->describeFamily();
    else if (isControlFlow(name.getStringRef()))
      family = "Regions";
    else if (name.getDialectNamespace() == "chlo")
      family = "Expanded"; // by Import
    else
      isComplete = false;
    os << name.getStringRef() << "\t" << family << "\n";
  }
  return success(isComplete);
}
