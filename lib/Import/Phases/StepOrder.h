//===- StepOrder.h - Several steps in one block -----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_STEPORDER_H
#define SCALIFY_LIB_IMPORT_PHASES_STEPORDER_H

#include "Phases.h"

namespace scalify::import {

/// A block may hold several steps: an update whose weights a next forward
/// reads. A place in time is a step and a phase of it. What names tell the
/// phase of is at the first such place that is no earlier than what it reads,
/// all else at the last place of what it reads.
class StepOrder {
public:
  struct Place {
    unsigned step;
    Phase phase;
    bool operator<(const Place &other) const {
      return std::pair(step, phase) < std::pair(other.step, other.phase);
    }
  };

  /// `told` has the phases that names tell, `outside` those of the ops around.
  StepOrder(mlir::Block &block, const PhaseMap &told, const PhaseMap &outside);

  Place getPlace(mlir::Value value) const;
  Place getPlace(mlir::Operation *op) const { return places.lookup(op); }
  /// The first place at which a told op needs the value, directly or not.
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
