//===- CorrectionFlow.h - Corrections of predicted scales -------*- C++ -*-===//
//
// A correction is the run-time scale of a value over the predicted scale. It
// has rank 0. The slices of a stack that a loop wrote have one scale each, so
// the correction of a stack is a vector along its first dimension.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_SCALING_CORRECTIONFLOW_H
#define SCALIFY_LIB_SCALING_CORRECTIONFLOW_H

#include "RowRescales.h"
#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/ScaleAnalysis.h"
#include "scalify/Scaling/ScaleArithmetic.h"

#include "llvm/ADT/DenseSet.h"

namespace scalify {

/// The carries of scales that are added to a loop.
struct LoopCarries;

/// The corrections of one function.
class CorrectionFlow {
public:
  CorrectionFlow(mlir::Block &block, const ScaleAnalysis &analysis, bool strict,
                 bool remarks)
      : block(block), analysis(analysis), scales(block),
        builder(block.getParentOp()->getContext()),
        rows(builder, strict, remarks) {}
  /// Fails under strict if a dot cannot take the scales of rows.
  llvm::LogicalResult run();
  /// Returns the arguments that the step measures, also those that it measures
  /// inside a loop.
  const llvm::DenseSet<mlir::Value> &getReadArguments() const {
    return readArguments;
  }

private:
  /// Finds the values whose scale follows a run-time scale.
  void findMoved(mlir::Block &body);
  void findMovedByRegions(mlir::Operation &op);
  /// Of the moved values, finds those that a hint reads, also indirectly.
  void findNeeded(mlir::Block &body);
  void findNeededByRegions(mlir::Operation &op);

  void visitBlock(mlir::Block &body);
  void visit(mlir::Operation &op);
  void visitHint(ScaleHintOp hint);
  void visitPoint(RescalePointOp point);
  void visitOverride(OverrideScaleOp op);
  void visitDataScale(DataScaleOp op);
  void visitMoved(mlir::Operation &op);
  void visitAligned(mlir::Operation &op);
  void visitSum(mlir::Operation &op);
  bool visitFunction(mlir::Operation &op);
  void visitFactors(mlir::Operation &op, bool quotient);
  void visitPower(mlir::Operation &op);
  void visitRegions(mlir::Operation &op);
  void visitLoop(stablehlo::WhileOp loop);
  void visitBranches(mlir::Operation *op);
  void addGrowing(LoopCarries &carries, mlir::DictionaryAttr entry);
  void addStack(LoopCarries &carries, unsigned index);

  /// Returns the operands whose corrections the results of an op inherit.
  llvm::SmallVector<mlir::Value>
  getCorrectionOperands(mlir::Operation &op) const;
  /// True if the op computes on true values by a rule that predicts sizes.
  bool isFunction(mlir::Operation &op) const;
  /// A result as a function of one correction, the root: its facts for each
  /// power of two of the root. Another correction, the factor, may multiply it.
  struct Curve {
    mlir::Value root, factor;
    llvm::SmallVector<ScaleFacts, 0> facts;
  };
  Curve sampleRule(mlir::Operation &op, mlir::Value root, mlir::Value factor);
  std::pair<mlir::Value, mlir::Value> getRoot(mlir::Operation &op);
  bool hasCurveOperand(mlir::Operation &op) const;
  mlir::Value getTableIndex(mlir::Location loc, mlir::Value change);
  mlir::Value lookUp(mlir::Location loc, llvm::ArrayRef<float> table,
                     mlir::Value change);

  /// Finds the arguments whose root mean square the step may measure.
  void findMeasured();
  void measureArguments();
  mlir::Value measureCorrection(mlir::Value value);
  /// Returns the parameter among measured arguments that a carry starts from,
  /// or null.
  mlir::Value getMeasuredStart(stablehlo::WhileOp loop, unsigned index) const;
  /// True if the correction of a carry becomes a carry of its own.
  bool flowsThrough(stablehlo::WhileOp loop, unsigned index) const;
  void addFlow(LoopCarries &carries, unsigned index);
  void finishFlows(LoopCarries &carries);
  stablehlo::WhileOp extendLoop(LoopCarries &carries);

  /// Returns the result's correction for an op that moves data.
  mlir::Value moveCorrection(mlir::Operation &op);
  mlir::Value sliceStack(mlir::Operation &op, mlir::Value change);

  /// Returns the run-time scale over the predicted one; null if they are equal.
  mlir::Value correction(mlir::Value value) {
    return corrections.lookup(value);
  }
  /// Returns the analysis's facts of a value, also for results of loops and
  /// branches that were extended since.
  const ScaleFacts &lookup(mlir::Value value) const {
    mlir::Value original = originals.lookup(value);
    return analysis.lookup(original ? original : value);
  }
  mlir::Operation *extend(mlir::Operation *op, mlir::ValueRange operands,
                          mlir::TypeRange types);

  /// Returns one correction for all elements: the largest of a stack's slices.
  mlir::Value getScalarCorrection(mlir::Value value);
  mlir::Value getCorrectionOrOne(mlir::Value value) {
    mlir::Value found = getScalarCorrection(value);
    return found ? found : scales.one();
  }
  /// Returns the correction rounded to a power of two.
  mlir::Value getRoundedCorrection(mlir::Value value);
  int64_t predicted(mlir::Value value);
  /// Returns the scale of a value at run time.
  mlir::Value getCurrentScale(mlir::Value value);

  mlir::Block &block;
  const ScaleAnalysis &analysis;
  ScaleArithmetic scales;
  mlir::OpBuilder builder;
  RowScales rows;
  /// Maps results of extended ops to the results that the analysis knows.
  /// `replaced` keeps the original ops alive.
  llvm::DenseMap<mlir::Value, mlir::Value> originals;
  llvm::SmallVector<mlir::OwningOpRef<mlir::Operation *>> replaced;
  llvm::DenseSet<mlir::Value> moved, needed;
  /// The arguments that the step may measure, those that it does, and the
  /// argument that a carry starts from.
  llvm::DenseSet<mlir::Value> measured, readArguments;
  llvm::DenseMap<mlir::Value, mlir::Value> startOf;
  llvm::DenseMap<mlir::Value, mlir::Value> corrections;
  /// The rules of growing carries, for reports.
  llvm::DenseMap<mlir::Value, mlir::StringAttr> growthRules;
  /// The largest element of each vector of corrections.
  llvm::DenseMap<mlir::Value, mlir::Value> largest;
  llvm::DenseMap<mlir::Value, Curve> curves;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Block *>, mlir::Value>
      tableIndices;
  /// By the predicted scale of a hint and its correction.
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> hintScales;
  llvm::SmallVector<mlir::Operation *> markers;
  /// True if a correction may be other than a power of two.
  bool isFractional = false;
  /// True if the step measures a correction.
  bool isMeasured = false;
  /// True if the step measures arguments.
  bool measuresArguments = false;
};

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_CORRECTIONFLOW_H
