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
/// On a dot on FP8 data whose accumulation is not its phase's default.
inline constexpr llvm::StringLiteral kAccumulationAttr = "scalify.accumulation";
inline constexpr llvm::StringLiteral kScaleAttr = "scalify.scale";
inline constexpr llvm::StringLiteral kRuleAttr = "scalify.rule";
inline constexpr llvm::StringLiteral kRecipeAttr = "scalify.recipe";
inline constexpr llvm::StringLiteral kTargetAttr = "scalify.target";
/// On arguments and results of the per-device program of a mesh: the type of
/// the whole value that they are a part of.
inline constexpr llvm::StringLiteral kWholeTypeAttr = "scalify.whole_type";
/// In addition, for each dimension the (stride, size) of the axes that split
/// it.
inline constexpr llvm::StringLiteral kPartsAttr = "scalify.parts";
/// On a result of the per-device program of which each rank has its own. One
/// process that simulates all ranks returns them one after another.
inline constexpr llvm::StringLiteral kOfEachRankAttr = "scalify.of_each_rank";
/// On a rank-0 constant: kernels read it from memory, so that kernels that
/// differ only in it share code.
inline constexpr llvm::StringLiteral kInMemoryAttr = "scalify.in_memory";
/// On shards of state: the array of which they are a shard, as a flat run of
/// its elements.
inline constexpr llvm::StringLiteral kFlatAttr = "scalify.flat";
/// The declared scale of an argument that starts as all zeros: it takes the
/// scale of the values written into it.
inline constexpr int64_t kZeroScale = -127;
} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_SCALIFY_H
