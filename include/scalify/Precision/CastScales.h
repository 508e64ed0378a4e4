//===- CastScales.h - Calibrated, adaptive and carried scales ---*- C++ -*-===//

#ifndef SCALIFY_PRECISION_CASTSCALES_H
#define SCALIFY_PRECISION_CASTSCALES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include <string>

namespace scalify {

/// Identifies a cast across compilations: all three fields must match.
struct CastPlace {
  /// The cast's name in the report, e.g. "c12: add".
  std::string cast;
  /// The number of elements.
  int64_t elements = 0;
  /// JAX's name stack of the cast, from `getNameStack`.
  std::string names;
};

/// The scale that a calibration measured for a cast.
struct CastScale : CastPlace {
  int32_t exponent = 0;
};

/// A cast that clipped in an earlier run and is left out.
struct WideCast : CastPlace {
  /// The counts of that run, e.g. "12.5 % of the values saturated".
  std::string reason;
};

/// Sets the module attribute that names the casts for Precision to omit.
void setWideCasts(mlir::ModuleOp module, llvm::ArrayRef<WideCast> casts);

/// Replaces propagated scales by the constants of a calibration. Fails, naming
/// the cast, if the calibration is of another program. With `someAreWide`,
/// ignores entries for casts that this compilation omits.
llvm::LogicalResult applyCastScales(mlir::ModuleOp module,
                                    llvm::ArrayRef<CastScale> scales,
                                    bool someAreWide = false);

/// True if `applyCastScales` set the scale of the cast.
bool isCalibrated(QuantizeOp cast);

/// The argument of main that `scalify-adapt-scales` appends.
inline constexpr llvm::StringLiteral kCastScalesName = "scalify.scales";
/// On that argument: log2 of the constant scales that it replaces, a dense i32
/// array.
inline constexpr llvm::StringLiteral kInitialAttr = "scalify.initial";
/// On that argument and the two below: names of casts, in the order of entries.
inline constexpr llvm::StringLiteral kCastsAttr = "scalify.casts";
/// The argument and the result of main that `scalify-delay-scales` appends.
inline constexpr llvm::StringLiteral kAmaxHistoryName = "scalify.amax_history";
/// The argument and the result of main that `scalify-carry-scales` appends.
inline constexpr llvm::StringLiteral kCarriedScalesName =
    "scalify.carried_scales";
/// On a cast whose scale is carried across steps.
inline constexpr llvm::StringLiteral kCarriedAttr = "scalify.carried";
/// The function that moves scales between two steps.
inline constexpr llvm::StringLiteral kRescaleFunction = "rescale";

/// Marks the casts whose values may outgrow a constant scale, if their scale
/// can be carried. Does nothing unless the recipe's scales are propagated.
void markCarriedCasts(mlir::ModuleOp module);

/// Emits a remark with the number of casts that keep constants which their
/// values may outgrow, and the reason.
void remarkOnStaticCasts(mlir::ModuleOp module);

/// Returns the source of a cast's scale for reports: "proved", a constant that
/// the values cannot outgrow; "static", a constant that they may outgrow;
/// "carried" across steps; "measured" in the step.
llvm::StringRef describeScaling(QuantizeOp cast);

} // namespace scalify

#endif // SCALIFY_PRECISION_CASTSCALES_H
