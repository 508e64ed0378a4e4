//===- AttentionPattern.h - Dots around a softmax ---------------*- C++ -*-===//
//
// Finds softmax(q k^T * scale) v and its gradients in a graph of StableHLO.
// Every tensor of the pattern has its dimensions named, so that transposes and
// the order of a dot's operands do not matter.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_FUSION_ATTENTIONPATTERN_H
#define SCALIFY_LIB_FUSION_ATTENTIONPATTERN_H

#include "StridedView.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <array>
#include <string>

namespace scalify {

/// The role of a dimension of a tensor of an attention.
enum class Axis : uint8_t { Batch, KeyHead, Group, Query, Key, Channel };
using Axes = llvm::SmallVector<Axis>;

/// The memory layout of an operand, by axis; an axis that it does not have has
/// size 1.
struct AttentionOperand {
  mlir::Value base;
  int64_t offset = 0;
  std::array<Dim, 6> dims = {Dim{1, 0}, Dim{1, 0}, Dim{1, 0},
                             Dim{1, 0}, Dim{1, 0}, Dim{1, 0}};

  Dim &operator[](Axis axis) { return dims[static_cast<size_t>(axis)]; }
  const Dim &operator[](Axis axis) const {
    return dims[static_cast<size_t>(axis)];
  }
  bool operator==(const AttentionOperand &other) const;
};

/// A dot of the pattern that computes the attention's result, or the gradient
/// of one of its operands.
struct AttentionDot {
  stablehlo::DotGeneralOp op;
  AttentionOperand operand; // the one beside the weights or their gradient
  Axes axes;                // of the dot's result
  double factor = 1;        // the dot's result is this times the attention's
};

struct AttentionGradient {
  stablehlo::DotGeneralOp weights; // gradient of the weights: grad v^T
  AttentionOperand grad, v;
  AttentionDot q, k, values; // the dots that compute the gradients
};

struct AttentionPattern {
  stablehlo::DotGeneralOp scores;
  mlir::Type element; // of all operands in memory
  AttentionOperand q, k;
  double scale = 1;
  bool isCausal = false;
  std::optional<AttentionDot> mix; // the forward's result
  std::optional<AttentionGradient> gradient;
};

/// Returns the attention whose softmax ends in `weights`. If it is an attention
/// that no library has, returns none and sets `why` to the reason; if it is no
/// attention, returns none and leaves `why` empty.
std::optional<AttentionPattern> matchAttention(stablehlo::DivOp weights,
                                               std::string &why);

/// Returns the number that all elements equal, if it is a constant.
std::optional<double> getSplatNumber(mlir::Value value);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_ATTENTIONPATTERN_H
