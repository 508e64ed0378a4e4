//===- TensorBuilder.h - Ops in place of another one ------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_TENSORBUILDER_H
#define SCALIFY_LIB_FUSION_TENSORBUILDER_H

#include "OpCosts.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Dialect/StableHLO/Window.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify {

/// Builds what takes an op's place, before it, at its location and in its
/// phase of the step.
class TensorBuilder {
public:
  using Dims = llvm::ArrayRef<int64_t>;
  using Values = llvm::SmallVector<mlir::Value>;

  explicit TensorBuilder(mlir::Operation *op);

  mlir::Value constant(int64_t value, mlir::Type element, Dims shape);
  mlir::Value iota(int64_t dim, Dims shape);
  mlir::Value broadcast(mlir::Value value, Dims shape, Dims dims);
  mlir::Value reshape(mlir::Value value, Dims shape);
  mlir::Value transpose(mlir::Value value, Dims permutation);
  mlir::Value reverse(mlir::Value value, Dims dims);
  /// Elements from the first one on: `count` of them, `stride` apart.
  mlir::Value firstOf(mlir::Value value, int64_t dim, int64_t count,
                      int64_t stride = 1);
  mlir::Value at(mlir::Value value, int64_t dim, int64_t place);
  mlir::Value pad(mlir::Value value, mlir::Value padding, Dims low, Dims high,
                  Dims interior);
  mlir::Value compare(mlir::Value lhs, mlir::Value rhs,
                      stablehlo::ComparisonDirection direction);
  mlir::Value convert(mlir::Value value, mlir::Type element);
  /// A sum over some dimensions.
  mlir::Value sum(mlir::Value value, Dims dims);

  template <typename Op> mlir::Value make(mlir::ValueRange operands) {
    return Op::create(ops, mlir::TypeRange{operands.back().getType()}, operands)
        ->getResult(0);
  }

  /// What a region on scalars computes from tensors of one shape, element by
  /// element. Fails, with an error at `op`, where the region does more.
  llvm::FailureOr<Values> elementwise(mlir::Operation *op, mlir::Region &region,
                                      mlir::ValueRange arguments);

  /// All places of a window over `value`: its dimensions count the places, and
  /// one more for each dimension in which the window is longer than one, in
  /// their order, counts the elements in it. Only views.
  mlir::Value windows(mlir::Value value, mlir::Value padding,
                      llvm::ArrayRef<stablehlo::WindowDim> window);

  mlir::ImplicitLocOpBuilder ops;

private:
  /// Lets what is built have the phase of what it replaces.
  struct Phases : mlir::OpBuilder::Listener {
    void notifyOperationInserted(mlir::Operation *op,
                                 mlir::OpBuilder::InsertPoint) override;
    mlir::Attribute phase;
    mlir::Block *block = nullptr;
  } phases;

  mlir::Value slide(mlir::Value value, int64_t dim,
                    const stablehlo::WindowDim &window, int64_t places);
};

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_TENSORBUILDER_H
