//===- IndexExpr.h - Index expressions over loops ---------------*- C++ -*-===//
//
// Represents the buffer element that an iteration accesses as an affine
// expression of the enclosing loops. MLIR's own simplification does not use
// loop ranges. This one does, so that reshapes cancel and a concatenation is
// resolved at compile time wherever a loop lies within one of its parts.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_CODEGEN_INDEXEXPR_H
#define SCALIFY_LIB_CODEGEN_INDEXEXPR_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <optional>

namespace scalify::codegen {

/// A closed interval.
struct Interval {
  int64_t low, high;
};

/// A loop, as a dimension of index expressions.
struct LoopDim {
  Interval range;
  mlir::Value iv;
  unsigned level;
  int64_t alignment; // divides the induction variable
};

/// A value known only at run time; a vector if its lanes differ.
struct IndexSymbol {
  Interval range;
  mlir::Value value;
  unsigned level;
};

/// A sum of products: the flattened form of an expression.
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

  /// Returns the stride between neighbouring lanes, if it is constant.
  std::optional<int64_t> laneStride(mlir::AffineExpr expr) const;
  bool dependsOnLanes(mlir::AffineExpr expr) const;

  const LoopDim &dim(unsigned position) const { return dims[position]; }
  const IndexSymbol &symbol(unsigned position) const {
    return symbols[position];
  }

  /// The loop whose iterations are vector lanes, and the number of lanes.
  std::optional<unsigned> laneDim;
  int64_t lanes = 1;

  /// True if `expr` is a multiple of `lanes` in every iteration.
  bool isLaneAligned(mlir::AffineExpr expr) const;

private:
  void makeNonNegative(LinearForm &multiple, LinearForm &rest,
                       int64_t divisor) const;

  /// The index and the shape of an element.
  using Place = std::pair<std::vector<const void *>, std::vector<int64_t>>;
  static Place placeOf(llvm::ArrayRef<mlir::AffineExpr> index,
                       llvm::ArrayRef<int64_t> shape);

  mlir::MLIRContext *context;
  /// Linear indices by the indices that delinearise() has made of them. Their
  /// inverse does not follow from the expressions alone once loops are merged.
  mutable std::map<Place, mlir::AffineExpr> linearOf;
  llvm::SmallVector<LoopDim> dims;
  llvm::SmallVector<IndexSymbol> symbols;
};

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_INDEXEXPR_H
