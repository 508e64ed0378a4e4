//===- PlanMemory.h - Memory of a step --------------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_PLAN_PLANMEMORY_H
#define SCALIFY_DIALECT_PLAN_PLANMEMORY_H

#include "scalify/Dialect/Plan/Plan.h"

#include "llvm/Support/JSON.h"

#include <map>

namespace scalify::plan {

/// The memory of one step in bytes, measured on a program with an arena.
struct PlanMemory {
  int64_t parameters = 0; // elements of arguments that are parameters
  std::map<std::string, int64_t> arguments; // by role
  int64_t results = 0;                      // not in the memory of an argument
  int64_t constants = 0;
  int64_t arena = 0;
  int64_t tiles = 0;     // of each thread, beside the arena
  int64_t kept = 0;      // of the arena: forward values kept for later
  int64_t weights = 0;   // of the arena: casts of weights, kept as long
  int64_t gradients = 0; // of the arena: backward values kept for the update

  int64_t state() const;
  int64_t peak() const;
};

PlanMemory measureMemory(ProgramOp program);

llvm::json::Object toJSON(const PlanMemory &memory);

/// Returns a few lines for a terminal.
std::string toText(const PlanMemory &memory);

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLANMEMORY_H
