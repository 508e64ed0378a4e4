//===- CastScales.h - Scales of casts from outside --------------*- C++ -*-===//

#ifndef SCALIFY_PRECISION_CASTSCALES_H
#define SCALIFY_PRECISION_CASTSCALES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include <string>

namespace scalify {

/// Which cast of a program: it is found again after a compilation by all three.
struct CastPlace {
  /// The cast's name in the report, "c12: add".
  std::string cast;
  /// How many elements it casts.
  int64_t elements = 0;
  /// JAX's names of the place, as `getNameStack` gives them.
  std::string names;
};

/// The scale that a calibration measured for one cast.
struct CastScale : CastPlace {
  int32_t exponent = 0;
};

/// One cast that an earlier run found to clip, and that is left out.
struct WideCast : CastPlace {
  /// What was counted: "12.5 % of the values saturated".
  std::string reason;
};

/// Tells `scalify-quantize` what to leave wide, by an attribute of the module.
void setWideCasts(mlir::ModuleOp module, llvm::ArrayRef<WideCast> casts);

/// Puts measured constants in place of the propagated ones. Fails, naming the
/// cast, where the calibration is of another program. If some casts were left
/// wide since it was made, it may have entries for them.
llvm::LogicalResult applyCastScales(mlir::ModuleOp module,
                                    llvm::ArrayRef<CastScale> scales,
                                    bool someAreWide = false);

/// Whether the scale of a cast is one that `applyCastScales` put there.
bool isCalibrated(QuantizeOp cast);

/// The argument of main that `scalify-adapt-scales` appends.
inline constexpr llvm::StringLiteral kCastScalesName = "scalify.scales";
/// On that argument, log2 of the scales that the code was made with: a dense
/// array of i32.
inline constexpr llvm::StringLiteral kInitialAttr = "scalify.initial";
/// On that argument, the names of the casts in the order of the entries.
inline constexpr llvm::StringLiteral kCastsAttr = "scalify.casts";
/// The argument and the result of main that `scalify-delay-scales` appends.
inline constexpr llvm::StringLiteral kAmaxHistoryName = "scalify.amax_history";
/// The argument and the result of main that `scalify-carry-scales` appends.
inline constexpr llvm::StringLiteral kCarriedScalesName =
    "scalify.carried_scales";
/// On a cast: steps hand on its scale.
inline constexpr llvm::StringLiteral kCarriedAttr = "scalify.carried";
/// The function that moves scales between two steps.
inline constexpr llvm::StringLiteral kRescaleFunction = "rescale";

/// Marks the casts whose scales steps shall hand on: those whose values may
/// grow or shrink, as far as they can be carried. Does nothing where scales are
/// not propagated.
void markCarriedCasts(mlir::ModuleOp module);

/// Says how many casts keep constants that their values may outgrow, and why.
void remarkOnStaticCasts(mlir::ModuleOp module);

/// How a cast comes by its scale, for reports: "proved", a constant that it
/// cannot outgrow; "static", one that it may; "carried" from step to step;
/// "measured" in the step.
llvm::StringRef describeScaling(QuantizeOp cast);

} // namespace scalify

#endif // SCALIFY_PRECISION_CASTSCALES_H
