//===- RangeAnalysis.h - Bounds of every value of a module ------*- C++ -*-===//

#ifndef SCALIFY_SCALING_RANGEANALYSIS_H
#define SCALIFY_SCALING_RANGEANALYSIS_H

#include "scalify/Scaling/RangeState.h"

#include "mlir/Analysis/DataFlow/SparseAnalysis.h"
#include "mlir/Analysis/DataFlowFramework.h"
#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace scalify {

/// The declared range of an argument of main, a dictionary: `min` and `max` of
/// the elements, where `max` alone bounds magnitudes; `norms`, the largest
/// 2-norm of rows along each axis; `frobenius`.
inline constexpr llvm::StringLiteral kRangeAttr = "scalify.range";

class RangeLattice : public mlir::dataflow::AbstractSparseLattice {
public:
  using AbstractSparseLattice::AbstractSparseLattice;

  const RangeState &getValue() const { return value; }
  mlir::ChangeResult
  join(const mlir::dataflow::AbstractSparseLattice &other) override {
    return join(static_cast<const RangeLattice &>(other).value);
  }
  mlir::ChangeResult join(const RangeState &other);
  void print(llvm::raw_ostream &os) const override { value.print(os); }

private:
  RangeState value;
  unsigned numChanges = 0;
};

/// A sparse forward dataflow analysis. Loops run to a fixpoint with widening.
/// Results of ops without a transfer function are unbounded.
class RangeAnalysis
    : public mlir::dataflow::SparseForwardDataFlowAnalysis<RangeLattice> {
public:
  using SparseForwardDataFlowAnalysis::SparseForwardDataFlowAnalysis;

  llvm::LogicalResult
  visitOperation(mlir::Operation *op,
                 llvm::ArrayRef<const RangeLattice *> operands,
                 llvm::ArrayRef<RangeLattice *> results) override;
  void visitNonControlFlowArguments(mlir::Operation *op,
                                    const mlir::RegionSuccessor &successor,
                                    llvm::ArrayRef<RangeLattice *> arguments,
                                    unsigned firstIndex) override;
  void setToEntryState(RangeLattice *lattice) override;

private:
  void visitWhile(mlir::Operation *op,
                  llvm::ArrayRef<const RangeLattice *> operands,
                  llvm::ArrayRef<RangeLattice *> results);
  void visitBranches(mlir::Operation *op,
                     llvm::ArrayRef<RangeLattice *> results);
};

/// The states of all values of a module, computed once.
class ModuleRanges {
public:
  static llvm::FailureOr<ModuleRanges> compute(mlir::ModuleOp module);

  /// Returns the state of a value; unknown if it is unreachable.
  const RangeState &lookup(mlir::Value value) const;

private:
  ModuleRanges() = default;
  std::unique_ptr<mlir::DataFlowSolver> solver;
};

/// Returns the state that `scalify.range` declares for a function argument, or
/// the unknown state of its type.
RangeState getDeclaredRange(mlir::BlockArgument argument);
/// Returns the declared dictionary, or null.
mlir::DictionaryAttr getRangeAttr(mlir::BlockArgument argument);

} // namespace scalify

#endif // SCALIFY_SCALING_RANGEANALYSIS_H
