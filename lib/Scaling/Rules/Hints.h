//===- Hints.h - Rules of the user's marks of scales ------------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_HINTS_H
#define SCALIFY_LIB_SCALING_RULES_HINTS_H

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace scalify {

/// Attaches the rules of `scalify.override_scale` and the like.
void attachHintRules(mlir::MLIRContext *context);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_HINTS_H
