//===- SplitStages.cpp - The program of each stage of a pipeline ----------===//
//
// All stages' programs are cut from one plan, so their kernels and GEMMs are
// those of one process. A stage has the commands of its tasks, in the order of
// the schedule, and clones of the commands without a task, before their first
// use. All messages have one order, by the time at which their values are
// computed. Each stage sends and receives its own in that order, between
// commands that follow the same order, so no two stages can wait for each
// other.
//
//===----------------------------------------------------------------------===//

#include "StageCommands.h"

#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/IR/IRMapping.h"

#include <map>
#include <set>

namespace scalify {
#define GEN_PASS_DEF_SPLITSTAGES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
/// The contents of a buffer after a command, or (no command) as the caller
/// passed it.
struct Version {
  Value first;
  std::optional<size_t> second;

  bool operator<(const Version &other) const {
    return std::pair(first.getAsOpaquePointer(), second) <
           std::pair(other.first.getAsOpaquePointer(), other.second);
  }
};

struct Message {
  Version what;
  int64_t from = 0, to = 0;
  Moment moment;
  std::string name;
  size_t number = 0; // in the order of discovery
};

/// The state shared by all stages.
class StageSplit {
public:
  StageSplit(plan::ProgramOp program, const PipelineShape &shape)
      : program(program), schedule(shape),
        streamCommands(readCommands(program)),
        commands(readStagedCommands(
            streamCommands, schedule,
            [this](int64_t argument) { return ownerOf(argument); })) {
    for (auto [number, command] : llvm::enumerate(commands))
      for (OpOperand &operand : command.op->getOpOperands())
        if (std::optional<plan::Access> access = plan::accessOf(operand);
            access && access->isWrite)
          writers[operand.get()].push_back(number);
  }

  LogicalResult run();

  int64_t ownerOf(int64_t argument) const {
    auto attrs = cast<DictionaryAttr>(
        program->getAttrOfType<ArrayAttr>(plan::kArgsAttr)[argument]);
    auto owner = attrs.getAs<IntegerAttr>(plan::kOwnerAttr);
    return owner ? owner.getInt() : kAllStages;
  }

  plan::ProgramOp program;
  StageSchedule schedule;
  SmallVector<StreamCommand> streamCommands;
  SmallVector<StagedCommand> commands;
  std::vector<Message> messages;
  SmallVector<int64_t> resultOwners;
  llvm::DenseMap<Value, SmallVector<size_t>> writers; // of a buffer, in order
  /// Values of other stages that commands read, by command and operand.
  std::map<std::pair<size_t, unsigned>, Version> received;

private:
  std::set<std::pair<Version, int64_t>> sent; // with the receiving stage
  FailureOr<std::optional<size_t>> findWriter(size_t reader,
                                              OpOperand &operand);
  LogicalResult findMessages();
  LogicalResult findResults();
  LogicalResult send(Version what, int64_t from, int64_t to, Moment until,
                     Operation *reader);
};
} // namespace

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// Returns the command that wrote the memory that an operand reads; none if it
/// is as the caller passed it.
FailureOr<std::optional<size_t>> StageSplit::findWriter(size_t reader,
                                                        OpOperand &operand) {
  plan::Access read = *plan::accessOf(operand);
  std::optional<size_t> writer;
  for (size_t need : llvm::reverse(commands[reader].needs)) {
    bool covers = false, touches = false;
    for (const plan::Access &access : plan::accessesOf(commands[need].op)) {
      if (!access.isWrite || !access.conflictsWith(read))
        continue;
      touches = true;
      covers |= access.begin <= read.begin && access.end >= read.end;
    }
    if (!touches)
      continue;
    if (writer && commands[need].stage != kAllStages &&
        commands[need].stage != commands[*writer].stage)
      return commands[reader].op->emitOpError("reads memory that stages ")
             << commands[need].stage << " and " << commands[*writer].stage
             << " have both written, which a pipeline cannot send";
    if (!writer)
      writer = need;
    if (covers)
      break;
  }
  return writer;
}

static std::string describe(Operation *command) {
  if (auto kernel = dyn_cast<plan::KernelOp>(command))
    return kernel.getName().str();
  if (auto gemm = dyn_cast<plan::GemmOp>(command))
    return gemm.getName().str();
  return command->getName().stripDialect().str();
}

