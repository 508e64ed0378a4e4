//===- StepOrder.cpp - Several steps in one block -------------------------===//

#include "StepOrder.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

StepOrder::StepOrder(Block &block, const PhaseMap &told,
                     const PhaseMap &outside)
    : block(block), told(told), outside(outside) {
  placeOps();
  findNeeds();
}

/// Looks through barriers, which may hold both gradients and activations.
StepOrder::Place StepOrder::getPlace(Value value) const {
  value = lookThrough(value, Move::Barrier);
  Operation *op = value.getDefiningOp();
  if (!op)
    return {0, Phase::Forward};
  if (op->getBlock() == &block)
    return places.lookup(op);
  return {0, outside.lookup(op)};
}

void StepOrder::placeOps() {
  for (Operation &op : block) {
    Place place{0, Phase::Forward};
    for (Value read : getReads(op))
      place = std::max(place, getPlace(read));
    if (auto own = told.find(&op); own != told.end()) {
      place.step += own->second < place.phase;
      place.phase = own->second;
    }
    places[&op] = place;
  }
}

void StepOrder::addNeed(Value value, Place place) {
  auto [at, inserted] = needs.try_emplace(value, place);
  if (!inserted)
    at->second = std::min(at->second, place);
}

void StepOrder::findNeeds() {
  for (Operation &op : llvm::reverse(block)) {
    if (isa<stablehlo::OptimizationBarrierOp>(op)) {
      for (auto [operand, result] :
           llvm::zip(op.getOperands(), op.getResults()))
        if (std::optional<Place> need = getNeed(result))
          addNeed(operand, *need);
      continue;
    }
    std::optional<Place> need =
        told.contains(&op) ? getPlace(&op) : getNeed(&op);
    if (!need)
      continue;
    for (Value read : getReads(op))
      addNeed(read, *need);
  }
}

std::optional<StepOrder::Place> StepOrder::getNeed(Value value) const {
  auto need = needs.find(value);
  return need == needs.end() ? std::nullopt : std::optional(need->second);
}

std::optional<StepOrder::Place> StepOrder::getNeed(Operation *op) const {
  std::optional<Place> first;
  for (Value result : op->getResults())
    if (std::optional<Place> need = getNeed(result); need)
      first = first ? std::min(*first, *need) : *need;
  return first;
}
