//===- Provenance.h - The rule and the sources of each scale ----*- C++ -*-===//
//
// A scale follows from the facts that its rule read. Propagation can record
// this graph: every value of the function gets a number, and the module a table
// with one entry per number. The table outlives the values, so that a chain of
// rules stays complete when a pass erases an op.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_SCALING_PROVENANCE_H
#define SCALIFY_SCALING_PROVENANCE_H

#include "mlir/Interfaces/FunctionInterfaces.h"

#include <optional>
#include <string>
#include <vector>

namespace scalify {

class ScaleAnalysis;

/// On an op: the number of its first result; those of the others follow. On an
/// argument of the function: its number.
inline constexpr llvm::StringLiteral kIdAttr = "scalify.id";
/// On a loop or branch: per region, the number of its first block argument.
inline constexpr llvm::StringLiteral kBodyIdsAttr = "scalify.body_ids";
/// On the module: the table.
inline constexpr llvm::StringLiteral kProvenanceAttr = "scalify.provenance";

/// The record of one value.
struct ProvenanceEntry {
  ProvenanceEntry(mlir::Location loc, mlir::Type type) : loc(loc), type(type) {}

  std::string op;
  std::string phase;
  std::string rule;
  mlir::Location loc;
  mlir::Type type;
  /// log2 of the scale; none if the value is not floating point.
  std::optional<int64_t> scale;
  /// The facts that determined the scale; none if they are not known.
  std::optional<double> mean, rms, bound;
  /// The numbers of the values whose facts the rule read.
  std::vector<int32_t> from;
  /// True inside a loop or a branch.
  bool isInBody = false;
};

/// Numbers the values of `func` and sets the table. Without `analysis`, for a
/// function that was propagated before, scales and rules are read from the ops'
/// attributes, facts are unknown, and a value's sources are its operands.
void annotateProvenance(mlir::FunctionOpInterface func,
                        const ScaleAnalysis *analysis);

/// Returns the table of a module; empty if it has none.
std::vector<ProvenanceEntry> readProvenance(mlir::Operation *module);

/// Returns the number of a value in that table.
std::optional<int32_t> getProvenanceId(mlir::Value value);

/// Removes the numbers and the table.
void eraseProvenance(mlir::Operation *module);

/// Returns the regions of a loop or a branch, whose values have scales. Empty
/// for other ops, such as reductions.
llvm::MutableArrayRef<mlir::Region> getScaledBodies(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_SCALING_PROVENANCE_H
