//===- PlaceStages.cpp - Assignment of ops to pipeline stages -------------===//
//
// Borders in the forward and in the backward cut every micro-batch into tasks.
// The borders that its operands passed determine the task of an op after a
// border. An op before all of them, such as a cast of a weight, belongs to its
// first user's task; an op that reads no state, such as a mask, is computed by
// every stage that uses it.
//
//===----------------------------------------------------------------------===//

#include "OpCosts.h"
#include "Stacks.h"
#include "StageSchedule.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Precision/StoredState.h"

#include "llvm/ADT/MapVector.h"

namespace scalify {
#define GEN_PASS_DEF_PLACESTAGES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::isStageBorder;

namespace {
/// The position of a value in the pipeline.
struct PipelinePosition {
  int64_t forward = 0, backward = 0; // borders passed
  int64_t microbatch = -1;           // the last one that it depends on
  bool isState = false;              // depends on an argument of one stage
  bool isBackward = false, isUpdate = false;

  bool isBehindBorder() const { return forward > 0 || backward > 0; }
};

class Placement {
public:
  Placement(func::FuncOp main, int64_t stages, int64_t virtualChunks)
      : main(main), block(main.getBody().front()) {
    shape.stages = stages;
    shape.virtualChunks = virtualChunks;
  }

  LogicalResult run();
  PipelineShape getShape() const { return shape; }

private:
  void computePositions();
  void findMicrobatches();
  PipelinePosition computePosition(Operation *op) const;
  LogicalResult checkBorders();
  void markUpdates();
  LogicalResult placeAfterBorders();
  void placeBeforeBorders();
  void placeUpdates();
  void cloneScalarBroadcasts();
  void placeArguments();
  void remarkOnUnmarkedCrossings();
  void writeTasks();

  bool isOwned(BlockArgument argument);
  std::optional<StageTask> taskOf(Value value) const {
    Operation *op = value.getDefiningOp();
    auto found = op ? tasks.find(op) : tasks.end();
    if (found == tasks.end())
      return std::nullopt;
    return found->second;
  }
  PipelinePosition way(Value value) const { return ways.lookup(value); }

  func::FuncOp main;
  Block &block;
  PipelineShape shape;
  std::optional<StageSchedule> schedule;
  llvm::DenseMap<Value, PipelinePosition> ways;
  /// Borders by their depth, in the order of micro-batches.
  std::map<int64_t, SmallVector<Operation *>> forwards, backwards;
  llvm::DenseMap<Operation *, StageTask> tasks;
  SmallVector<Operation *> updates; // ops whose stage is not known yet
};
} // namespace

//===----------------------------------------------------------------------===//
// Ways
//===----------------------------------------------------------------------===//

/// True for state, which one stage keeps; all stages get the other arguments of
/// a step. All stages also have the scales of state, which apply to all of it.
bool Placement::isOwned(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  if (getArgumentName(argument) == kStateScalesName)
    return false;
  if (isOneOf(getRoleAttr(main, number),
              {Role::Param, Role::Moment, Role::Master}))
    return true;
  return main.getArgAttr(number, kAliasAttr) && countOf(argument) > 1;
}

PipelinePosition Placement::computePosition(Operation *op) const {
  PipelinePosition way;
  for (Value operand : op->getOperands()) {
    PipelinePosition from = ways.lookup(operand);
    way.forward = std::max(way.forward, from.forward);
    way.backward = std::max(way.backward, from.backward);
    way.microbatch = std::max(way.microbatch, from.microbatch);
    way.isState |= from.isState;
    way.isBackward |= from.isBackward;
    way.isUpdate |= from.isUpdate;
  }
  return way;
}

void Placement::computePositions() {
  for (BlockArgument argument : block.getArguments())
    ways[argument].isState = isOwned(argument);
  for (Operation &op : block.without_terminator()) {
    PipelinePosition way = computePosition(&op);
    if (isStageBorder(&op)) {
      bool isForward = op.getAttrOfType<StringAttr>(
                           stablehlo::kStageBorderAttr) == "forward";
      auto &same =
          isForward ? forwards[++way.forward] : backwards[++way.backward];
      way.microbatch = static_cast<int64_t>(same.size());
      same.push_back(&op);
    }
    for (Value result : op.getResults())
      ways[result] = way;
  }
}

/// A value before the first border belongs to the first micro-batch that uses
/// it across the border. A value that leads to no border belongs to the last
/// micro-batch that it depends on: for example a cast's amax, which enters the
/// maximum that the step keeps.
void Placement::findMicrobatches() {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (ways[op.getResult(0)].isBehindBorder())
      continue;
    int64_t first = -1;
    for (Operation *user : op.getUsers()) {
      if (user == block.getTerminator())
        continue;
      const PipelinePosition &behind = ways[user->getResult(0)];
      if (!isStageBorder(user) && behind.isBehindBorder())
        continue;
      if (behind.microbatch >= 0)
        first =
            first < 0 ? behind.microbatch : std::min(first, behind.microbatch);
    }
    for (Value result : op.getResults())
      ways[result].microbatch = first;
  }
  for (Operation &op : block.without_terminator()) {
    int64_t last = computePosition(&op).microbatch;
    for (Value result : op.getResults()) {
      PipelinePosition &way = ways[result];
      if (!isStageBorder(&op) && (way.isBehindBorder() || way.microbatch < 0))
        way.microbatch = last;
    }
  }
}

