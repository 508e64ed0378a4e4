//===- ScaleAnalysis.h - The facts of every value of a function -*- C++ -*-===//

#ifndef SCALIFY_SCALING_SCALEANALYSIS_H
#define SCALIFY_SCALING_SCALEANALYSIS_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/LoopIndices.h"
#include "scalify/Scaling/ConstantValues.h"
#include "scalify/Scaling/Priors.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"

namespace scalify {

class CarryFacts;

/// On an argument of main whose mean dominates its elements (a norm's gains, a
/// bias that starts at -4): the mean and the standard deviation.
inline constexpr llvm::StringLiteral kMomentsAttr = "scalify.moments";

/// On loops and branches, set by propagation: log2 of the scale of each result,
/// and of the loop's corresponding carry.
inline constexpr llvm::StringLiteral kCarryScalesAttr = "scalify.carry_scales";

/// On loops, from propagation to scalify-apply-rescales: the carries with a
/// run-time scale, as dictionaries `{carry, growth, rule, start}`: the index,
/// the binades that an iteration adds, the rule for reports, and log2 of the
/// scale in the first iteration. Without `growth` the step measures the scale.
/// On branches: the results whose scale is that of the branch that ran.
inline constexpr llvm::StringLiteral kGrowingCarriesAttr =
    "scalify.growing_carries";

/// Returns the binades over which the scales of values may be spread that share
/// one constant.
double getLargestSpread(bool isGradient);

/// A loop's carry, or a result of branches, that no constant scale fits.
struct GrowingCarry {
  mlir::Operation *op;
  /// The index of the carry or of the result.
  unsigned index;
  /// log2 of the scale in the first iteration.
  double start = 0;
  /// The binades that an iteration adds; none if they follow no line.
  std::optional<double> growth;
  /// The binades that the scale ranges over.
  double spread = 0;

  /// Returns the body's argument, or the result.
  mlir::Value getValue() const;
  /// Returns a description such as "grows by 2^0.50 a trip".
  std::string describe() const;
};

/// Infers the facts of all values of a function, forward through the rules.
/// Donated state without a declared scale takes the scale of the values written
/// into it: a fixpoint over the step.
///
/// Loops are executed on facts, iteration by iteration. Each carry then gets
/// one set of facts for all iterations, and so one scale (CarryFacts.h). The
/// facts inside the body follow from these carries. The loop's results have the
/// facts of the last iteration. A later loop that reads a stack of one slice an
/// iteration, as the backward of scanned layers, is executed on the facts of
/// these slices.
class ScaleAnalysis {
public:
  /// With `composites`, an expression that is one known function gets that
  /// function's facts (Rules/Composites.cpp). Without, each op's own rule
  /// applies.
  explicit ScaleAnalysis(mlir::FunctionOpInterface func, bool composites = true)
      : ScaleAnalysis(func, composites, Priors::of(func)) {}
  /// With `trained`, weights have the sizes to which training brings them: the
  /// prior unit-gain's, unless they are larger already. Integer arguments,
  /// which have no declared scale, and results of ops without a rule have the
  /// size `unknownSize`.
  ScaleAnalysis(mlir::FunctionOpInterface func, bool composites, Priors priors,
                bool trained = false, double unknownSize = 1);

