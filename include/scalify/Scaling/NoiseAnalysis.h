//===- NoiseAnalysis.h - Propagation of rounding errors ---------*- C++ -*-===//
//
// To first order the error of a value is a sum of independent parts, one for
// each dot on rounded operands. An op multiplies the variance of a part by a
// constant that follows from the facts of its values. So the analysis
// propagates variances forward through the graph with one gain per operand. The
// transposed walk attributes an error to the dots that cause it.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_SCALING_NOISEANALYSIS_H
#define SCALIFY_SCALING_NOISEANALYSIS_H

#include "scalify/Scaling/ScaleAnalysis.h"

#include "llvm/ADT/DenseMap.h"

#include <memory>
#include <vector>

namespace scalify {

class ElementFunctions;

/// Returns the mean square of the error of rounding to nearest, over the mean
/// square of the data. With m bits of mantissa and a binade that starts at b,
/// the error's is 2^(-2m) / 12 * b^2. The data's is 1.5 / ln 2 * b^2, for
/// values spread evenly over the logarithms of the binade.
double getRoundingNoise(mlir::FloatType format);

class NoiseAnalysis {
public:
  /// Executes the loops of `facts` again, and leaves them as they are.
  NoiseAnalysis(mlir::FunctionOpInterface func, ScaleAnalysis &facts);
  ~NoiseAnalysis();

  /// The noise that each dot adds, relative to the size of its product.
  using Sources = llvm::DenseMap<mlir::Operation *, double>;
  /// Returns the error variances of `values`, in their order.
  llvm::SmallVector<double> predict(const Sources &sources,
                                    llvm::ArrayRef<mlir::Value> values);
  /// Returns each dot's contribution to the weighted sum of error variances, as
  /// of the last prediction.
  Sources attribute(const Sources &sources, llvm::ArrayRef<mlir::Value> values,
                    llvm::ArrayRef<double> weights);

private:
  struct Edge {
    unsigned from, to;
    double gain;
  };
  struct Program;
  struct Loop;
  struct Step {
    mlir::Operation *op;
    llvm::SmallVector<unsigned, 1> results;
    llvm::SmallVector<Edge, 2> edges;
    /// Of a contraction: the variance of its result for a source of 1.
    double product = 0;
    /// Of a comparison or a choice: the probability that its outcome flips, for
    /// an error of variance 1, and the number of the outcome.
    double flip = 0;
    unsigned outcome = 0;
    /// The variance at which the error saturates: no error exceeds its value.
    std::optional<double> limit;
    /// Of loops and branches.
    llvm::SmallVector<unsigned, 0> operands;
    std::vector<Program> branches;
    std::shared_ptr<const Loop> loop;
  };
  struct Program {
    std::vector<Step> steps;
    llvm::SmallVector<unsigned> arguments, results;
  };
  struct Loop {
    int64_t trips = 0;
    /// The iterations; those beyond have the gains of the last one.
    std::vector<Program> iterations;
    /// The variances of the results over those of the carries after the last
    /// iteration.
    llvm::SmallVector<double, 0> exitRatios;
    /// The root mean squares of the values that the loop reads.
    llvm::SmallVector<double, 0> sizes;

    const Program &getIteration(int64_t trip) const {
      auto last = static_cast<int64_t>(iterations.size()) - 1;
      return iterations[std::min(trip, last)];
    }
  };

  unsigned number(mlir::Value value);
  Program build(mlir::Block &block, unsigned depth);
  Step buildStep(mlir::Operation &op, unsigned depth);
  std::shared_ptr<const Loop> getLoop(stablehlo::WhileOp loop, unsigned depth);
  std::shared_ptr<Loop> buildLoop(stablehlo::WhileOp loop, unsigned depth);
  bool buildSliceEdges(mlir::Operation &op, Step &step);
  void buildEdges(mlir::Operation &op, Step &step);
  void run(const Program &program, const Sources &sources);
  void runRegions(const Step &step, const Sources &sources);
  void runTransposed(const Program &program, const Sources &sources,
                     Sources &found);
  void runRegionsTransposed(const Step &step, const Sources &sources,
                            Sources &found);

  ScaleAnalysis &facts;
  std::unique_ptr<ElementFunctions> functions;
  /// The stack that an op writes, slice by slice, and the root mean square of
  /// the slices over all iterations: the errors of a stack as a whole are
  /// relative to that.
  struct Stack {
    mlir::Value value;
    double rms;
  };
  llvm::DenseMap<mlir::Operation *, Stack> stacks;
  /// The numbers of the slices of a stack, by the iteration that writes them.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<unsigned, 0>> slices;
  /// The iteration that is being built.
  size_t iteration = 0;
  /// Loops as they were built last. An inner loop is built once if all outer
  /// iterations enter it with equal sizes, as the layers of each micro-batch.
  llvm::DenseMap<mlir::Operation *, std::shared_ptr<const Loop>> loops;
  /// The mean square of a regression's target over its residual's, by prior.
  std::optional<double> residualGain;
  /// Mean squares of rows that may vanish, and values of which they are
  /// functions, with the amplification of their errors.
  llvm::DenseMap<mlir::Value, double> vanishing;
  /// The places of the values in `variances`; an inner slice has one, too.
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  unsigned numVariances = 0;
  /// Steps of all programs built so far.
  size_t numSteps = 0;
  /// The values of the current walk, by number.
  std::vector<double> variances;
  /// Of results whose variance is not linear, in the order of the last
  /// prediction: their share of what the edges imply. For an outcome, the
  /// probability of a flip over the variance.
  std::vector<double> shares;
  /// The position of the transposed walk in the shares.
  size_t nextShare = 0;
  std::unique_ptr<Program> main;
};

} // namespace scalify

#endif // SCALIFY_SCALING_NOISEANALYSIS_H
