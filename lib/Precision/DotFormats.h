//===- DotFormats.h - Choose the formats of dots ----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_DOTFORMATS_H
#define SCALIFY_LIB_PRECISION_DOTFORMATS_H

#include "ExceptionPatterns.h"
#include "Moments.h"
#include "SensitiveDots.h"
#include "SolverLoops.h"
#include "scalify/Precision/DotLayers.h"

namespace scalify {

/// Applies a recipe's roles and exceptions to the dots of a function.
class DotFormatChooser {
public:
  DotFormatChooser(RecipeAttr recipe, mlir::FunctionOpInterface func,
                   ExceptionPatterns &exceptions, const NoiseOptions &noise);

  /// Returns null if the recipe casts the dot.
  DecisionAttr getReasonToStayWide(mlir::Operation *dot) const;
  /// Returns the format of an operand of the dot, which depends on the phase
  /// that produced the operand.
  mlir::Type getOperandFormat(mlir::Operation *dot, mlir::Value operand) const;

  /// Returns why a model gives other formats to a dot that could be FP8, with
  /// the model's figures; else null.
  DecisionAttr getJudgement(mlir::Operation *dot) const;
  /// Returns the accumulation of a dot on FP8 data if it differs from that of
  /// the dot's phase; else null.
  AccumulationAttr getAccumulation(mlir::Operation *dot) const;
  DotRole getRole(mlir::Operation *dot) const {
    return choices.find(dot)->second.role;
  }
  /// Returns std::nullopt for dots of the update.
  std::optional<DotKind> getKind(mlir::Operation *dot) const {
    return layers.getKind(dot);
  }
  mlir::Value getWeight(mlir::Operation *dot) const {
    return layers.getWeight(dot);
  }

private:
  struct Choice {
    DotFormats formats;
    /// The criterion of the choice: a role, a kind, "name", "unprofitable",
    /// "sensitive" or "sensitive_wide".
    std::string reason;
    /// The part of the recipe that made the choice, as it is written there.
    std::string part;
    DotRole role;
    /// The model's figures, if a model gave the dot other formats.
    std::string judgement;
    Accumulation accumulation;
  };
  Choice choose(mlir::Operation *dot, ExceptionPatterns &exceptions) const;
  DotRole findRole(mlir::Operation *dot) const;
  bool isFloat8(mlir::Operation *dot) const;
  double countNoise(mlir::Operation *dot, DotFormats formats) const;
  void replaceFormats(mlir::Operation *dot, DotFormats formats,
                      llvm::StringRef reason, const std::string &why);
  void judgeCost(mlir::FunctionOpInterface func);
  void judgeNoise(mlir::FunctionOpInterface func);
  void applyPlainDecisions(mlir::FunctionOpInterface func);

  RecipeAttr recipe;
  NoiseOptions noise;
  DotRoles roles;
  DotLayers layers;
  llvm::DenseMap<mlir::Operation *, Choice> choices;
  llvm::DenseSet<mlir::Operation *> moments, afterSolvers;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DOTFORMATS_H
