//===- Traits.h - Families of stablehlo ops ---------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_TRAITS_H
#define SCALIFY_DIALECT_STABLEHLO_TRAITS_H

#include "mlir/IR/OpDefinition.h"

namespace scalify::stablehlo::OpTrait {

/// One operand and one result of the same shape: op->hasTrait<UnaryElementwise>
/// lets a rule cover the family at once.
template <typename ConcreteType>
class UnaryElementwise
    : public mlir::OpTrait::TraitBase<ConcreteType, UnaryElementwise> {};

/// Two operands and one result, all of the same type.
template <typename ConcreteType>
class BinaryElementwise
    : public mlir::OpTrait::TraitBase<ConcreteType, BinaryElementwise> {};

/// select and clamp: elementwise, but the predicate or the bounds may be
/// scalars, which MLIR's Elementwise trait does not allow.
template <typename ConcreteType>
class TernaryElementwise
    : public mlir::OpTrait::TraitBase<ConcreteType, TernaryElementwise> {};

} // namespace scalify::stablehlo::OpTrait

#endif // SCALIFY_DIALECT_STABLEHLO_TRAITS_H
