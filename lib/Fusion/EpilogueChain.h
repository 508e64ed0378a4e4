//===- EpilogueChain.h - A product and what is behind it --------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_EPILOGUECHAIN_H
#define SCALIFY_LIB_FUSION_EPILOGUECHAIN_H

#include "OpCosts.h"

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// Elements of a tensor from one on.
struct Vector {
  mlir::Value base;
  int64_t offset = 0;

  bool operator==(const Vector &other) const {
    return base == other.base && offset == other.offset;
  }
};

/// What is added to a product: a vector along some dimensions.
struct Bias {
  Vector vector;
  std::optional<Vector> narrow; // what the vector is a widened copy of
  int64_t size = 0;
  bool isInnermost = false; // else it runs along rows

  bool operator==(const Bias &other) const {
    return size == other.size && isInnermost == other.isInnermost &&
           (vector == other.vector || (narrow && narrow == other.narrow));
  }
};

/// A cast to FP8 of a value times a scale, or by it.
struct Cast {
  mlir::Type format;
  mlir::Value scale; // of rank 0; none for 1
  bool divides = false;
  bool isCounted = false; // by the executable's health
  bool saturates = true;
  bool isScaleMoved = false; // by what is counted

  bool isLike(const Cast &other) const;
};

/// A product and what may be done to it before it is stored. A step is done in
/// the forward and made again in the backward: its values are equal.
struct Chain {
  plan::MatmulOp product;
  llvm::SmallVector<mlir::Value> values;
  std::optional<Bias> bias;
  bool hasReLU = false, hasGELU = false, isRounded = false;
  llvm::SmallVector<stablehlo::CompareOp> signs; // of what the ReLU reads
  llvm::SmallVector<mlir::Value> kept; // what the GELU reads, if others do too
  mlir::Value slopeOf;    // what a GELU reads, of which this is the gradient
  plan::MatmulOp clamped; // the product with a ReLU, of which this is
  std::optional<Cast> cast;
  bool isTurned = false; // the columns of what is cast are stored as rows
  llvm::SmallVector<mlir::Value> amaxes; // of what is cast

  mlir::Type element() const { return typeOf(values.front()).getElementType(); }
  bool isGradient() const { return slopeOf || clamped; }
  plan::Epilogue epilogue() const {
    if (isGradient())
      return slopeOf ? plan::Epilogue::GELUGrad : plan::Epilogue::ReLUGrad;
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

/// Whether the op is done where the product is, and not by another stage of a
/// pipeline.
inline bool isNear(mlir::Operation *op, const Chain &chain) {
  return op->getAttr(plan::kTaskAttr) ==
         chain.product->getAttr(plan::kTaskAttr);
}

inline bool isFP8(plan::MatmulOp op) {
  return hasFP8Elements(op.getA().getType());
}

/// The chain with the cast to FP8 that is all that becomes of it, but that its
/// largest magnitude may be asked for too. None where it is read otherwise.
std::optional<Chain> castToFP8(Chain chain);

/// Why the library does not cast so, or "". `isLoose`: numbers may change, and
/// casts go uncounted.
std::string whyNotCast(const Chain &chain, bool isLoose);

/// What the library multiplies by before it casts, made before the product;
/// none for 1.
mlir::Value getMultiplier(const Chain &chain);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_EPILOGUECHAIN_H
