//===- MomentFormats.h - Formats of an optimizer's moments ------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_MOMENTFORMATS_H
#define SCALIFY_DIALECT_SCALIFY_MOMENTFORMATS_H

#include "scalify/Dialect/Scalify/RecipeFormats.h"

#include "mlir/IR/TypeRange.h"

namespace scalify {

/// What `StorageFormats::moments` holds: one type where both are the same, else
/// a tuple, in which `none` stands for as the program has it.
struct MomentFormats {
  mlir::Type first, second;

  static MomentFormats of(mlir::Type moments) {
    auto pair = llvm::dyn_cast_or_null<mlir::TupleType>(moments);
    if (!pair)
      return {moments, moments};
    auto get = [&](unsigned index) {
      mlir::Type type = pair.getType(index);
      return llvm::isa<mlir::NoneType>(type) ? mlir::Type() : type;
    };
    return {get(0), get(1)};
  }

  mlir::Type join() const {
    if (first == second)
      return first;
    mlir::MLIRContext *context = (first ? first : second).getContext();
    mlir::Type given = mlir::NoneType::get(context);
    return mlir::TupleType::get(
        context, {first ? first : given, second ? second : given});
  }
};

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_MOMENTFORMATS_H
