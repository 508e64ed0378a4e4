//===- StateScales.h - Scales of packed state from its amaxes ---*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_STATESCALES_H
#define SCALIFY_LIB_PRECISION_STATESCALES_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// True if scales of packed state are from amaxes of earlier steps: under
/// recipes that measure the scales of operands too.
bool measuresStateScales(RecipeAttr recipe);

/// Sets the scales of casts of state from the amaxes that the last step wrote.
/// Returns the scale by which the data of each cast are read, as values at the
/// start of main.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
measureStateScales(mlir::func::FuncOp main, llvm::ArrayRef<QuantizeOp> casts);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_STATESCALES_H
