//===- IndexExpr.h - Index expressions over loops ---------------*- C++ -*-===//
//
// Which element of a buffer an iteration touches, as an affine expression of
// the loops around it. MLIR's own simplification knows no ranges of loops;
// ours does, so that reshapes cancel and a concatenation is decided at compile
// time wherever a loop lies within one of its parts.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_CODEGEN_INDEXEXPR_H
#define SCALIFY_LIB_CODEGEN_INDEXEXPR_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace scalify::codegen {

/// Both ends belong to the interval.
struct Interval {
  int64_t low, high;
};

/// A loop, which is a dimension of index expressions.
struct LoopDim {
  Interval range;
  mlir::Value iv;
  unsigned level;
  int64_t alignment; // the induction variable is a multiple of it
};

/// A value known at run time only; a vector if its lanes differ.
struct IndexSymbol {
  Interval range;
  mlir::Value value;
  unsigned level;
};

/// A sum of products: what an expression is after flattening.
struct LinearForm {
  llvm::SmallVector<std::pair<mlir::AffineExpr, int64_t>, 4> terms;
  int64_t constant = 0;

  int64_t coefficient(mlir::AffineExpr term) const;
  void add(mlir::AffineExpr term, int64_t factor);
};

using Index = llvm::SmallVector<mlir::AffineExpr, 4>;

/// The loops and symbols in scope, and arithmetic that knows their ranges.
class IndexScope {
public:
  explicit IndexScope(mlir::MLIRContext *context) : context(context) {}

  mlir::AffineExpr addDim(LoopDim dim);
  mlir::AffineExpr addSymbol(IndexSymbol symbol);
  mlir::AffineExpr constant(int64_t value) const;

  Interval range(mlir::AffineExpr expr) const;
  unsigned level(mlir::AffineExpr expr) const;
  LinearForm flatten(mlir::AffineExpr expr) const;
  mlir::AffineExpr build(const LinearForm &form) const;

  mlir::AffineExpr floorDiv(mlir::AffineExpr expr, int64_t divisor) const;
  mlir::AffineExpr mod(mlir::AffineExpr expr, int64_t divisor) const;
  mlir::AffineExpr linearise(llvm::ArrayRef<mlir::AffineExpr> index,
                             llvm::ArrayRef<int64_t> shape) const;
  Index delinearise(mlir::AffineExpr linear,
                    llvm::ArrayRef<int64_t> shape) const;

  /// How far apart neighbouring lanes are, if that is one number.
  std::optional<int64_t> laneStride(mlir::AffineExpr expr) const;
  bool dependsOnLanes(mlir::AffineExpr expr) const;

  const LoopDim &dim(unsigned position) const { return dims[position]; }
  const IndexSymbol &symbol(unsigned position) const {
    return symbols[position];
  }

  /// The loop whose iterations are lanes of vectors, and how many lanes.
  std::optional<unsigned> laneDim;
  int64_t lanes = 1;

  /// Whether it is a multiple of the lanes in every iteration.
  bool isLaneAligned(mlir::AffineExpr expr) const;

private:
  void makeNonNegative(LinearForm &multiple, LinearForm &rest,
                       int64_t divisor) const;

  mlir::MLIRContext *context;
  llvm::SmallVector<LoopDim> dims;
  llvm::SmallVector<IndexSymbol> symbols;
};

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_INDEXEXPR_H
