//===- Priors.h - Guesses about training ------------------------*- C++ -*-===//
//
// A rule says what follows from the moments of operands. A prior is a guess
// about training that follows from nothing in the program: how large a weight
// is that starts at zero. Each is a row of one table with a name, a constant
// and the reason for it; a recipe says which of them are used, and
// docs/priors.md what each one moves.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_SCALING_PRIORS_H
#define SCALIFY_SCALING_PRIORS_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace scalify {

/// On a module: the priors in use, by name, in place of those of its recipe.
inline constexpr llvm::StringLiteral kPriorsAttr = "scalify.priors";

/// On an op, a hint or a cast: with all priors its scale is another than
/// without any.
inline constexpr llvm::StringLiteral kByPriorAttr = "scalify.by_prior";

struct Prior {
  llvm::StringLiteral name;
  /// What it says of training, in words.
  llvm::StringLiteral predicts;
  double constant;
  /// Why this constant.
  llvm::StringLiteral reason;
  /// Changes what the rule of an op with one result says of it, where the prior
  /// knows better.
  bool (*refine)(const FactsQuery &query, double constant,
                 ScaleFacts &facts) = nullptr;
};

/// A parameter that starts at zero counts as one of the constant's size.
extern const Prior kZeroParameters;
/// A weight whose size the step measures counts, until then, as one that keeps
/// the size of its input: the constant over the square root of its width.
extern const Prior kUnitGain;
/// Of the elements of a softmax, as many matter as this power of their number.
extern const Prior kSharpSoftmax;
/// A loop's carry that has a bound comes to fill this share of it.
extern const Prior kBoundedCarries;
/// The mean square of what a regression's output lacks of its target comes to
/// be one over the constant of the target's.
extern const Prior kFallingResiduals;

/// All priors, in the order of the table.
llvm::ArrayRef<const Prior *> getPriors();

/// Those that a module uses.
class Priors {
public:
  /// Of the module around `op`; all, where neither it nor its recipe says.
  static Priors of(mlir::Operation *op);
  static Priors all();
  static Priors none() { return {}; }

  bool operator==(const Priors &other) const { return used == other.used; }

  /// The constant of a prior that is used.
  std::optional<double> get(const Prior &prior) const {
    return used.contains(&prior) ? std::optional(prior.constant) : std::nullopt;
  }

  /// Has the priors say what they know of an op's result.
  void refine(const FactsQuery &query, ScaleFacts &facts) const;

private:
  llvm::SmallPtrSet<const Prior *, 4> used;
};

/// Room for a state that comes to fill `share` of its bound, by
/// kBoundedCarries.
void leaveRoomToBound(ScaleFacts &state, double share);

/// Fails for a name that no prior has.
mlir::LogicalResult verifyPriors(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_SCALING_PRIORS_H
