// A program whose noise a test predicts.
#ifndef SCALIFY_UNITTESTS_SCALING_NOISEPROGRAM_H
#define SCALIFY_UNITTESTS_SCALING_NOISEPROGRAM_H

#include "scalify/Scaling/NoiseAnalysis.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Pipeline/InitAll.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <optional>

namespace scalify::test {

/// The errors of the results of a function, with an error of variance kSource,
/// relative to its product, in each dot.
struct NoiseProgram {
  static constexpr double kSource = 1e-3;

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::SmallVector<mlir::Value> results;
  /// The root mean squares of the results, and the variances of their errors.
  llvm::SmallVector<double> sizes, errors;

  /// Aborts if the text does not parse.
  explicit NoiseProgram(llvm::StringRef text) : context(makeRegistry()) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    auto func = *module->getOps<mlir::func::FuncOp>().begin();
    facts.emplace(func);
    noise.emplace(func, *facts);
    func.walk([&](stablehlo::DotGeneralOp dot) { sources[dot] = kSource; });
    results =
        llvm::to_vector(func.getBody().front().getTerminator()->getOperands());
    for (mlir::Value value : results)
      sizes.push_back(facts->lookup(value).rms);
    errors = noise->predict(sources, results);
  }

  /// Returns what all dots contribute to the weighted sum of the errors.
  double attribute(llvm::ArrayRef<double> weights) {
    double sum = 0;
    for (auto [dot, part] : noise->attribute(sources, results, weights))
      sum += part;
    return sum;
  }

private:
  static mlir::DialectRegistry makeRegistry() {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    registry.insert<mlir::func::FuncDialect>();
    return registry;
  }

  std::optional<ScaleAnalysis> facts;
  std::optional<NoiseAnalysis> noise;
  NoiseAnalysis::Sources sources;
};

} // namespace scalify::test

#endif // SCALIFY_UNITTESTS_SCALING_NOISEPROGRAM_H
