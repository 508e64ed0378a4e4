//===- Integers.h - Integer elements and their bits -------------*- C++ -*-===//
//
// MLIR's arithmetic works on signless integers: only the tensor's element type
// gives the signedness. Code that widens, compares or prints integers uses
// these helpers.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_INTEGERS_H
#define SCALIFY_DIALECT_STABLEHLO_INTEGERS_H

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/APSInt.h"

namespace scalify::stablehlo {

/// True if the elements of the type are unsigned integers. Elements of i1 are 0
/// and 1; signless integers of more bits are signed.
inline bool hasUnsignedElements(mlir::Type type) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  return element.isUnsignedInteger() || element.isInteger(1);
}

/// Returns the bits of an element of the type, for a complex number those of
/// both parts; 0 if the type has no width.
inline unsigned getElementBits(mlir::Type type) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  if (auto complex = mlir::dyn_cast<mlir::ComplexType>(element))
    return 2 * getElementBits(complex.getElementType());
  return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 0;
}

/// Returns the number that `bits` represent in the type.
inline llvm::APSInt numberOf(const llvm::APInt &bits, mlir::Type type) {
  return llvm::APSInt(bits, hasUnsignedElements(type));
}

/// Returns the same number as an int64_t, or the nearest one to it.
inline int64_t clampedNumberOf(const llvm::APInt &bits, mlir::Type type) {
  return hasUnsignedElements(type)
             ? static_cast<int64_t>(bits.getLimitedValue(INT64_MAX))
             : bits.getSExtValue();
}

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_INTEGERS_H
