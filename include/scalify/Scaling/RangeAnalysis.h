//===- RangeAnalysis.h - Bounds of every value of a module ------*- C++ -*-===//

#ifndef SCALIFY_SCALING_RANGEANALYSIS_H
#define SCALIFY_SCALING_RANGEANALYSIS_H

#include "scalify/Scaling/RangeState.h"

#include "mlir/Analysis/DataFlow/SparseAnalysis.h"
#include "mlir/Analysis/DataFlowFramework.h"
#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace scalify {

/// What an argument of main is known to be, a dictionary: `min` and `max` of
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

/// Forward analysis of MLIR's sparse kind. Loops run to a fixpoint with
/// widening; what the transfer functions do not know is unbounded.
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

  /// The state of a value; unknown where control never comes.
  const RangeState &lookup(mlir::Value value) const;

private:
  ModuleRanges() = default;
  std::unique_ptr<mlir::DataFlowSolver> solver;
};

/// The state that `scalify.range` declares of an argument of a function, or
/// what is known of its type.
RangeState getDeclaredRange(mlir::BlockArgument argument);
/// The declared dictionary, or null.
mlir::DictionaryAttr getRangeAttr(mlir::BlockArgument argument);

} // namespace scalify

#endif // SCALIFY_SCALING_RANGEANALYSIS_H
