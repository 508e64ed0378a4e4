//===- DotFormats.h - The formats that a recipe gives a dot -----*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_DOTFORMATS_H
#define SCALIFY_LIB_PRECISION_DOTFORMATS_H

#include "scalify/Precision/DotRoles.h"

namespace scalify {

/// Applies a recipe's roles and exceptions to the dots of a function.
class DotFormatChooser {
public:
  DotFormatChooser(RecipeAttr recipe, mlir::FunctionOpInterface func);

  /// Empty if the recipe wants the dot narrow.
  std::string getReasonToStayWide(mlir::Operation *dot) const;
  /// The format of an operand of the dot, by the phase that made it.
  mlir::Type getOperandFormat(mlir::Operation *dot, mlir::Value operand) const;

private:
  struct Choice {
    DotFormats formats;
    /// The part of the recipe that made the choice, as it is written there.
    std::string part;
    DotRole role;
  };
  void findWeights(mlir::FunctionOpInterface func);
  Choice choose(mlir::Operation *dot) const;

  RecipeAttr recipe;
  DotRoles roles;
  llvm::DenseMap<mlir::Operation *, mlir::Value> weights;
  llvm::DenseMap<mlir::Operation *, Choice> choices;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_DOTFORMATS_H
