//===- StreamCommands.h - Commands on streams, by events --------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_STREAMCOMMANDS_H
#define SCALIFY_LIB_FUSION_STREAMCOMMANDS_H

#include "scalify/Dialect/Plan/PlanStreams.h"

namespace scalify {

/// A command with its stream and the numbers of the earlier commands that must
/// be done before it starts, sorted and unique.
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

/// Returns the commands, in order, of a program whose temporaries have no
/// offsets yet. A command needs each earlier one that accesses the same bytes
/// if one of the two writes them.
llvm::SmallVector<StreamCommand> readCommands(plan::ProgramOp program);

/// Erases events, and adds the order that they enforced to the needs of
/// `commands`.
void removeEvents(plan::ProgramOp program,
                  llvm::MutableArrayRef<StreamCommand> commands);

/// Sets the streams of commands, which are in this order in the program, and
/// inserts a wait before each command that needs one of another stream which is
/// not known to be done. Returns the number of events.
size_t placeEvents(llvm::ArrayRef<StreamCommand> commands);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_STREAMCOMMANDS_H
