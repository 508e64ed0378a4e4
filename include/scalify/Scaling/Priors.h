//===- Priors.h - Guesses about training ------------------------*- C++ -*-===//
//
// A rule derives facts from the moments of operands. A prior is a guess about
// training that nothing in the program implies, such as the size of a weight
// that starts at zero. Each prior is a row of one table, with a name, a
// constant and the reason for it. A recipe selects priors;
// docs/research/priors.md lists the effect of each.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_SCALING_PRIORS_H
#define SCALIFY_SCALING_PRIORS_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace scalify {

/// On a module: the names of the priors in use, in place of its recipe's.
inline constexpr llvm::StringLiteral kPriorsAttr = "scalify.priors";

/// On an op, a hint or a cast: its scale depends on priors. It is another one
/// with all priors than without any, whichever are in use, or with integer
/// arguments of another size.
inline constexpr llvm::StringLiteral kByPriorAttr = "scalify.by_prior";

struct Prior {
  llvm::StringLiteral name;
  /// The guess, in words.
  llvm::StringLiteral predicts;
  double constant;
  /// The reason for the constant.
  llvm::StringLiteral reason;
  /// Refines the facts that a rule inferred for an op with one result. Returns
  /// whether the prior applies to the op.
  bool (*refine)(const FactsQuery &query, double constant,
                 ScaleFacts &facts) = nullptr;
};

/// A parameter that starts at zero is assumed to have the constant's size.
extern const Prior kZeroParameters;
/// Before it is measured, and after training, a weight is assumed to keep the
/// size of its input: its size is the constant over the square root of its
/// width.
extern const Prior kUnitGain;
/// Of N elements of a softmax, N to the power of the constant matter.
extern const Prior kSharpSoftmax;
/// A loop's carry with a bound comes to fill this share of it.
extern const Prior kBoundedCarries;
/// The mean square of a regression's residual falls to that of its target over
/// the constant.
extern const Prior kFallingResiduals;

/// Returns all priors, in the order of the table.
llvm::ArrayRef<const Prior *> getPriors();

/// The priors that a module uses.
class Priors {
public:
  /// Returns the priors of the module around `op`; all of them if neither the
  /// module nor its recipe specifies priors.
  static Priors of(mlir::Operation *op);
  static Priors all();
  static Priors none() { return {}; }

  bool operator==(const Priors &other) const { return used == other.used; }

  /// Returns the constant of a prior if it is used.
  std::optional<double> get(const Prior &prior) const {
    if (!used.contains(&prior))
      return std::nullopt;
    wasAsked = true;
    return prior.constant;
  }
  /// True if a constant was returned or an op's facts were refined: without, an
  /// analysis with these priors is one without any.
  bool mayMatter() const { return wasAsked; }

  /// Applies the first used prior that matches the op to its result's facts.
  void refine(const FactsQuery &query, ScaleFacts &facts) const;

private:
  llvm::SmallPtrSet<const Prior *, 4> used;
  mutable bool wasAsked = false;
};

/// Enlarges a state that comes to fill `share` of its bound, by
/// kBoundedCarries.
void enlargeTowardsBound(ScaleFacts &state, double share);

/// Fails if the module or its recipe names an unknown prior.
mlir::LogicalResult verifyPriors(mlir::ModuleOp module);

/// Makes the module use the priors of these names in place of its recipe's.
/// Fails if one is unknown.
mlir::LogicalResult setPriors(mlir::ModuleOp module,
                              llvm::ArrayRef<std::string> names);

} // namespace scalify

#endif // SCALIFY_SCALING_PRIORS_H
