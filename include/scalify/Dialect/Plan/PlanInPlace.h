//===- PlanInPlace.h - What may be written where it is read -----*- C++ -*-===//
//
// A kernel may write over what it reads in one case only: it reads each element
// where it writes the same one, or, for a sum of a row, before it writes any of
// that row. All that decides on memory asks here: results in the memory of
// donated arguments, temporaries that die in a kernel, scatters; and so does
// the verifier of programs.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_PLAN_PLANINPLACE_H
#define SCALIFY_DIALECT_PLAN_PLANINPLACE_H

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::plan {

/// Whether the result has each element of the operand once, or a row of it, in
/// the operand's order: all dimensions of the operand are the leading ones.
bool broadcastsRows(stablehlo::BroadcastInDimOp op);

/// Whether each element of the result is made of a row of the operand: the last
/// dimensions are reduced, and no others.
bool reducesRows(stablehlo::ReduceOp op);

/// The order in which a kernel reads elements, against that in which it writes.
class ElementOrder {
public:
  /// Of a kernel that computes `outputs` by `ops`, each of which stands behind
  /// those that it reads. What no op of them defines is read from memory.
  ElementOrder(llvm::ArrayRef<mlir::Operation *> ops, mlir::ValueRange outputs);
  explicit ElementOrder(KernelOp kernel);

  /// True if `out`, an output, may be written into the memory of `in`.
  bool mayReplace(mlir::Value out, mlir::Value in) const;

  /// Elements of the rows that are summed before they are written; 0 where
  /// none are. Each task of a kernel has whole rows, and reads all of one
  /// before it writes the first element: codegen's part of the proof.
  int64_t rowLength() const { return hasRowSums ? columns : 0; }

private:
  /// How the elements of a value are met while the kernel walks its outputs.
  enum class Met : uint8_t {
    ByElement, // once each, where the same element of an output is written
    ByRow,     // once a row
    Elsewhere, // in another order, or several times
  };
  void walk(llvm::ArrayRef<mlir::Operation *> ops, mlir::ValueRange outputs);
  void meet(mlir::Value value, Met how);
  void meetOperands(mlir::Operation *op, Met how);
  bool meetBroadcast(mlir::Operation *op, Met how);
  bool endsRows(mlir::ValueRange outputs) const;

  int64_t full = 0;    // elements of the largest output
  int64_t columns = 0; // of a row, once something is met by row
  bool hasRowSums = false;
  llvm::DenseMap<mlir::Value, Met> met;
};

/// Fails where a command touches bytes that it writes in any other way: no
/// buffer that it writes shares a byte with another one of its buffers, but
/// those of an `inplace` pair that `ElementOrder` proves, and the two of a
/// collective.
mlir::LogicalResult verifyInPlace(ProgramOp program);

/// Fails where a command reads bytes of a temporary, or of a result that has no
/// argument's memory, which none before it has written.
mlir::LogicalResult verifyWritten(ProgramOp program);

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLANINPLACE_H
