//===- EpilogueChain.h - A product and the ops after it ---------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_EPILOGUECHAIN_H
#define SCALIFY_LIB_FUSION_EPILOGUECHAIN_H

#include "OpCosts.h"

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// Contiguous elements of a tensor, from `offset` on.
struct Vector {
  mlir::Value base;
  int64_t offset = 0;

  bool operator==(const Vector &other) const {
    return base == other.base && offset == other.offset;
  }
};

/// A vector along some dimensions that is added to a product.
struct Bias {
  Vector vector;
  std::optional<Vector> narrow; // the source if `vector` is a widened copy
  int64_t size = 0;
  bool isInnermost = false; // else other dimensions follow the vector's

  bool operator==(const Bias &other) const {
    return size == other.size && isInnermost == other.isInnermost &&
           (vector == other.vector || (narrow && narrow == other.narrow));
  }
};

/// A cast to FP8 of a value multiplied or divided by a scale.
struct Cast {
  mlir::Type format;
  mlir::Value scale; // of rank 0; none for 1
  bool divides = false;
  bool isCounted = false; // by the executable's health
  bool saturates = true;
  bool isScaleMoved = false; // by the counts of the cast

  bool isLike(const Cast &other) const;
};

/// A product and the ops that may be fused into it. The backward may compute a
/// step again, so that a step has several equal `values`.
struct Chain {
  plan::MatmulOp product;
  llvm::SmallVector<mlir::Value> values;
  std::optional<Bias> bias;
  bool hasReLU = false, hasGELU = false, isRounded = false;
  llvm::SmallVector<stablehlo::CompareOp> signs; // of the ReLU's operand
  llvm::SmallVector<mlir::Value> kept; // the GELU's operand if others use it
  mlir::Value geluInput;  // the operand of the GELU whose gradient this is
  plan::MatmulOp clamped; // the product with the ReLU whose gradient this is
  std::optional<Cast> cast;
  bool isTurned = false; // the cast's result is stored transposed
  llvm::SmallVector<mlir::Value> amaxes; // of the cast's operand

  mlir::Type element() const { return typeOf(values.front()).getElementType(); }
  bool isGradient() const { return geluInput || clamped; }
  plan::Epilogue epilogue() const {
    if (isGradient())
      return geluInput ? plan::Epilogue::GELUGrad : plan::Epilogue::ReLUGrad;
    if (hasGELU)
      return bias ? plan::Epilogue::BiasGELU : plan::Epilogue::GELU;
    if (hasReLU)
      return bias ? plan::Epilogue::BiasReLU : plan::Epilogue::ReLU;
    return bias ? plan::Epilogue::Bias : plan::Epilogue::None;
  }
};

inline llvm::SmallVector<mlir::Operation *> usersOf(const Chain &chain) {
  llvm::SmallVector<mlir::Operation *> users;
  for (mlir::Value value : chain.values)
    llvm::append_range(users, value.getUsers());
  return users;
}

/// True if the op has the task of the product, not that of another pipeline
/// stage.
inline bool isNear(mlir::Operation *op, const Chain &chain) {
  return op->getAttr(plan::kTaskAttr) ==
         chain.product->getAttr(plan::kTaskAttr);
}

inline bool isFP8(plan::MatmulOp op) {
  return hasFP8Elements(op.getA().getType());
}

/// Returns the chain extended by a cast to FP8 if its only users are equal
/// casts and computations of its amax.
std::optional<Chain> castToFP8(Chain chain);

/// Returns why the library has no such cast, or "". With `isLoose` numbers may
/// change, and casts may go uncounted.
std::string whyNotCast(const Chain &chain, bool isLoose);

/// Builds, before the product, the factor by which the library multiplies
/// before it casts; returns none for 1.
mlir::Value getMultiplier(const Chain &chain);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_EPILOGUECHAIN_H
