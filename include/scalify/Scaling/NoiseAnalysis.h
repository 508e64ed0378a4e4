//===- NoiseAnalysis.h - What rounding leaves in later values ---*- C++ -*-===//
//
// To first order the error that casts leave in a value is a sum of independent
// parts, one for each dot on rounded operands, and what an op does to the
// variance of a part is a constant that follows from the facts of the values.
// So variances go forward through the graph by one number for each operand, and
// the transpose of the same walk says which dots an error comes from.
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

/// The mean square of the error of rounding to nearest, over the mean square of
/// the data: 2^(-2m) / 12 of a binade's square, for a mantissa of m bits, and
/// values spread evenly over the logarithms of a binade, whose mean square is
/// 1.5 / ln 2 of its start's.
double getRoundingNoise(mlir::FloatType format);

class NoiseAnalysis {
public:
  NoiseAnalysis(mlir::FunctionOpInterface func, const ScaleAnalysis &facts);
  ~NoiseAnalysis();

  /// The noise that each dot adds, relative to what its operands make of it.
  using Sources = llvm::DenseMap<mlir::Operation *, double>;
  /// The variance of the error of values, in the order given.
  llvm::SmallVector<double> predict(const Sources &sources,
                                    llvm::ArrayRef<mlir::Value> values);
  /// How much of the weighted sum of the values' variances comes from each dot.
  Sources attribute(const Sources &sources, llvm::ArrayRef<mlir::Value> values,
                    llvm::ArrayRef<double> weights);

private:
  struct Edge {
    unsigned from, to;
    double gain;
  };
  struct Program;
  struct Step {
    mlir::Operation *op;
    llvm::SmallVector<unsigned, 1> results;
    llvm::SmallVector<Edge, 2> edges;
    /// Of a contraction: the variance of its result for a source of 1.
    double product = 0;
    /// Of a comparison: the probability that it turns out otherwise, for an
    /// error of variance 1.
    double flip = 0;
    int64_t trips = 0;
    /// Of loops and branches.
    llvm::SmallVector<unsigned, 0> operands;
    std::vector<Program> regions;
  };
  struct Program {
    std::vector<Step> steps;
    llvm::SmallVector<unsigned> arguments, results;
  };

  unsigned number(mlir::Value value);
  Program build(mlir::Block &block, unsigned depth);
  Step buildStep(mlir::Operation &op, unsigned depth);
  void buildEdges(mlir::Operation &op, Step &step);
  void run(const Program &program, const Sources &sources);
  void runRegions(const Step &step, const Sources &sources);
  void runBack(const Program &program, const Sources &sources, Sources &found);
  void runRegionsBack(const Step &step, const Sources &sources, Sources &found);

  const ScaleAnalysis &facts;
  std::unique_ptr<ElementFunctions> functions;
  /// How much smaller than its target the residual of a regression becomes.
  std::optional<double> residualGain;
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  /// Of the walk that is going on, by the numbers of values.
  std::vector<double> variances;
  /// By the numbers of comparisons: the probability over the variance that the
  /// last prediction found.
  std::vector<double> flipGains;
  std::unique_ptr<Program> main;
};

} // namespace scalify

#endif // SCALIFY_SCALING_NOISEANALYSIS_H
