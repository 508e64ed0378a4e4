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

/// What a dimension of a tensor of an attention is.
enum class Axis : uint8_t { Batch, KeyHead, Group, Query, Key, Channel };
using Axes = llvm::SmallVector<Axis>;

/// Where an operand's elements lie, by axis; an axis that it does not have is
/// one of size 1.
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

/// A dot of the pattern whose result is one of the attention's, or the
/// gradient of one of its operands.
struct AttentionDot {
  stablehlo::DotGeneralOp op;
  AttentionOperand operand; // beside the weights or their gradient
  Axes axes;                // of the dot's result
  double factor = 1;        // the dot's result is this times the attention's
};

struct AttentionGradient {
  stablehlo::DotGeneralOp weights; // gradient of the weights: grad v^T
  AttentionOperand grad, v;
  AttentionDot q, k, values; // the dots that make the gradients
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

/// The attention whose softmax ends in `weights`. With `why` set in its place,
/// the softmax is that of an attention, but one that no library has; with
/// neither it is none.
std::optional<AttentionPattern> matchAttention(stablehlo::DivOp weights,
                                               std::string &why);

/// The number that all elements are, where it is known now.
std::optional<double> getSplatNumber(mlir::Value value);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_ATTENTIONPATTERN_H
