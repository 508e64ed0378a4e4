//===- DotFormats.h - The formats that a recipe gives a dot -----*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_DOTFORMATS_H
#define SCALIFY_LIB_PRECISION_DOTFORMATS_H

#include "ExceptionPatterns.h"
#include "scalify/Precision/DotLayers.h"

namespace scalify {

/// Applies a recipe's roles and exceptions to the dots of a function.
class DotFormatChooser {
public:
  DotFormatChooser(RecipeAttr recipe, mlir::FunctionOpInterface func,
                   ExceptionPatterns &exceptions);

  /// Null if the recipe wants the dot narrow.
  DecisionAttr getReasonToStayWide(mlir::Operation *dot) const;
  /// The format of an operand of the dot, by the phase that made it.
  mlir::Type getOperandFormat(mlir::Operation *dot, mlir::Value operand) const;

  /// Why a dot that could be FP8 gets other formats by a model, with its
  /// figures; else null.
  DecisionAttr getJudgement(mlir::Operation *dot) const;
  /// How a dot on FP8 data is summed where that is not what its phase has; else
  /// null.
  AccumulationAttr getAccumulation(mlir::Operation *dot) const;
  DotRole getRole(mlir::Operation *dot) const {
    return choices.find(dot)->second.role;
  }
  const DotLayers &getLayers() const { return layers; }
  /// Whether the dot makes the gradient of a weight in a role that the recipe
  /// casts.
  bool makesCastGradient(mlir::Operation *dot) const;

private:
  struct Choice {
    DotFormats formats;
    /// What the choice is by: a role, a kind, "name", "unprofitable" or
    /// "sensitive".
    std::string reason;
    /// The part of the recipe that made the choice, as it is written there.
    std::string part;
    DotRole role;
    /// What a model says of a dot that therefore gets other formats.
    std::string judgement;
    Accumulation accumulation;
  };
  Choice choose(mlir::Operation *dot, ExceptionPatterns &exceptions) const;
  DotRole findRole(mlir::Operation *dot) const;
  bool isFloat8(mlir::Operation *dot) const;
  void replaceFormats(mlir::Operation *dot, DotFormats formats,
                      llvm::StringRef part, const std::string &why);
  void judgeCost(mlir::FunctionOpInterface func);
  void judgeNoise(mlir::FunctionOpInterface func);
  void takePlainForm(mlir::FunctionOpInterface func);

  RecipeAttr recipe;
  DotRoles roles;
  DotLayers layers;
  llvm::DenseMap<mlir::Operation *, Choice> choices;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DOTFORMATS_H
