//===- ScaleAnalysis.h - The facts of every value of a function -*- C++ -*-===//

#ifndef SCALIFY_SCALING_SCALEANALYSIS_H
#define SCALIFY_SCALING_SCALEANALYSIS_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

class CarryFacts;

/// On loops and branches, from propagation on: log2 of the scale of each
/// result, and of the loop's carry behind it.
inline constexpr llvm::StringLiteral kCarryScalesAttr = "scalify.carry_scales";

/// A loop's carry that no one constant scale fits.
struct GrowingCarry {
  mlir::BlockArgument carry;
  /// The binades that it moves through; no number where the loop's trip count
  /// is not known.
  std::optional<double> spread;
};

/// Facts of all values of a function, inferred forward through the rules. A
/// donated state whose scale is not declared takes the scale of what is
/// written into it: a fixpoint over the step.
///
/// Loops are executed on facts, iteration by iteration; each carry then gets
/// one set of facts for all of them, and so has one scale (CarryFacts.h). The
/// facts inside of the body are those under these carries; the results are
/// what the last iteration leaves.
class ScaleAnalysis {
public:
  /// With `composites`, expressions that are one known function get its facts
  /// (Rules/Composites.cpp); without, each op's own rule stands.
  explicit ScaleAnalysis(mlir::FunctionOpInterface func,
                         bool composites = true);

  const ScaleFacts &lookup(mlir::Value value) const;
  /// Ops without a rule that touch floating-point tensors.
  llvm::ArrayRef<mlir::Operation *> getOpsWithoutRule() const {
    return withoutRule;
  }
  /// Floating-point tensor arguments whose scale was neither declared nor found
  /// by the fixpoint: they count as 2^0.
  llvm::ArrayRef<mlir::BlockArgument> getUndeclaredArguments() const {
    return undeclared;
  }
  /// Carries whose data would leave the headroom of any constant scale.
  llvm::ArrayRef<GrowingCarry> getGrowingCarries() const { return growing; }

private:
  void seedArguments();
  ScaleFacts seedArgument(mlir::BlockArgument arg);
  void inferBlock(mlir::Block &block, unsigned depth);
  void inferOp(mlir::Operation &op, unsigned depth);
  void inferLoop(stablehlo::WhileOp loop, unsigned depth);
  void inferManual(mlir::Operation *op, unsigned depth);
  void inferBranches(mlir::Operation *op, unsigned depth);
  void runLoop(stablehlo::WhileOp loop, unsigned depth,
               llvm::MutableArrayRef<CarryFacts> carries);
  void settleCarries(stablehlo::WhileOp loop, unsigned depth,
                     llvm::ArrayRef<CarryFacts> carries);
  void checkGrowth(stablehlo::WhileOp loop, unsigned index,
                   const CarryFacts &carry);
  mlir::Value getStackedOnZero(stablehlo::WhileOp loop, unsigned index) const;
  void findOpsWithoutRule();
  bool updateState();

  mlir::FunctionOpInterface func;
  bool composites;
  llvm::DenseMap<mlir::Value, ScaleFacts> facts;
  llvm::SmallVector<mlir::Operation *> withoutRule;
  llvm::SmallVector<mlir::BlockArgument> undeclared;
  llvm::SmallVector<GrowingCarry> growing;
};

/// Whether the type is a tensor of floating-point elements.
bool isFloatTensor(mlir::Type type);

/// Whether the type is a tensor that `scalify.rescale` takes: f32, f16, bf16.
bool isScalableTensor(mlir::Type type);

} // namespace scalify

#endif // SCALIFY_SCALING_SCALEANALYSIS_H
