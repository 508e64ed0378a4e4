//===- ScaleAnalysis.h - The facts of every value of a function -*- C++ -*-===//

#ifndef SCALIFY_SCALING_SCALEANALYSIS_H
#define SCALIFY_SCALING_SCALEANALYSIS_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Scaling/ConstantValues.h"
#include "scalify/Scaling/Priors.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

class CarryFacts;

/// On an argument of main that is carried by its mean (a norm's gains, a bias
/// that starts at -4): the mean and the standard deviation of its elements.
inline constexpr llvm::StringLiteral kMomentsAttr = "scalify.moments";

/// On loops and branches, from propagation on: log2 of the scale of each
/// result, and of the loop's carry behind it.
inline constexpr llvm::StringLiteral kCarryScalesAttr = "scalify.carry_scales";

/// On loops, from propagation to scalify-apply-rescales: the carries with a
/// scale of run time, as dictionaries `{carry, growth, rule, start}`: which
/// one, the binades that an iteration adds, what reports say of it, and log2 of
/// its scale in the first iteration. Without `growth` the step measures it. On
/// branches: the results that have the scale of the branch that ran.
inline constexpr llvm::StringLiteral kGrowingCarriesAttr =
    "scalify.growing_carries";

/// A loop's carry, or a result of branches, that no one constant scale fits.
struct GrowingCarry {
  mlir::Operation *op;
  /// The number of the carry or of the result.
  unsigned index;
  /// log2 of the scale in the first iteration.
  double start = 0;
  /// The binades that an iteration adds; none where they follow no line.
  std::optional<double> growth;
  /// The binades that it moves through.
  double spread = 0;

  /// The body's argument, or the result.
  mlir::Value getValue() const;
  /// Such as "grows by 2^0.50 a trip".
  std::string describe() const;
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
  explicit ScaleAnalysis(mlir::FunctionOpInterface func, bool composites = true)
      : ScaleAnalysis(func, composites, Priors::of(func)) {}
  ScaleAnalysis(mlir::FunctionOpInterface func, bool composites, Priors priors);

  const ScaleFacts &lookup(mlir::Value value) const;
  /// Whether the scale of an argument of the function is that of what a step
  /// writes into it; what starts at zero and is a weight has a size of its own.
  bool startsFromWritten(mlir::BlockArgument arg) const;
  /// Ops without a rule that touch floating-point tensors.
  llvm::ArrayRef<mlir::Operation *> getOpsWithoutRule() const {
    return withoutRule;
  }
  /// Floating-point tensor arguments whose scale was neither declared nor found
  /// by the fixpoint: they count as 2^0.
  llvm::ArrayRef<mlir::BlockArgument> getUndeclaredArguments() const {
    return undeclared;
  }
  /// Carries, and results of branches, whose data would leave the headroom of
  /// any constant scale: theirs is known at run time.
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
  void leaveRoomInCarries(stablehlo::WhileOp loop);
  void findGrowing(stablehlo::WhileOp loop, llvm::ArrayRef<CarryFacts> carries);
  std::optional<GrowingCarry> findGrowth(stablehlo::WhileOp loop,
                                         unsigned index,
                                         const CarryFacts &carry) const;
  void findDynamicResults(mlir::Operation *op,
                          llvm::ArrayRef<CarryFacts> results);
  mlir::Value getStackedOnZero(stablehlo::WhileOp loop, unsigned index) const;
  void findOpsWithoutRule();
  bool updateState();

  mlir::FunctionOpInterface func;
  bool composites;
  Priors priors;
  llvm::DenseMap<mlir::Value, ScaleFacts> facts;
  ConstantValues constants;
  llvm::SmallVector<mlir::Operation *> withoutRule;
  llvm::SmallVector<mlir::BlockArgument> undeclared;
  llvm::SmallVector<GrowingCarry> growing;
};

/// Whether the value is a parameter of the model, in or out of loops.
bool isParameter(mlir::Value value);

/// Whether the type is a tensor of floating-point elements.
bool isFloatTensor(mlir::Type type);

/// Whether the type is a tensor that a cast takes: f32, f16, bf16.
bool isScalableTensor(mlir::Type type);

} // namespace scalify

#endif // SCALIFY_SCALING_SCALEANALYSIS_H