LogicalResult Placement::checkBorders() {
  int64_t borders = shape.chunks() - 1;
  auto numForward = static_cast<int64_t>(forwards.size());
  auto numBackward = static_cast<int64_t>(backwards.size());
  if (borders == 0)
    return main.emitOpError("is one chunk, which makes no pipeline");
  if (numForward != borders)
    return main.emitOpError("has ")
           << numForward << " stage borders in sequence, and " << shape.stages
           << " stages of " << shape.virtualChunks << " chunks have " << borders
           << " between them; mark as many by scalify.lax.stage_border";
  if (numBackward != borders)
    return main.emitOpError("has ")
           << numBackward << " stage borders in its backward and " << borders
           << " in its forward; a pipeline trains: the step must compute the "
              "gradients of the values that cross borders";
  shape.microbatches = static_cast<int64_t>(forwards.begin()->second.size());
  for (auto *borders : {&forwards, &backwards})
    for (auto &[depth, same] : *borders)
      if (static_cast<int64_t>(same.size()) != shape.microbatches)
        return same.front()->emitOpError("runs ")
               << same.size() << " times in a step, and the first border "
               << shape.microbatches
               << " times: each must run once per micro-batch; leave borders "
                  "out of what a checkpoint recomputes";
  std::string reason = StageSchedule::getReasonAgainst(shape);
  if (!reason.empty())
    return main.emitOpError("has ") << reason;
  schedule.emplace(shape);
  return success();
}

//===----------------------------------------------------------------------===//
// After borders
//===----------------------------------------------------------------------===//

/// Marks the optimizer's ops on the last sums, and all that depends on them.
void Placement::markUpdates() {
  for (Operation &op : block.without_terminator()) {
    PipelinePosition way = ways.lookup(op.getResult(0)),
                     from = computePosition(&op);
    way.isUpdate = from.isUpdate;
    way.isBackward = from.isBackward || way.backward > 0;
    if (way.isBehindBorder() && isInPhase(&op, Phase::Optimizer) &&
        way.microbatch == shape.microbatches - 1)
      way.isUpdate = true;
    if (isInPhase(&op, Phase::Backward) && way.forward == shape.chunks() - 1)
      way.isBackward = true;
    for (Value result : op.getResults())
      ways[result] = way;
  }
}

