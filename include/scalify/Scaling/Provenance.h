//===- Provenance.h - Which rule made which scale, and from what -*- C++
//-*-===//
//
// A scale follows from the facts that its rule asked for. Propagation can
// write this graph down: every value of the function gets a number, and the
// module a table with one entry a number. The table outlives the values, so
// that a chain of rules stays whole when a pass drops an op.
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

/// What is known of one value.
struct ProvenanceEntry {
  ProvenanceEntry(mlir::Location loc, mlir::Type type) : loc(loc), type(type) {}

  std::string op;
  std::string phase;
  std::string rule;
  mlir::Location loc;
  mlir::Type type;
  /// log2 of the scale; none of what is not floating point.
  std::optional<int64_t> scale;
  /// Facts that the scale was chosen by; none where they are not known.
  std::optional<double> mean, rms, bound;
  /// The numbers of the values whose facts the rule asked for.
  std::vector<int32_t> from;
  /// Inside of a loop or a branch.
  bool isInBody = false;
};

/// Numbers the values of `func` and sets the table. Without `analysis`, for a
/// function that was propagated before, scales and rules are read off the ops,
/// facts are not known, and a value comes from its operands.
void annotateProvenance(mlir::FunctionOpInterface func,
                        const ScaleAnalysis *analysis);

/// The table of a module; empty if it has none.
std::vector<ProvenanceEntry> readProvenance(mlir::Operation *module);

/// The number of a value in that table.
std::optional<int32_t> getProvenanceId(mlir::Value value);

/// Removes numbers and table.
void eraseProvenance(mlir::Operation *module);

/// The regions of a loop or a branch, in whose values scales are carried; none
/// of a reduction and its like.
llvm::MutableArrayRef<mlir::Region> getScaledBodies(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_SCALING_PROVENANCE_H