LogicalResult StageSplit::send(Version what, int64_t from, int64_t to,
                               Moment until, Operation *reader) {
  if (!sent.insert({what, to}).second)
    return success();
  Message message = {what, from, to, {-1, 0}, ""};
  if (what.second) {
    const StagedCommand &writer = commands[*what.second];
    bool isUpdate = writer.task->kind == StageTask::Update;
    message.moment =
        isUpdate || writer.isLate
            ? Moment(writer.moment.first, writer.moment.second + 0.5)
            : Moment(schedule.endOf(*writer.task), -1);
    message.name = writer.task->toString() + " " + describe(writer.op);
  } else {
    auto argument = what.first.getDefiningOp<plan::ArgumentOp>();
    message.moment.second = static_cast<double>(argument.getIndex());
    message.name = "argument " + std::to_string(argument.getIndex());
  }
  if (message.moment > until)
    return reader->emitOpError("runs on stage ")
           << to << " before stage " << from << " has computed its operand ('"
           << message.name
           << "'): place borders so that gradients return over the borders "
              "that their values crossed";
  message.number = messages.size();
  messages.push_back(std::move(message));
  return success();
}

LogicalResult StageSplit::findMessages() {
  for (auto [number, command] : llvm::enumerate(commands)) {
    if (command.stage == kAllStages)
      continue;
    for (OpOperand &operand : command.op->getOpOperands()) {
      std::optional<plan::Access> access = plan::accessOf(operand);
      if (!access || access->isWrite)
        continue;
      FailureOr<std::optional<size_t>> writer = findWriter(number, operand);
      if (failed(writer))
        return failure();
      int64_t owner = kAllStages;
      if (*writer)
        owner = commands[**writer].stage;
      else if (auto argument = operand.get().getDefiningOp<plan::ArgumentOp>())
        owner = ownerOf(argument.getIndex());
      if (owner == kAllStages || owner == command.stage)
        continue;
      Version what = {operand.get(), *writer};
      if (failed(send(what, owner, command.stage, command.moment, command.op)))
        return failure();
      received[{number, operand.getOperandNumber()}] = what;
    }
  }
  return success();
}

/// Assigns results to stages: a result stays on the stage that computes it; a
/// result of one element, such as the loss, goes to all, and so does one that
/// replaces an argument that all have.
LogicalResult StageSplit::findResults() {
  for (auto result : program.getBody().getOps<plan::ResultOp>()) {
    std::optional<size_t> writer;
    if (ArrayRef<size_t> all = writers[result.getMemory()]; !all.empty())
      writer = all.back();
    std::optional<int64_t> argument = result.getAliasArg();
    int64_t owner = kAllStages;
    if (writer)
      owner = commands[*writer].stage;
    else if (argument) // state that the step does not change
      owner = ownerOf(*argument);
    auto type = cast<MemRefType>(result.getMemory().getType());
    // State of one element, such as a gate, has one owner like other state.
    bool isForAll = argument ? ownerOf(*argument) == kAllStages
                             : type.getNumElements() == 1;
    if (owner != kAllStages && isForAll) {
      Moment end = {std::numeric_limits<double>::max(), 0};
      for (int64_t to = 0; to < schedule.getShape().stages; ++to)
        if (to != owner &&
            failed(send({result.getMemory(), writer}, owner, to, end, result)))
          return failure();
      owner = kAllStages;
    }
    if (argument && ownerOf(*argument) != owner)
      return result.emitOpError("is computed by stage ")
             << owner << ", but takes the memory of an argument that stage "
             << ownerOf(*argument) << " owns";
    resultOwners.push_back(owner);
  }
  return success();
}

