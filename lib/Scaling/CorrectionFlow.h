//===- CorrectionFlow.h - Run-time scales over predicted ones ---*- C++ -*-===//
//
// A correction is the run-time scale of a value over the one that the rules
// predicted. It is a rank-0 value; of a stack that a loop wrote, whose slices
// have a scale each, it is a vector along the stack's first dimension.
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

/// Carries of scales that a loop is given.
struct LoopCarries;

/// The corrections of one function.
class CorrectionFlow {
public:
  CorrectionFlow(mlir::Block &block, const ScaleAnalysis &analysis, bool strict,
                 bool remarks)
      : block(block), analysis(analysis), scales(block),
        builder(block.getParentOp()->getContext()),
        rows(builder, strict, remarks) {}
  /// Fails where a dot cannot take the scales of rows under strict.
  llvm::LogicalResult run();
  /// The arguments that the step measures, some of them in a loop that is given
  /// them.
  const llvm::DenseSet<mlir::Value> &getReadArguments() const {
    return readArguments;
  }

private:
  /// What lies downstream of a run-time scale, without another one between.
  void findMoved(mlir::Block &body);
  void findMovedByRegions(mlir::Operation &op);
  /// Of these, what a hint reads, directly or through others.
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

  /// The operands of an op whose corrections its results inherit.
  llvm::SmallVector<mlir::Value> getCarriers(mlir::Operation &op) const;
  /// Whether the op computes on true values by a rule that tells sizes.
  bool isFunction(mlir::Operation &op) const;
  /// What a function makes of one correction: the facts of its result for each
  /// power of two of it. Another one may multiply them.
  struct Curve {
    mlir::Value root, factor;
    llvm::SmallVector<ScaleFacts, 0> facts;
  };
  Curve sampleRule(mlir::Operation &op, mlir::Value root, mlir::Value factor);
  std::pair<mlir::Value, mlir::Value> getRoot(mlir::Operation &op);
  bool isOnCurve(mlir::Operation &op) const;
  mlir::Value getTableIndex(mlir::Location loc, mlir::Value change);
  mlir::Value lookUp(mlir::Location loc, llvm::ArrayRef<float> table,
                     mlir::Value change);

  /// Arguments of which the step takes the root mean square.
  void findMeasured();
  void measureArguments();
  mlir::Value measureCorrection(mlir::Value value);
  /// The parameter among measured arguments that a carry starts from; null for
  /// other carries.
  mlir::Value getMeasuredStart(stablehlo::WhileOp loop, unsigned index) const;
  /// Whether the correction of a carry is a carry of its own.
  bool flowsThrough(stablehlo::WhileOp loop, unsigned index) const;
  void addFlow(LoopCarries &carries, unsigned index);
  void finishFlows(LoopCarries &carries);
  stablehlo::WhileOp extendLoop(LoopCarries &carries);

  /// What an op that moves data makes of its operand's correction.
  mlir::Value moveCorrection(mlir::Operation &op);
  mlir::Value sliceStack(mlir::Operation &op, mlir::Value change);

  /// The run-time scale over the predicted one; null where they are equal.
  mlir::Value correction(mlir::Value value) {
    return corrections.lookup(value);
  }
  /// The facts that the analysis has of a value, also of a loop or branches
  /// that were extended since.
  const ScaleFacts &lookup(mlir::Value value) const {
    mlir::Value original = originals.lookup(value);
    return analysis.lookup(original ? original : value);
  }
  mlir::Operation *extend(mlir::Operation *op, mlir::ValueRange operands,
                          mlir::TypeRange types);

  /// The same of all elements: the largest of a stack's slices.
  mlir::Value scalarCorrection(mlir::Value value);
  mlir::Value correctionOrOne(mlir::Value value) {
    mlir::Value found = scalarCorrection(value);
    return found ? found : scales.one();
  }
  /// The same as a power of two.
  mlir::Value roundedCorrection(mlir::Value value);
  int64_t predicted(mlir::Value value);
  /// The scale of a value as the step will know it.
  mlir::Value currentScale(mlir::Value value);

  mlir::Block &block;
  const ScaleAnalysis &analysis;
  ScaleArithmetic scales;
  mlir::OpBuilder builder;
  RowScales rows;
  /// Of the results of extended ops, those that the analysis knows; and the ops
  /// that had them.
  llvm::DenseMap<mlir::Value, mlir::Value> originals;
  llvm::SmallVector<mlir::OwningOpRef<mlir::Operation *>> replaced;
  llvm::DenseSet<mlir::Value> moved, needed;
  /// Arguments that the step may measure; of carries that start from them,
  /// which.
  llvm::DenseSet<mlir::Value> measured, readArguments;
  llvm::DenseMap<mlir::Value, mlir::Value> startOf;
  llvm::DenseMap<mlir::Value, mlir::Value> corrections;
  /// The rules of carries that grow.
  llvm::DenseMap<mlir::Value, mlir::StringAttr> growthRules;
  /// Of corrections of stacks the largest.
  llvm::DenseMap<mlir::Value, mlir::Value> largest;
  llvm::DenseMap<mlir::Value, Curve> curves;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Block *>, mlir::Value>
      tableIndices;
  /// By the scale that was predicted for a hint and its correction.
  llvm::DenseMap<std::pair<mlir::Value, mlir::Value>, mlir::Value> hintScales;
  llvm::SmallVector<mlir::Operation *> markers;
  /// Whether a correction may be no power of two.
  bool isFractional = false;
  /// Whether the step measures one.
  bool isMeasured = false;
  /// Whether it measures arguments.
  bool measuresArguments = false;
};

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_CORRECTIONFLOW_H
