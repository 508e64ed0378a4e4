//===- PlanInPlace.h - Legality of in-place writes --------------*- C++ -*-===//
//
// A kernel may overwrite its input in one case only: it reads each element
// where it writes the same element, or, for the sum of a row, before it writes
// any element of that row. All decisions on memory use this check (results in
// the memory of donated arguments, temporaries that die in a kernel, scatters),
// and so does the verifier of programs.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_PLAN_PLANINPLACE_H
#define SCALIFY_DIALECT_PLAN_PLANINPLACE_H

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::plan {

/// True if the result holds each element of the operand once, or as a row of
/// copies, in the operand's order: all dimensions of the operand are the
/// leading ones.
bool broadcastsRows(stablehlo::BroadcastInDimOp op);

/// True if each element of the result reduces a row of the operand: the last
/// dimensions are reduced, and no others.
bool reducesRows(stablehlo::ReduceOp op);

/// The order in which a kernel reads elements, relative to its writes.
class ElementOrder {
public:
  /// For a kernel that computes `outputs` by `ops`, which are in topological
  /// order. Values that no op in `ops` defines are read from memory.
  ElementOrder(llvm::ArrayRef<mlir::Operation *> ops, mlir::ValueRange outputs);
  explicit ElementOrder(KernelOp kernel);

  /// True if `out`, an output, may be written into the memory of `in`.
  bool mayReplace(mlir::Value out, mlir::Value in) const;

  /// Returns the length of rows that are summed before they are written, 0 if
  /// there are none. Each task of a kernel has whole rows, and reads all of a
  /// row before it writes its first element: that is codegen's part of the
  /// proof.
  int64_t rowLength() const { return hasRowSums ? columns : 0; }

private:
  /// How the kernel reads a value's elements while it iterates over outputs.
  enum class ReadPattern : uint8_t {
    ByElement, // once each, where the same element of an output is written
    ByRow,     // once per row
    Elsewhere, // in another order, or several times
  };
  void walk(llvm::ArrayRef<mlir::Operation *> ops, mlir::ValueRange outputs);
  void meet(mlir::Value value, ReadPattern how);
  void recordOperands(mlir::Operation *op, ReadPattern how);
  bool recordBroadcast(mlir::Operation *op, ReadPattern how);
  bool endsRows(mlir::ValueRange outputs) const;

  int64_t full = 0;    // elements of the largest output
  int64_t columns = 0; // row length, once a value is read by row
  bool hasRowSums = false;
  llvm::DenseMap<mlir::Value, ReadPattern> met;
};

/// Fails if a command touches bytes that it writes through another operand.
/// Exempt are the buffers of an `inplace` pair that `ElementOrder` proves, and
/// the two buffers of a collective.
mlir::LogicalResult verifyInPlace(ProgramOp program);

/// Fails if a command reads bytes of a temporary, or of a result without an
/// argument's memory, that no earlier command has written.
mlir::LogicalResult verifyWritten(ProgramOp program);

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLANINPLACE_H
