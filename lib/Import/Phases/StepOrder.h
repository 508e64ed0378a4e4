//===- StepOrder.h - Several steps in one block -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_STEPORDER_H
#define SCALIFY_LIB_IMPORT_PHASES_STEPORDER_H

#include "Phases.h"

namespace scalify::import {

/// Orders the ops of a block in time. A block may contain several steps: an
/// update, and a forward that reads its weights. A place is a step and a phase
/// of it. An op with a named phase is at the first place of that phase that is
/// no earlier than its operands; other ops are at the last place of their
/// operands.
class StepOrder {
public:
  struct Place {
    unsigned step;
    Phase phase;
    bool operator<(const Place &other) const {
      return std::pair(step, phase) < std::pair(other.step, other.phase);
    }
  };

  /// `told` has the named phases, `outside` those of the ops around.
  StepOrder(mlir::Block &block, const PhaseMap &told, const PhaseMap &outside);

  Place getPlace(mlir::Value value) const;
  Place getPlace(mlir::Operation *op) const { return places.lookup(op); }
  /// Returns the first place at which an op with a named phase depends on the
  /// value.
  std::optional<Place> getNeed(mlir::Value value) const;
  std::optional<Place> getNeed(mlir::Operation *op) const;

private:
  void placeOps();
  void findNeeds();
  void addNeed(mlir::Value value, Place place);

  mlir::Block &block;
  const PhaseMap &told, &outside;
  llvm::DenseMap<mlir::Operation *, Place> places;
  llvm::DenseMap<mlir::Value, Place> needs;
};

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_STEPORDER_H