LogicalResult Placement::placeAfterBorders() {
  for (Operation &op : block.without_terminator()) {
    const PipelinePosition &way = ways[op.getResult(0)];
    if (isStageBorder(&op)) {
      if (way.isUpdate)
        return op.emitOpError("comes after the optimizer");
      continue;
    }
    if (way.isUpdate) {
      updates.push_back(&op);
      continue;
    }
    if (!way.isBehindBorder())
      continue;
    StageTask task;
    task.kind = way.isBackward ? StageTask::Backward : StageTask::Forward;
    task.place =
        way.backward > 0 ? shape.chunks() - 1 - way.backward : way.forward;
    task.microbatch = way.microbatch;
    tasks[&op] = task;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Before borders
//===----------------------------------------------------------------------===//

/// Returns the task that computes a border's operand.
static StageTask taskBefore(Operation *border, const PipelinePosition &behind,
                            const PipelineShape &shape) {
  StageTask task;
  task.microbatch = behind.microbatch;
  bool isForward = border->getAttrOfType<StringAttr>(
                       stablehlo::kStageBorderAttr) == "forward";
  task.kind = isForward ? StageTask::Forward : StageTask::Backward;
  task.place =
      isForward ? behind.forward - 1 : shape.chunks() - behind.backward;
  return task;
}

/// Places an op in the first task that reads it; without one, in the update.
void Placement::placeBeforeBorders() {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    const PipelinePosition &way = ways[op.getResult(0)];
    if (isStageBorder(&op) || way.isBehindBorder() || !way.isState)
      continue;
    std::optional<StageTask> first;
    for (Operation *user : op.getUsers()) {
      std::optional<StageTask> task;
      if (isStageBorder(user))
        task = taskBefore(user, ways[user->getResult(0)], shape);
      else if (auto found = tasks.find(user); found != tasks.end())
        task = found->second;
      if (task &&
          (!first || schedule->startOf(*task) < schedule->startOf(*first)))
        first = task;
    }
    if (first)
      tasks[&op] = *first;
    else
      updates.push_back(&op);
  }
  llvm::sort(updates,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

static bool isSpreadScalar(Operation *op) {
  return isa_and_present<stablehlo::BroadcastInDimOp>(op) &&
         countOf(op->getOperand(0)) == 1;
}

/// Places an op of the update on the stage of its largest operand, or without
/// one, as for the decay of a moment, on that of its users.
void Placement::placeUpdates() {
  auto update = [](int64_t stage) {
    return StageTask{StageTask::Update, stage, 0};
  };
  SmallVector<Operation *> open;
  for (Operation *op : updates) {
    std::optional<int64_t> stage;
    int64_t largest = 0;
    for (Value operand : op->getOperands()) {
      std::optional<StageTask> task = taskOf(operand);
      if (!task)
        continue;
      int64_t at = shape.stageOf(*task);
      int64_t size =
          isSpreadScalar(operand.getDefiningOp()) ? 1 : countOf(operand);
      if (!stage || size > largest || (size == largest && at < *stage))
        std::tie(stage, largest) = std::pair(at, size);
    }
    if (stage)
      tasks[op] = update(*stage);
    else
      open.push_back(op);
  }
  for (Operation *op : llvm::reverse(open)) {
    int64_t stage = shape.stages;
    for (Operation *user : op->getUsers())
      if (auto found = tasks.find(user); found != tasks.end())
        stage = std::min(stage, shape.stageOf(found->second));
    tasks[op] = update(stage == shape.stages ? 0 : stage);
  }
}

/// Clones broadcasts of scalars for their users on other stages, so that the
/// scalar is sent and not the broadcast.
void Placement::cloneScalarBroadcasts() {
  for (Operation *op : updates) {
    if (!isSpreadScalar(op))
      continue;
    llvm::MapVector<int64_t, SmallVector<OpOperand *>> byStage;
    for (OpOperand &use : op->getUses())
      if (auto found = tasks.find(use.getOwner()); found != tasks.end())
        byStage[shape.stageOf(found->second)].push_back(&use);
    for (auto &[stage, uses] : byStage) {
      if (stage == tasks[op].place)
        continue;
      OpBuilder b(op);
      Operation *copy = b.clone(*op);
      tasks[copy] = {StageTask::Update, stage, 0};
      for (OpOperand *use : uses)
        use->set(copy->getResult(0));
    }
  }
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Keeps state on the stage that writes it, or else on the first that reads it.
void Placement::placeArguments() {
  OpBuilder b(main.getContext());
  for (BlockArgument argument : block.getArguments()) {
    if (!way(argument).isState)
      continue;
    unsigned number = argument.getArgNumber();
    std::optional<StageTask> task;
    if (OpOperand *next = getNextValue(main, number))
      task = taskOf(next->get());
    if (!task)
      for (Operation *user : argument.getUsers()) {
        auto found = tasks.find(user);
        bool isEarlier =
            found != tasks.end() && (!task || schedule->startOf(found->second) <
                                                  schedule->startOf(*task));
        if (isEarlier)
          task = found->second;
      }
    main.setArgAttr(number, plan::kOwnerAttr,
                    b.getI64IntegerAttr(task ? shape.stageOf(*task) : 0));
  }
}

/// True if the op reads carried scales: casts of all stages read these.
static bool readsKeptScales(Operation &op, func::FuncOp main) {
  return llvm::any_of(op.getOperands(), [&](Value operand) {
    auto argument = dyn_cast<BlockArgument>(operand);
    return argument && main.getArgAttr(argument.getArgNumber(), kCastsAttr);
  });
}

/// Remarks on values that another stage reads without a border, which may be
/// unintended.
void Placement::remarkOnUnmarkedCrossings() {
  for (Operation &op : block.without_terminator()) {
    auto found = tasks.find(&op);
    if (found == tasks.end() || found->second.kind == StageTask::Update ||
        countOf(op.getResult(0)) == 1 || readsKeptScales(op, main))
      continue;
    for (Operation *user : op.getUsers()) {
      auto other = tasks.find(user);
      if (other == tasks.end() ||
          shape.stageOf(other->second) == shape.stageOf(found->second))
        continue;
      op.emitRemark("is made by stage ")
          << shape.stageOf(found->second) << " and read by stage "
          << shape.stageOf(other->second)
          << " with no border between; it is sent there";
      break;
    }
  }
}

void Placement::writeTasks() {
  OpBuilder b(main.getContext());
  for (auto [op, task] : tasks)
    op->setAttr(plan::kTaskAttr, b.getStringAttr(task.toString()));
  // Pieces of several stages cannot share memory.
  for (Operation &op : block)
    if (op.hasAttr(plan::kStackAttr) &&
        !llvm::all_equal(llvm::map_range(op.getOperands(), [&](Value piece) {
          std::optional<StageTask> task = taskOf(piece);
          return task ? shape.stageOf(*task) : -1;
        })))
      op.removeAttr(plan::kStackAttr);
}

LogicalResult Placement::run() {
  computePositions();
  findMicrobatches();
  if (failed(checkBorders()))
    return failure();
  markUpdates();
  if (failed(placeAfterBorders()))
    return failure();
  placeBeforeBorders();
  placeUpdates();
  cloneScalarBroadcasts();
  remarkOnUnmarkedCrossings();
  placeArguments();
  writeTasks();
  return success();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct PlaceStagesPass : scalify::impl::PlaceStagesBase<PlaceStagesPass> {
  using PlaceStagesBase::PlaceStagesBase;
  void runOnOperation() override;

private:
  LogicalResult place(func::FuncOp main);
};
} // namespace

/// Replaces the results of borders by their operands.
static void eraseBorders(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isStageBorder(&op)) {
      op.replaceAllUsesWith(op.getOperands());
      op.erase();
    }
}

/// Returns the number of ranks that run the program.
static int64_t countRanks(ModuleOp module) {
  sdy::MeshAttr mesh = sdy::findLargestMesh(module);
  return mesh ? mesh.getTotalSize() : 1;
}

LogicalResult PlaceStagesPass::place(func::FuncOp main) {
  if (main.getBody().front().getOps<stablehlo::WhileOp>().begin() !=
      main.getBody().front().getOps<stablehlo::WhileOp>().end())
    return main.emitOpError("has loops: unroll them first");
  Placement placement(main, stages, virtualChunks);
  if (failed(placement.run()))
    return failure();
  PipelineShape shape = placement.getShape();
  OpBuilder b(main.getContext());
  auto number = [&](StringRef name, int64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(value));
  };
  getOperation()->setAttr(
      plan::kPipelineAttr,
      b.getDictionaryAttr({number("stages", shape.stages),
                           number("virtual", shape.virtualChunks),
                           number("microbatches", shape.microbatches),
                           number("ranks", countRanks(getOperation()))}));
  return success();
}

void PlaceStagesPass::runOnOperation() {
  auto main = getOperation().lookupSymbol<func::FuncOp>("main");
  if (!main || !main.getBody().hasOneBlock())
    return;
  if (stages > 0 && failed(place(main)))
    return signalPassFailure();
  // Bodies of loops are functions of their own.
  for (auto function : getOperation().getOps<func::FuncOp>())
    if (function.getBody().hasOneBlock())
      eraseBorders(function.getBody().front());
}
