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

private:
  /// What lies downstream of a run-time scale, without another one between.
  void findMoved(mlir::Block &body);
  void findMovedByRegions(mlir::Operation &op);
  /// Of these, what a hint reads, directly or through others.
  void findNeeded(mlir::Block &body);
  void findNeededByRegions(mlir::Operation &op);

  void visitBlock(mlir::Block &body);
  void visit(mlir::Operation &op);
  void visitHint(SetScaleOp hint);
  void visitPoint(RescalePointOp point);
  void visitSetScaling(SetScalingOp op);
  void visitDataScale(DataScaleOp op);
  void visitMoved(mlir::Operation &op);
  void visitAligned(mlir::Operation &op);
  void visitFactors(mlir::Operation &op, bool quotient);
  void visitPower(mlir::Operation &op);
  void visitRegions(mlir::Operation &op);
  void visitLoop(stablehlo::WhileOp loop);
  void visitBranches(mlir::Operation *op);
  void addGrowing(LoopCarries &carries, mlir::DictionaryAttr entry);
  void addStack(LoopCarries &carries, unsigned index);

  /// What an op that moves data makes of its operand's correction.
  mlir::Value moveCorrection(mlir::Operation &op);
  mlir::Value sliceStack(mlir::Operation &op, mlir::Value change);

  /// The run-time scale over the predicted one; null where they are equal.
  mlir::Value correction(mlir::Value value) {
    return corrections.lookup(value);
  }
  /// The same of all elements: the largest of a stack's slices.
  mlir::Value scalarCorrection(mlir::Value value);
  mlir::Value correctionOrOne(mlir::Value value) {
    mlir::Value found = scalarCorrection(value);
    return found ? found : scales.one();
  }
  int64_t predicted(mlir::Value value);
  /// The scale of a value as the step will know it.
  mlir::Value currentScale(mlir::Value value);

  mlir::Block &block;
  const ScaleAnalysis &analysis;
  ScaleArithmetic scales;
  mlir::OpBuilder builder;
  RowScales rows;
  llvm::DenseSet<mlir::Value> moved, needed;
  llvm::DenseMap<mlir::Value, mlir::Value> corrections;
  /// The rules of carries that grow.
  llvm::DenseMap<mlir::Value, mlir::StringAttr> growthRules;
  /// Of corrections of stacks the largest.
  llvm::DenseMap<mlir::Value, mlir::Value> largest;
  llvm::SmallVector<mlir::Operation *> markers;
  /// Whether a correction may be no power of two.
  bool isFractional = false;
  /// Whether the step measures one.
  bool isMeasured = false;
};

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_CORRECTIONFLOW_H
