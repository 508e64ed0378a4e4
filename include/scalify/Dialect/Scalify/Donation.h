//===- Donation.h - Arguments whose memory a result takes -------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_DONATION_H
#define SCALIFY_DIALECT_SCALIFY_DONATION_H

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace scalify {

/// JAX's name for the result that takes the memory of a donated argument.
inline constexpr llvm::StringLiteral kAliasAttr = "tf.aliasing_output";

/// Returns the result that takes the memory of argument `index`.
inline std::optional<unsigned>
getAliasedResult(mlir::FunctionOpInterface function, unsigned index) {
  if (auto alias =
          function.getArgAttrOfType<mlir::IntegerAttr>(index, kAliasAttr))
    return alias.getInt();
  return std::nullopt;
}

/// Returns the operand of the terminator that is the next value of argument
/// `index`; null if the argument is donated to no result.
inline mlir::OpOperand *getNextValue(mlir::FunctionOpInterface function,
                                     unsigned index) {
  mlir::Operation *end = function.getFunctionBody().front().getTerminator();
  std::optional<unsigned> result = getAliasedResult(function, index);
  return result && *result < end->getNumOperands() ? &end->getOpOperand(*result)
                                                   : nullptr;
}

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_DONATION_H
