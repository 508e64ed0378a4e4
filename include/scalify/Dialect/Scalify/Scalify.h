//===- Scalify.h - The scalify dialect --------------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_SCALIFY_SCALIFY_H
#define SCALIFY_DIALECT_SCALIFY_SCALIFY_H

#include "scalify/Dialect/Scalify/RecipeFormats.h"
#include "scalify/Dialect/Scalify/ScaleFacts.h"
#include "scalify/Dialect/Scalify/Targets.h"
#include "scalify/Dialect/StableHLO/DataMovement.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "scalify/Dialect/Scalify/ScalifyDialect.h.inc"
#include "scalify/Dialect/Scalify/ScalifyEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/Scalify/ScalifyAttrs.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/Scalify/ScalifyOps.h.inc"

#include "scalify/Dialect/Scalify/ScaleRuleInterface.h.inc"

namespace scalify {
/// Names of the discardable attributes that the stages share.
inline constexpr llvm::StringLiteral kPhaseAttr = "scalify.phase";
inline constexpr llvm::StringLiteral kRoleAttr = "scalify.role";
inline constexpr llvm::StringLiteral kNameAttr = "scalify.name";
/// Of a dot on FP8 data that is not summed as its phase has it.
inline constexpr llvm::StringLiteral kAccumulationAttr = "scalify.accumulation";
inline constexpr llvm::StringLiteral kScaleAttr = "scalify.scale";
inline constexpr llvm::StringLiteral kRuleAttr = "scalify.rule";
inline constexpr llvm::StringLiteral kRecipeAttr = "scalify.recipe";
inline constexpr llvm::StringLiteral kTargetAttr = "scalify.target";
/// On arguments and results of the program of one device of a mesh: the type
/// of the whole value of which they are parts.
inline constexpr llvm::StringLiteral kWholeTypeAttr = "scalify.whole_type";
/// Beside it, for each dimension (stride, size) of what splits it.
inline constexpr llvm::StringLiteral kPartsAttr = "scalify.parts";
/// On a rank-0 constant: kernels read it from memory, so that those which
/// differ in it alone share code.
inline constexpr llvm::StringLiteral kInMemoryAttr = "scalify.in_memory";
/// On those that are shares: what of, cut from all its elements in a row.
inline constexpr llvm::StringLiteral kFlatAttr = "scalify.flat";
/// The declared scale of an argument that starts as all zeros: it takes the
/// scale of what is written into it.
inline constexpr int64_t kZeroScale = -127;
} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_SCALIFY_H
