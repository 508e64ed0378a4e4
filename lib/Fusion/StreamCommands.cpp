//===- StreamCommands.cpp - Commands on streams, ordered by events --------===//
//
// The shared part of passes that put commands on streams: the dependences
// between commands, and the fewest events that enforce them.
//
//===----------------------------------------------------------------------===//

#include "StreamCommands.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;
using namespace scalify;

SmallVector<StreamCommand> scalify::readCommands(plan::ProgramOp program) {
  SmallVector<StreamCommand> commands;
  struct Touch {
    plan::Access access;
    size_t command;
  };
  llvm::MapVector<std::pair<int, int64_t>, SmallVector<Touch>> touched;
  for (Operation &op : program.getBody().front()) {
    SmallVector<plan::Access> accesses = plan::accessesOf(&op);
    if (accesses.empty() || isa<plan::TempOp>(op))
      continue;
    StreamCommand command = {&op, plan::streamOf(&op), {}};
    for (const plan::Access &access : accesses)
      for (const Touch &touch : touched[access.memory])
        if (access.conflictsWith(touch.access))
          command.needs.push_back(touch.command);
    llvm::sort(command.needs);
    command.needs.erase(llvm::unique(command.needs), command.needs.end());
    for (const plan::Access &access : accesses)
      touched[access.memory].push_back({access, commands.size()});
    commands.push_back(std::move(command));
  }
  return commands;
}

void scalify::removeEvents(plan::ProgramOp program,
                           MutableArrayRef<StreamCommand> commands) {
  std::map<int64_t, SmallVector<size_t>> before; // an event, of any number
  // By stream: its last command, and the commands that its next one waits for.
  llvm::DenseMap<int64_t, SmallVector<size_t>> last, awaited;
  auto *next = commands.begin();
  for (Operation &op : llvm::make_early_inc_range(program.getBody().front())) {
    int64_t stream = plan::streamOf(&op);
    if (auto record = dyn_cast<plan::RecordOp>(op)) {
      before[record.getEvent()] = last[stream];
      before[record.getEvent()].append(awaited[stream]);
    } else if (auto wait = dyn_cast<plan::WaitOp>(op)) {
      awaited[stream].append(before[wait.getEvent()]);
    } else {
      if (next != commands.end() && next->op == &op) {
        for (size_t need : awaited[stream])
          next->addNeed(need);
        awaited[stream].clear();
        last[stream] = {static_cast<size_t>(next++ - commands.begin())};
      }
      continue;
    }
    op.erase();
  }
}

size_t scalify::placeEvents(ArrayRef<StreamCommand> commands) {
  int64_t count = 1;
  for (const StreamCommand &command : commands)
    count = std::max(count, command.stream + 1);
  // Vector clocks: how many commands of each other stream are known to be done,
  // now on each stream, and after each command.
  SmallVector<SmallVector<size_t>> now(count, SmallVector<size_t>(count, 0));
  SmallVector<SmallVector<size_t>> done;
  llvm::DenseMap<size_t, int64_t> events; // by command
  for (const StreamCommand &command : commands) {
    SmallVector<size_t> &own = now[command.stream];
    OpBuilder b(command.op);
    for (size_t need : llvm::reverse(command.needs)) {
      int64_t other = commands[need].stream;
      if (own[other] >= done[need][other])
        continue;
      auto [event, isNew] = events.try_emplace(need, events.size());
      if (isNew) {
        OpBuilder behind(commands[need].op->getContext());
        behind.setInsertionPointAfter(commands[need].op);
        plan::RecordOp::create(behind, commands[need].op->getLoc(),
                               event->second, other);
      }
      plan::WaitOp::create(b, command.op->getLoc(), event->second,
                           command.stream);
      for (int64_t s = 0; s < count; ++s)
        own[s] = std::max(own[s], done[need][s]);
    }
    ++own[command.stream];
    done.push_back(own);
    if (command.stream)
      command.op->setAttr(plan::kStreamAttr,
                          b.getI64IntegerAttr(command.stream));
  }
  return events.size();
}
