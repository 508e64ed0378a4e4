//===- StorageFormats.h - Formats of saved values and of state --*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_STORAGEFORMATS_H
#define SCALIFY_LIB_PRECISION_STORAGEFORMATS_H

#include "Caster.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Casts forward values that the backward reads, other than operands of dots
/// and statistics, to the recipe's `saved` format.
void castSavedValues(mlir::func::FuncOp func, RecipeAttr recipe,
                     Caster &caster);

/// Casts new parameters and moments to the recipe's formats before main returns
/// them. Without a key of random words rounds to nearest, with a remark.
void castState(mlir::func::FuncOp func, RecipeAttr recipe, Caster &caster,
               bool hasRoundingKey);

/// Casts gradients that the optimizer reads to the recipe's formats. Fails,
/// under `strict`, if a sum cannot have its format.
mlir::LogicalResult castGradients(mlir::func::FuncOp func, RecipeAttr recipe,
                                  Caster &caster, bool strict);

/// Casts partial products of activations to the recipe's format before ranks
/// sum them.
void castPartialProducts(mlir::func::FuncOp func, RecipeAttr recipe,
                         Caster &caster);

/// Narrows stacks that loops write and that only casts of one format and scale
/// read. Under a recipe with a `saved` format, backward ops may read them as
/// well. Returns the number of narrowed stacks.
unsigned narrowStacks(mlir::func::FuncOp func, RecipeAttr recipe,
                      Caster &caster);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_STORAGEFORMATS_H
