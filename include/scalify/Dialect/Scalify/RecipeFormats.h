//===- RecipeFormats.h - The parts of a recipe ------------------*- C++ -*-===//
//
// The components of the recipe attribute: formats of operands by the role of a
// dot in the model, exceptions by name, and formats of state.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_SCALIFY_RECIPEFORMATS_H
#define SCALIFY_DIALECT_SCALIFY_RECIPEFORMATS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/Hashing.h"

#include <algorithm>
#include <array>
#include <optional>

namespace scalify {

/// The formats of a dot's operands, by the phase that produced the operand.
/// Null stands for the recipe's own `forward` and `gradient`; f32 keeps an
/// operand, and with it the dot, wide.
struct DotFormats {
  mlir::Type forward, gradient;

  bool operator==(const DotFormats &other) const {
    return forward == other.forward && gradient == other.gradient;
  }
  bool operator!=(const DotFormats &other) const { return !(*this == other); }
  /// For resolved formats.
  bool isWide() const { return forward.isF32() && gradient.isF32(); }
  /// Bits of the wider one, for resolved formats.
  unsigned getWidth() const {
    return std::max(forward.getIntOrFloatBitWidth(),
                    gradient.getIntOrFloatBitWidth());
  }
};

inline llvm::hash_code hash_value(const DotFormats &formats) {
  return llvm::hash_combine(formats.forward, formats.gradient);
}

/// A recipe's list of formats has one entry per role, one per kind of dot, one
/// for dots that FP8 would make slower, and one for sensitive dots. Null
/// entries after those of the roles change nothing.
inline constexpr unsigned kFirstKind = 10;
inline constexpr unsigned kNumDotKinds = 3;
inline constexpr unsigned kUnprofitable = kFirstKind + kNumDotKinds;
inline constexpr unsigned kSensitive = kUnprofitable + 1;
inline constexpr unsigned kNumFormats = kSensitive + 1;

enum class Accumulation : uint32_t;

/// The accumulation of dots on FP8 data, by their kind. The default is the
/// first case, fast, in the forward and the second, precise, for gradients.
struct DotSums {
  std::array<Accumulation, kNumDotKinds> kinds = {
      Accumulation{}, Accumulation{1}, Accumulation{1}};

  bool operator==(const DotSums &other) const { return kinds == other.kinds; }
};

inline llvm::hash_code hash_value(const DotSums &sums) {
  return llvm::hash_combine_range(sums.kinds.begin(), sums.kinds.end());
}

/// An exception for the dots whose name matches a regular expression: formats,
/// or accumulation.
struct FormatOverride {
  mlir::StringAttr pattern;
  DotFormats formats;
  std::optional<Accumulation> accumulation;

  bool operator==(const FormatOverride &other) const {
    return pattern == other.pattern && formats == other.formats &&
           accumulation == other.accumulation;
  }
};

inline llvm::hash_code hash_value(const FormatOverride &entry) {
  int64_t sums =
      entry.accumulation ? static_cast<int64_t>(*entry.accumulation) : -1;
  return llvm::hash_combine(entry.pattern, entry.formats, sums);
}

enum class RoundingMode : uint32_t;

/// Formats of state and of values kept across phases; null: as in the program.
struct StorageFormats {
  mlir::Type masters, firstMoments, secondMoments, saved;
  /// Format of partial activations or gradients that ranks sum.
  mlir::Type wire;
  /// Rounding of masters and moments; presets round stochastically.
  RoundingMode rounding = {};

  bool operator==(const StorageFormats &other) const {
    return masters == other.masters && firstMoments == other.firstMoments &&
           secondMoments == other.secondMoments && saved == other.saved &&
           wire == other.wire && rounding == other.rounding;
  }
};

inline llvm::hash_code hash_value(const StorageFormats &formats) {
  return llvm::hash_combine(formats.masters, formats.firstMoments,
                            formats.secondMoments, formats.saved, formats.wire,
                            static_cast<uint32_t>(formats.rounding));
}

enum class GradientScaling : uint32_t;

/// Formats of the gradients of weights between the backward and the optimizer.
struct GradientFormats {
  /// Formats of the gradients, and of the sums over micro-batches that loops
  /// carry; null: as in the program.
  mlir::Type stored, sum;
  /// Format of each rank's gradient before ranks sum them; null: unchanged.
  mlir::Type wire;
  /// The factor of a gradient before its cast; by default the first case, mu.
  GradientScaling scaling = {};
  /// The number of ranks that a leading dimension of a gradient simulates.
  int64_t ranks = 1;

  bool operator==(const GradientFormats &other) const {
    return stored == other.stored && sum == other.sum && wire == other.wire &&
           scaling == other.scaling && ranks == other.ranks;
  }
};

inline llvm::hash_code hash_value(const GradientFormats &formats) {
  return llvm::hash_combine(formats.stored, formats.sum, formats.wire,
                            static_cast<uint32_t>(formats.scaling),
                            formats.ranks);
}

/// Sizes of the blocks that each have a scale, along the minor-most free and
/// the minor-most contracting dimension of a dot's operand; 0 spans all
/// dimensions of its kind.
struct BlockSizes {
  /// For activations and gradients, and for weights.
  std::array<int64_t, 2> data = {1, 128}, weights = {128, 128};

  bool operator==(const BlockSizes &other) const {
    return data == other.data && weights == other.weights;
  }
};

inline llvm::hash_code hash_value(const BlockSizes &sizes) {
  return llvm::hash_combine(sizes.data[0], sizes.data[1], sizes.weights[0],
                            sizes.weights[1]);
}

enum class HistoryUse : uint32_t;

/// Computation of scales from the amaxes of earlier steps.
struct DelayedScaling {
  /// The number of steps.
  int64_t history = 16;
  /// The amax that is used; by default the first case, the largest.
  HistoryUse use = {};
  /// Binades left free above the amax.
  int64_t margin = 0;

  bool operator==(const DelayedScaling &other) const {
    return history == other.history && use == other.use &&
           margin == other.margin;
  }
};

inline llvm::hash_code hash_value(const DelayedScaling &delayed) {
  return llvm::hash_combine(delayed.history, static_cast<uint32_t>(delayed.use),
                            delayed.margin);
}

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_RECIPEFORMATS_H