LogicalResult StageSplit::run() {
  if (failed(findMessages()) || failed(findResults()))
    return failure();
  llvm::sort(messages, [](const Message &a, const Message &b) {
    return std::tie(a.moment, a.number) < std::tie(b.moment, b.number);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// The program of a stage
//===----------------------------------------------------------------------===//

namespace {
class StageWriter {
public:
  StageWriter(StageSplit &split, int64_t stage)
      : split(split), stage(stage), b(split.program.getContext()),
        buffersEnd(b) {}

  FailureOr<plan::ProgramOp> write();

private:
  void chooseArguments();
  void writeInterface();
  Value bufferOf(Value buffer);
  Value versionOf(const Version &version);
  LogicalResult emit(size_t command);
  LogicalResult checkIsSent(const Message &message);
  LogicalResult emit(const Message &message);
  void replaceArgument(const Message &message);
  LogicalResult emitAll();

  StageSplit &split;
  int64_t stage;
  OpBuilder b, buffersEnd;
  plan::ProgramOp made;
  llvm::DenseMap<Value, Value> buffers;
  std::map<std::pair<void *, int64_t>, Value> copies; // of versions
  std::vector<bool> isEmitted, isWanted;
  SmallVector<int64_t> arguments, results;               // their old numbers
  llvm::DenseMap<int64_t, int64_t> argumentOf, resultOf; // old to new
};
} // namespace

/// Selects the arguments that this stage owns, and of those that all stages
/// have the ones that it reads or, as the memory of a result, writes.
void StageWriter::chooseArguments() {
  size_t count = split.commands.size();
  isWanted.assign(count, false);
  isEmitted.assign(count, false);
  for (auto [number, owner] : llvm::enumerate(split.resultOwners))
    if (owner == kAllStages || owner == stage)
      results.push_back(number);
  llvm::DenseSet<Value> kept;
  for (auto result : split.program.getBody().getOps<plan::ResultOp>())
    if (llvm::is_contained(results, result.getIndex()))
      kept.insert(result.getMemory());
  for (size_t number = count; number-- > 0;) {
    const StagedCommand &command = split.commands[number];
    bool makesResult =
        command.stage == kAllStages &&
        llvm::any_of(command.op->getOpOperands(), [&](OpOperand &operand) {
          std::optional<plan::Access> access = plan::accessOf(operand);
          return access && access->isWrite && kept.contains(operand.get());
        });
    if (command.stage == stage || makesResult)
      isWanted[number] = true;
    if (!isWanted[number])
      continue;
    for (size_t need : command.needs)
      if (split.commands[need].stage == kAllStages)
        isWanted[need] = true;
  }
  llvm::DenseSet<int64_t> used;
  for (auto [number, command] : llvm::enumerate(split.commands))
    if (isWanted[number])
      for (Value operand : command.op->getOperands())
        if (auto argument = operand.getDefiningOp<plan::ArgumentOp>())
          used.insert(argument.getIndex());
  for (auto result : split.program.getBody().getOps<plan::ResultOp>())
    if (kept.contains(result.getMemory()) && result.getAliasArg())
      used.insert(*result.getAliasArg());
  auto all = split.program->getAttrOfType<ArrayAttr>(plan::kArgsAttr);
  for (int64_t index = 0; index < static_cast<int64_t>(all.size()); ++index) {
    int64_t owner = split.ownerOf(index);
    if (owner == stage || (owner == kAllStages && used.contains(index)))
      arguments.push_back(index);
  }
}

/// Writes the attributes of the program's arguments and results, with their new
/// numbers.
void StageWriter::writeInterface() {
  for (auto [to, from] : llvm::enumerate(arguments))
    argumentOf[from] = to;
  for (auto [to, from] : llvm::enumerate(results))
    resultOf[from] = to;
  auto select = [&](StringRef name, ArrayRef<int64_t> which) {
    auto all = split.program->getAttrOfType<ArrayAttr>(name);
    SmallVector<Attribute> chosen;
    for (int64_t index : which)
      chosen.push_back(all[index]);
    made->setAttr(name, b.getArrayAttr(chosen));
  };
  select(plan::kArgTypesAttr, arguments);
  select(plan::kResultsAttr, results);
  select(plan::kResultTypesAttr, results);
  SmallVector<Attribute> attrs;
  auto all = split.program->getAttrOfType<ArrayAttr>(plan::kArgsAttr);
  for (int64_t index : arguments) {
    NamedAttrList entry(cast<DictionaryAttr>(all[index]));
    if (auto alias = entry.get(kAliasAttr))
      entry.set(kAliasAttr,
                b.getI32IntegerAttr(static_cast<int32_t>(
                    resultOf.lookup(cast<IntegerAttr>(alias).getInt()))));
    attrs.push_back(entry.getDictionary(b.getContext()));
  }
  made->setAttr(plan::kArgsAttr, b.getArrayAttr(attrs));
  SmallVector<int64_t> argumentOwners;
  for (size_t index = 0; index < all.size(); ++index)
    argumentOwners.push_back(split.ownerOf(static_cast<int64_t>(index)));
  auto named = [&](StringRef name, Attribute value) {
    return b.getNamedAttr(name, value);
  };
  made->setAttr(
      plan::kPipelineAttr,
      b.getDictionaryAttr(
          {named("stage", b.getI64IntegerAttr(stage)),
           named("args", b.getI64ArrayAttr(arguments)),
           named("arg_owners", b.getI64ArrayAttr(argumentOwners)),
           named("results", b.getI64ArrayAttr(results)),
           named("result_owners", b.getI64ArrayAttr(split.resultOwners)),
           named("arg_types", split.program->getAttr(plan::kArgTypesAttr)),
           named("arg_attrs", all),
           named("result_types",
                 split.program->getAttr(plan::kResultTypesAttr)),
           named("result_attrs", split.program->getAttr(plan::kResultsAttr))}));
}

Value StageWriter::bufferOf(Value buffer) {
  if (Value known = buffers.lookup(buffer))
    return known;
  Operation *op = buffer.getDefiningOp();
  IRMapping map;
  if (auto temp = dyn_cast<plan::TempOp>(op); temp && temp.getWhole())
    map.map(temp.getWhole(), bufferOf(temp.getWhole()));
  Operation *copy = buffersEnd.clone(*op, map);
  if (auto argument = dyn_cast<plan::ArgumentOp>(copy)) {
    auto known = argumentOf.find(argument.getIndex());
    assert(known != argumentOf.end() && "an argument that was not chosen");
    argument.setIndex(known->second);
  } else if (auto result = dyn_cast<plan::ResultOp>(copy)) {
    result.setIndex(resultOf.lookup(result.getIndex()));
    if (std::optional<int64_t> alias = result.getAliasArg())
      result.setAliasArg(argumentOf.lookup(*alias));
  }
  return buffers[buffer] = copy->getResult(0);
}

/// Returns the buffer for a value that another stage sends. A result that
/// aliases an argument is received in a temporary, since the argument may be
/// read until the step ends.
Value StageWriter::versionOf(const Version &version) {
  auto result = version.first.getDefiningOp<plan::ResultOp>();
  if (result && resultOf.contains(result.getIndex()) && !result.getAliasArg())
    return bufferOf(version.first);
  int64_t writer =
      version.second ? static_cast<int64_t>(*version.second) : kAllStages;
  Value &copy = copies[{version.first.getAsOpaquePointer(), writer}];
  if (!copy)
    copy = plan::TempOp::create(buffersEnd, version.first.getLoc(),
                                version.first.getType(), Value(), IntegerAttr(),
                                IntegerAttr(), IntegerAttr());
  return copy;
}

LogicalResult StageWriter::emit(size_t number) {
  if (isEmitted[number])
    return success();
  isEmitted[number] = true;
  const StagedCommand &command = split.commands[number];
  for (size_t need : command.needs) {
    const StagedCommand &before = split.commands[need];
    if (before.stage == kAllStages && isWanted[need] && failed(emit(need)))
      return failure();
    if (before.stage == stage && !isEmitted[need])
      return command.op->emitOpError("runs on stage ")
             << stage << " in task " << command.task->toString()
             << " before its operand is computed in task "
             << before.task->toString();
  }
  for (OpOperand &operand : command.op->getOpOperands()) {
    auto came = split.received.find({number, operand.getOperandNumber()});
    if (came == split.received.end())
      continue;
    Value copy = versionOf(came->second);
    // If the command updates the buffer in place, later commands use the copy.
    for (OpOperand &other : command.op->getOpOperands())
      if (std::optional<plan::Access> access = plan::accessOf(other);
          access && access->isWrite && other.get() == operand.get())
        buffers[operand.get()] = copy;
  }
  Operation *copy = b.clone(*command.op);
  for (OpOperand &operand : command.op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    auto came = split.received.find({number, index});
    copy->setOperand(index, came == split.received.end()
                                ? bufferOf(operand.get())
                                : versionOf(came->second));
  }
  return success();
}

/// Checks that no command emitted so far has overwritten the value to send,
/// such as in place, though it comes later in the plan.
LogicalResult StageWriter::checkIsSent(const Message &message) {
  const Version &what = message.what;
  for (size_t number : split.writers[what.first])
    if (isEmitted[number] && (!what.second || number > *what.second))
      return split.commands[number].op->emitOpError("overwrites '")
             << message.name << "' before stage " << stage << " sends it";
  return success();
}

LogicalResult StageWriter::emit(const Message &message) {
  bool isSend = message.from == stage;
  if (isSend && failed(checkIsSent(message)))
    return failure();
  Value memory =
      isSend ? bufferOf(message.what.first) : versionOf(message.what);
  IntegerAttr peer = b.getI64IntegerAttr(isSend ? message.to : message.from);
  Location loc = message.what.second
                     ? split.commands[*message.what.second].op->getLoc()
                     : message.what.first.getLoc();
  plan::MessageOp::create(b, loc, message.name, memory,
                          isSend ? peer : IntegerAttr(),
                          isSend ? IntegerAttr() : peer);
  return success();
}

/// Copies a received value that replaces an argument to the argument's memory.
void StageWriter::replaceArgument(const Message &message) {
  auto result = message.what.first.getDefiningOp<plan::ResultOp>();
  if (message.to != stage || !result || !result.getAliasArg() ||
      !resultOf.contains(result.getIndex()) ||
      split.writers[message.what.first].back() != message.what.second)
    return;
  plan::CopyOp::create(b, result.getLoc(), versionOf(message.what),
                       bufferOf(message.what.first));
}

LogicalResult StageWriter::emitAll() {
  SmallVector<const Message *> messages;
  for (const Message &message : split.messages)
    if (message.from == stage || message.to == stage)
      messages.push_back(&message);
  SmallVector<size_t> numbers;
  for (auto [number, command] : llvm::enumerate(split.commands))
    if (command.stage == stage)
      numbers.push_back(number);
  llvm::sort(numbers, [&](size_t a, size_t b) {
    return split.commands[a].moment < split.commands[b].moment;
  });
  ArrayRef<const Message *> left = messages;
  auto emitUntil = [&](Moment moment) -> LogicalResult {
    for (; !left.empty() && left.front()->moment <= moment;
         left = left.drop_front())
      if (failed(emit(*left.front())))
        return failure();
    return success();
  };
  for (size_t number : numbers)
    if (failed(emitUntil(split.commands[number].moment)) ||
        failed(emit(number)))
      return failure();
  if (failed(emitUntil({std::numeric_limits<double>::max(), 0})))
    return failure();
  for (size_t number = 0; number < isWanted.size(); ++number)
    if (isWanted[number] && failed(emit(number)))
      return failure();
  for (const Message *message : messages)
    replaceArgument(*message);
  return success();
}

FailureOr<plan::ProgramOp> StageWriter::write() {
  b.setInsertionPoint(split.program);
  made = plan::ProgramOp::create(b, split.program.getLoc(),
                                 "stage" + std::to_string(stage), IntegerAttr(),
                                 IntegerAttr());
  Block *block = &made.getBody().emplaceBlock();
  b.setInsertionPointToEnd(block);
  auto mark = plan::ArgumentOp::create(b, made.getLoc(),
                                       MemRefType::get({1}, b.getI8Type()),
                                       b.getI64IntegerAttr(0));
  buffersEnd.setInsertionPoint(mark);
  chooseArguments();
  writeInterface();
  // All results have buffers, including arguments returned unchanged.
  for (auto result : split.program.getBody().getOps<plan::ResultOp>())
    if (resultOf.contains(result.getIndex()))
      bufferOf(result.getMemory());
  LogicalResult done = emitAll();
  mark.erase();
  if (failed(done))
    return failure();
  return made;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct SplitStagesPass : scalify::impl::SplitStagesBase<SplitStagesPass> {
  void runOnOperation() override;
};
} // namespace

void SplitStagesPass::runOnOperation() {
  auto pipeline =
      getOperation()->getAttrOfType<DictionaryAttr>(plan::kPipelineAttr);
  auto program = getOperation().lookupSymbol<plan::ProgramOp>("step");
  if (!pipeline || !program)
    return;
  auto number = [&](StringRef name) {
    return pipeline.getAs<IntegerAttr>(name).getInt();
  };
  PipelineShape shape = {number("stages"), number("virtual"),
                         number("microbatches")};
  StageSplit split(program, shape);
  if (failed(split.run()))
    return signalPassFailure();
  for (int64_t stage = 0; stage < shape.stages; ++stage)
    if (failed(StageWriter(split, stage).write()))
      return signalPassFailure();
  numMessages += split.messages.size();
  program.erase();
}
