//===- RangeProofs.h - Range proofs of casts --------------------*- C++ -*-===//

#ifndef SCALIFY_SCALING_RANGEPROOFS_H
#define SCALIFY_SCALING_RANGEPROOFS_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Scaling/RangeAnalysis.h"

namespace scalify {

/// On a cast (`scalify.scale_hint`, later `scalify.quantize`): no element
/// saturates in the format. A dictionary: `bound` on |x|, `data` = bound /
/// scale, `format`, and `assumed`, the names of the arguments whose ranges the
/// proof assumes.
inline constexpr llvm::StringLiteral kProvedAttr = "scalify.proved";
/// The same without a proof, with the `reason`: the op that prevents it.
inline constexpr llvm::StringLiteral kUnprovedAttr = "scalify.unproved";
/// On the module: the declared ranges that proofs assume.
inline constexpr llvm::StringLiteral kAssumptionsAttr = "scalify.assumptions";
/// On every op under `annotate=all`: one dictionary per result.
inline constexpr llvm::StringLiteral kRangesAttr = "scalify.ranges";

/// The result of the range analysis for one cast.
struct RangeProof {
  double bound = RangeState::infinity();
  /// The bound divided by the scale.
  double data = RangeState::infinity();
  bool isProved = false;
  mlir::FloatType format;
  /// The arguments whose declared ranges the bound assumes.
  llvm::SmallVector<mlir::BlockArgument> assumed;
  /// Why there is no proof, and the value at which the bound is lost.
  std::string reason;
  mlir::Value lostAt;

  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context) const;
};

/// Tries to prove that `value / scale` fits `format`.
RangeProof proveCast(const ModuleRanges &ranges, mlir::Value value,
                     std::optional<double> scale, mlir::FloatType format);

/// Returns a state as a dictionary, for tests and readers.
mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context,
                                 const RangeState &state);

/// Moves the proof of `hint` to the quantizing cast that `operand`, the hint's
/// replacement, comes from.
void moveProof(mlir::Operation *hint, mlir::Value operand);
/// Updates the proof of `cast` to its current scale and format.
void updateProof(QuantizeOp cast);
/// Returns the format for the value of `hint`: `wanted`, or E5M2 if the bound
/// fits only E5M2.
mlir::FloatType chooseFormat(mlir::Operation *hint, mlir::FloatType wanted);
/// Returns why `hint` is not proved to fit the format of `chooseFormat`; empty
/// if it is proved.
std::string getReasonUnproved(mlir::Operation *hint, mlir::FloatType wanted);
/// Returns one line for the report; empty if the op was not analysed.
std::string describeProof(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_SCALING_RANGEPROOFS_H
