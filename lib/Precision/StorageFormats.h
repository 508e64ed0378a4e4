//===- StorageFormats.h - Formats of saved values and of state --*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_STORAGEFORMATS_H
#define SCALIFY_LIB_PRECISION_STORAGEFORMATS_H

#include "Caster.h"
#include "DotFormats.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// What the backward reads of the forward, other than operands of dots and
/// statistics, it reads from the recipe's `saved` format.
void castSavedValues(mlir::func::FuncOp func, RecipeAttr recipe,
                     Caster &caster);

/// New parameters and moments leave the step through the recipe's formats.
/// Without a key of random words they are rounded to nearest, with a remark.
void castState(mlir::func::FuncOp func, RecipeAttr recipe, Caster &caster,
               bool hasRoundingKey);

/// What the optimizer reads of the backward goes through the recipe's formats
/// for gradients. Fails, under `strict`, where a sum cannot have its format.
mlir::LogicalResult castGradients(mlir::func::FuncOp func, RecipeAttr recipe,
                                  const DotFormatChooser &formats,
                                  Caster &caster, bool strict);

/// Parts of products of activations go to the ranks that sum them in the
/// recipe's format.
void castProductsOfRanks(mlir::func::FuncOp func, RecipeAttr recipe,
                         const DotFormatChooser &formats, Caster &caster);

/// Stacks that loops write and that only casts of one format and scale read
/// hold the narrow data; under a recipe with a `saved` format ops of the
/// backward may read them as well. Returns their number.
unsigned narrowStacks(mlir::func::FuncOp func, RecipeAttr recipe,
                      Caster &caster);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_STORAGEFORMATS_H
