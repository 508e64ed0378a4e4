//===- RangeProofs.h - What the range analysis proves of casts --*- C++ -*-===//

#ifndef SCALIFY_SCALING_RANGEPROOFS_H
#define SCALIFY_SCALING_RANGEPROOFS_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Scaling/RangeAnalysis.h"

namespace scalify {

/// On a cast (`scalify.scale_hint`, later `scalify.quantize`): no element
/// saturates in the format. A dictionary: `bound` on |x|, `data` = bound /
/// scale, `format`, and the names of the arguments that are `assumed`.
inline constexpr llvm::StringLiteral kProvedAttr = "scalify.proved";
/// The same without a proof, with the `reason`: the op that spoils it.
inline constexpr llvm::StringLiteral kUnprovedAttr = "scalify.unproved";
/// On the module: the declared ranges that proofs rest on.
inline constexpr llvm::StringLiteral kAssumptionsAttr = "scalify.assumptions";
/// On every op under `annotate=all`: one dictionary per result.
inline constexpr llvm::StringLiteral kRangesAttr = "scalify.ranges";

/// What a range analysis says of one cast.
struct RangeProof {
  double bound = RangeState::infinity();
  /// The bound divided by the scale.
  double data = RangeState::infinity();
  bool isProved = false;
  mlir::FloatType format;
  /// The arguments whose declared ranges the bound rests on.
  llvm::SmallVector<mlir::BlockArgument> assumed;
  /// Why there is no proof, and the value that is to blame.
  std::string reason;
  mlir::Value spoiler;

  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context) const;
};

/// Whether `value / scale` fits `format`.
RangeProof proveCast(const ModuleRanges &ranges, mlir::Value value,
                     std::optional<double> scale, mlir::FloatType format);

/// A state as a dictionary, for tests and for reading.
mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context,
                                 const RangeState &state);

/// Hands the proof of `hint` on to the quantizing cast that `operand`, what
/// takes its place, comes from.
void moveProof(mlir::Operation *hint, mlir::Value operand);
/// Makes the proof of `cast` one for the scale and format that it has now.
void updateProof(QuantizeOp cast);
/// The format for the value of `hint`: `wanted`, or E5M2 if its bound fits only
/// that.
mlir::FloatType chooseFormat(mlir::Operation *hint, mlir::FloatType wanted);
/// Why `hint` is not proved to fit what `chooseFormat` gives; empty if it is.
std::string getReasonUnproved(mlir::Operation *hint, mlir::FloatType wanted);
/// One line for the report; empty where nothing was analysed.
std::string describeProof(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_SCALING_RANGEPROOFS_H
