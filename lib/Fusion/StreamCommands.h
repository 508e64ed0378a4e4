//===- StreamCommands.h - Commands that streams and events order *- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STREAMCOMMANDS_H
#define SCALIFY_LIB_FUSION_STREAMCOMMANDS_H

#include "scalify/Dialect/Plan/PlanStreams.h"

namespace scalify {

/// A command with its stream, and the earlier ones, by number, that must be
/// done before it starts; in order, each once.
struct StreamCommand {
  mlir::Operation *op = nullptr;
  int64_t stream = 0;
  llvm::SmallVector<size_t> needs;

  void addNeed(size_t need) {
    auto place = llvm::lower_bound(needs, need);
    if (place == needs.end() || *place != need)
      needs.insert(place, need);
  }
};

/// The commands of a program whose temporaries have no offsets yet, in order.
/// They need what touches the same bytes, if one of the two writes.
llvm::SmallVector<StreamCommand> readCommands(plan::ProgramOp program);

/// Erases events, and lets `commands` need what they ordered.
void takeEvents(plan::ProgramOp program,
                llvm::MutableArrayRef<StreamCommand> commands);

/// Writes the streams of commands that stand in this order, with a wait before
/// each that needs one of another stream which is not known to be done. Returns
/// the number of events.
size_t placeEvents(llvm::ArrayRef<StreamCommand> commands);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STREAMCOMMANDS_H
