//===- NextValues.h - Which result is an argument's next value --*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_NEXTVALUES_H
#define SCALIFY_LIB_IMPORT_NEXTVALUES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace scalify::import {

/// Pairs arguments of main with the results that are their next values: new
/// parameters, moments and counters, or gradients. In this order:
///
/// 1. A result that elementwise ops compute from an argument of its type is its
///    update, if it depends on gradients, or the forward does not read the
///    argument, as running means. Of several arguments the nearest counts.
/// 2. An argument is donated to its next value, as JAX pairs both by type.
/// 3. A result may be an argument that the step does not change.
/// 4. Leaves of one tree have next values at their positions in another tree.
/// 5. A result that depends on gradients in any other way is the gradient of an
///    argument, or its new value as a narrow weight's is the converted master.
///    Values from which the step computes other new values are by-products.
///
/// Positions in pytrees break ties, then order.
class NextValues {
public:
  using Predicate = llvm::function_ref<bool(mlir::Operation *)>;
  /// The predicates tell which ops of main's block are known to be forward and
  /// backward.
  NextValues(mlir::func::FuncOp main, Predicate isForward,
             Predicate isBackward);

  std::optional<unsigned> getResult(unsigned argument) const {
    return results[argument] < 0 ? std::nullopt
                                 : std::optional<unsigned>(results[argument]);
  }
  bool hasNextValue(unsigned argument) const { return results[argument] >= 0; }
  /// True if the result is the next value of an argument.
  bool isNextValue(unsigned result) const { return owners[result] >= 0; }
  bool any() const {
    return llvm::any_of(owners, [](int64_t owner) { return owner >= 0; });
  }
  /// True if an argument is donated or updated by elementwise ops, or is a
  /// weight that dots of a gradient, or loops, read as derivatives do. Types
  /// alone are no such evidence.
  bool hasEvidence() const { return evident; }

private:
  friend class NextValueFinder;
  llvm::SmallVector<int64_t> results; // of each argument, or -1
  llvm::SmallVector<int64_t> owners;  // of each result, or -1
  bool evident = false;
};

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_NEXTVALUES_H