  const Priors &getPriors() const { return priors; }
  const ScaleFacts &lookup(mlir::Value value) const;
  /// True if an argument of the function takes the scale of the values that a
  /// step writes into it. A weight that starts at zero has a size of its own.
  bool takesScaleOfUpdates(mlir::BlockArgument arg) const;
  /// Returns the ops without a rule that touch floating-point tensors.
  llvm::ArrayRef<mlir::Operation *> getOpsWithoutRule() const {
    return withoutRule;
  }
  /// Returns the floating-point tensor arguments whose scale was neither
  /// declared nor found by the fixpoint. They count as 2^0.
  llvm::ArrayRef<mlir::BlockArgument> getUndeclaredArguments() const {
    return undeclared;
  }
  /// Returns the carries and branch results whose data would exceed the
  /// headroom of any constant scale. Their scales are known at run time.
  llvm::ArrayRef<GrowingCarry> getGrowingCarries() const { return growing; }
  /// Executes a loop, which `depth` others enclose, once more. Calls `visit`
  /// after each iteration until the facts settle, or at most 128 times.
  /// Meanwhile `lookup` returns the facts of that iteration for values inside;
  /// afterwards all facts are as before.
  void visitIterations(stablehlo::WhileOp loop, unsigned depth,
                       llvm::function_ref<void()> visit);
  /// A slice of a stack in the result of a loop, by the iteration that wrote
  /// it, or by the last one that the analysis executed.
  struct StackSlice {
    mlir::Value stack;
    size_t iteration;
  };
  /// Returns what an op reads in the iteration that is being visited, if that
  /// is such a slice.
  std::optional<StackSlice> getSlice(mlir::Operation *op) const;

private:
  void seedArguments();
  ScaleFacts seedArgument(mlir::BlockArgument arg);
  void inferBlock(mlir::Block &block, unsigned depth);
  void inferOp(mlir::Operation &op, unsigned depth);
  void inferLoop(stablehlo::WhileOp loop, unsigned depth);
  void inferManual(mlir::Operation *op, unsigned depth);
  void inferBranches(mlir::Operation *op, unsigned depth);
  void runLoop(stablehlo::WhileOp loop, unsigned depth,
               llvm::MutableArrayRef<CarryFacts> carries,
               llvm::function_ref<void()> visit = {});
  void settleCarries(stablehlo::WhileOp loop, unsigned depth,
                     llvm::ArrayRef<CarryFacts> carries);
  void enlargeBoundedCarries(stablehlo::WhileOp loop);
  void findGrowing(stablehlo::WhileOp loop, llvm::ArrayRef<CarryFacts> carries);
  std::optional<GrowingCarry> findGrowth(stablehlo::WhileOp loop,
                                         unsigned index,
                                         const CarryFacts &carry) const;
  void findDynamicResults(mlir::Operation *op,
                          llvm::ArrayRef<CarryFacts> results);
  /// An iteration of a loop while the analysis executes it.
  struct Iteration {
    stablehlo::LoopIndices *indices;
    int64_t number = 0;
    /// An op read a slice that another loop wrote.
    bool readsSlices = false;
  };
  /// The slices that a loop wrote into a stack: the index of a slice, the
  /// trip count, and the facts of the iterations that were executed.
  struct Slices {
    stablehlo::LoopIndex index;
    int64_t trips = 0;
    llvm::SmallVector<ScaleFacts, 0> facts;
  };
  void recordSlices(stablehlo::WhileOp loop);
  mlir::Value getUpdateOfZeroStack(stablehlo::WhileOp loop,
                                   unsigned index) const;
  void findOpsWithoutRule();
  double getUnknownSize(mlir::Value value);
  bool updateState();

  mlir::FunctionOpInterface func;
  bool composites;
  Priors priors;
  bool trained;
  double unknownSize;
  llvm::DenseMap<mlir::Value, size_t> unknownNumbers;
  llvm::DenseMap<mlir::Value, ScaleFacts> facts;
  ConstantValues constants;
  /// The innermost iteration that is being executed, or null.
  Iteration *current = nullptr;
  /// By the results of loops that are stacks.
  llvm::DenseMap<mlir::Value, Slices> slices;
  llvm::SmallVector<mlir::Operation *> withoutRule;
  llvm::SmallVector<mlir::BlockArgument> undeclared;
  llvm::SmallVector<GrowingCarry> growing;
};

/// The iterations that an analysis runs of a loop of unknown trip count: enough
/// to show a trend.
inline constexpr int64_t kUnknownTrips = 8;

/// True if the value is a parameter of the model, inside loops or outside.
bool isParameter(mlir::Value value);

/// True if the type is a tensor of floating-point elements.
bool isFloatTensor(mlir::Type type);
/// True for a ranked tensor of integers that are not booleans.
bool isIntegerTensor(mlir::Type type);

/// True if the type is a tensor that casts accept: f32, f16, bf16.
bool isScalableTensor(mlir::Type type);

/// True if values of the type have a scale. Rank-0 values (learning rate, clip
/// factor, loss) have none, nor do types that no cast accepts, such as a
/// program's own FP8 data.
bool hasScale(mlir::Type type);

} // namespace scalify

#endif // SCALIFY_SCALING_SCALEANALYSIS_H
