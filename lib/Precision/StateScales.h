//===- StateScales.h - Scales of state that follow its amax -----*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_STATESCALES_H
#define SCALIFY_LIB_PRECISION_STATESCALES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Whether scales of packed state are those of the amaxes that earlier steps
/// have seen: under recipes that measure scales of operands too.
bool measuresStateScales(RecipeAttr recipe);

/// Lets the scales of casts of state follow what the last step wrote. Returns
/// the scale by which the data of each are read, as values at the begin of
/// main.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
measureStateScales(mlir::func::FuncOp main, llvm::ArrayRef<QuantizeOp> casts);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_STATESCALES_H
