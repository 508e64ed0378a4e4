//===- Integers.h - What an element is as bits ------------------*- C++ -*-===//
//
// MLIR's arithmetic is on signless integers: only the tensor's element type
// says how their bits are read. Code that widens, compares or prints them asks
// here.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_STABLEHLO_INTEGERS_H
#define SCALIFY_DIALECT_STABLEHLO_INTEGERS_H

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/APSInt.h"

namespace scalify::stablehlo {

/// Whether the elements of the type are integers without a sign. Those of i1
/// are 0 and 1; signless ones of more bits have a sign.
inline bool hasUnsignedElements(mlir::Type type) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  return element.isUnsignedInteger() || element.isInteger(1);
}

/// The bits of an element of the type, of a complex number those of both parts;
/// 0 where the type has no width.
inline unsigned getElementBits(mlir::Type type) {
  mlir::Type element = mlir::getElementTypeOrSelf(type);
  if (auto complex = mlir::dyn_cast<mlir::ComplexType>(element))
    return 2 * getElementBits(complex.getElementType());
  return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 0;
}

/// The number that an element of the type stands for.
inline llvm::APSInt numberOf(const llvm::APInt &bits, mlir::Type type) {
  return llvm::APSInt(bits, hasUnsignedElements(type));
}

/// The same as an int64_t, or the nearest one to it.
inline int64_t clampedNumberOf(const llvm::APInt &bits, mlir::Type type) {
  return hasUnsignedElements(type)
             ? static_cast<int64_t>(bits.getLimitedValue(INT64_MAX))
             : bits.getSExtValue();
}

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_INTEGERS_H
