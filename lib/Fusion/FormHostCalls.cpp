//===- FormHostCalls.cpp - Callbacks and programs for XLA -----------------===//
//
// A host call is a command by which a plan calls the process that runs it. It
// implements callbacks of the program into Python and, if the caller asked for
// it, ops without a CPU lowering, which that process compiles by XLA. If two
// such ops exchange values that no buffer of a plan can hold, they are outlined
// together, with all ops between them.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"
#include "TargetOps.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Import/Locations.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

namespace scalify {
#define GEN_PASS_DEF_FORMHOSTCALLS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
/// Ops that are outlined from a block as one program.
using Group = llvm::SetVector<Operation *>;

struct FormHostCallsPass : scalify::impl::FormHostCallsBase<FormHostCallsPass> {
  using FormHostCallsBase::FormHostCallsBase;
  void runOnOperation() override;

private:
  LogicalResult formCallback(stablehlo::CustomCallOp call);
  void walkBlock(Block &block);
  void outlineGroup(Group &group);
};
} // namespace

//===----------------------------------------------------------------------===//
// Callbacks
//===----------------------------------------------------------------------===//

/// Returns the index that JAX gave a callback among those of the program.
static IntegerAttr getIndex(stablehlo::CustomCallOp call) {
  auto config = call->getAttrOfType<DictionaryAttr>("mhlo.backend_config");
  if (!config)
    config = dyn_cast_or_null<DictionaryAttr>(call.getBackendConfigAttr());
  auto index = config ? config.getAs<IntegerAttr>("index") : IntegerAttr();
  return index && index.getValue().getActiveBits() <= 63
             ? Builder(call.getContext())
                   .getI64IntegerAttr(index.getValue().getZExtValue())
             : IntegerAttr();
}

/// Returns JAX's name of the op: the last of the location's names.
static std::string nameOf(Operation *op) {
  std::string stack = getNameStack(op->getLoc());
  StringRef last = StringRef(stack).rsplit('/').second;
  if (last.empty())
    last = stack;
  last.consume_back(":");
  return last.empty() ? op->getName().stripDialect().str() : last.str();
}

LogicalResult FormHostCallsPass::formCallback(stablehlo::CustomCallOp call) {
  IntegerAttr index = getIndex(call);
  if (!callbacks || TargetAttr::of(getOperation()).isGPU || !index)
    return call.emitOpError("calls back into Python ('")
           << call.getCallTargetName()
           << "': jax.debug.print, jax.debug.callback, jax.pure_callback or "
              "jax.experimental.io_callback), which only a step of "
              "scalify.jit on a CPU can, in the process that traced it; return "
              "the value and use it outside, or use scalify.transform";
  OpBuilder b(call);
  auto invoke = plan::InvokeOp::create(
      b, call.getLoc(), call.getResultTypes(), nameOf(call), call.getInputs(),
      Value(), Value(), index, StringAttr(), call.getHasSideEffect());
  copyPhase(call, invoke);
  call->replaceAllUsesWith(invoke.getOutputs());
  call.erase();
  ++numCallbacks;
  return success();
}

//===----------------------------------------------------------------------===//
// Ops without a lowering
//===----------------------------------------------------------------------===//

/// Adds all ops on paths from one op of a group to another.
static void close(Group &group) {
  Block *block = group.front()->getBlock();
  auto findAll = [&](auto next) {
    llvm::SetVector<Operation *> found(group.begin(), group.end());
    for (size_t i = 0; i < found.size(); ++i)
      next(found[i], [&](Operation *other) {
        other = other ? block->findAncestorOpInBlock(*other) : nullptr;
        if (other && !other->hasTrait<OpTrait::IsTerminator>())
          found.insert(other);
      });
    return found;
  };
  auto later = findAll([](Operation *op, auto add) {
    for (Operation *user : op->getUsers())
      add(user);
  });
  auto earlier = findAll([](Operation *op, auto add) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        add(operand.getDefiningOp());
    });
  });
  for (Operation *op : later)
    if (earlier.contains(op))
      group.insert(op);
}

/// Returns the values that a group uses and does not define, constants aside.
static SmallVector<Value> getInputs(const Group &group) {
  llvm::SetVector<Value> values;
  for (Operation *op : group) {
    llvm::SetVector<Value> read(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), read);
    for (Value value : read) {
      Operation *def = value.getDefiningOp();
      if (!def || !(group.contains(def) || isa<stablehlo::ConstantOp>(def)))
        values.insert(value);
    }
  }
  return values.takeVector();
}

static SmallVector<Value> getOutputs(const Group &group) {
  SmallVector<Value> values;
  for (Operation *op : group)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            Operation *around = op->getBlock()->findAncestorOpInBlock(*user);
            return !around || !group.contains(around);
          }))
        values.push_back(result);
  return values;
}

/// Returns the text of a module whose `@main` computes `outputs` from `inputs`.
static std::string writeProgram(const Group &group, ArrayRef<Value> inputs,
                                ArrayRef<Value> outputs) {
  Location loc = group.front()->getLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  auto main =
      func::FuncOp::create(b, loc, "main",
                           b.getFunctionType(TypeRange(ValueRange(inputs)),
                                             TypeRange(ValueRange(outputs))));
  Block *body = main.addEntryBlock();
  b.setInsertionPointToEnd(body);
  IRMapping map;
  map.map(inputs, body->getArguments());
  auto copyConstant = [&](Value value) {
    auto constant = value.getDefiningOp<stablehlo::ConstantOp>();
    if (constant && !map.contains(value) && !group.contains(constant))
      b.clone(*constant, map);
  };
  for (Operation *op : group) {
    llvm::SetVector<Value> read(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), read);
    llvm::for_each(read, copyConstant);
    b.clone(*op, map);
  }
  SmallVector<Value> results = llvm::map_to_vector(
      outputs, [&](Value value) { return map.lookup(value); });
  func::ReturnOp::create(b, loc, results);
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os);
  return text;
}

void FormHostCallsPass::outlineGroup(Group &group) {
  SmallVector<Operation *> order(group.begin(), group.end());
  llvm::sort(order,
             [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
  group = Group(order.begin(), order.end());
  SmallVector<Value> inputs = getInputs(group), outputs = getOutputs(group);
  auto lacks = [](Operation *op) { return !isInCPUTarget(op); };
  Operation *first = *llvm::find_if(order, lacks);
  bool hasEffects = llvm::any_of(
      order, [](Operation *op) { return !isMemoryEffectFree(op); });
  OpBuilder b(order.back());
  auto invoke = plan::InvokeOp::create(
      b, first->getLoc(), TypeRange(ValueRange(outputs)), nameOf(first), inputs,
      Value(), Value(), IntegerAttr(),
      b.getStringAttr(writeProgram(group, inputs, outputs)), hasEffects);
  copyPhase(first, invoke);
  InFlightDiagnostic said = emitRemark(first->getLoc());
  said << "'" << first->getName() << "'";
  if (order.size() > 1)
    said << " with " << order.size() - 1 << " ops around it";
  said << " runs by XLA: not in the CPU target";
  for (auto [output, result] : llvm::zip(outputs, invoke.getOutputs()))
    output.replaceAllUsesWith(result);
  for (Operation *op : llvm::reverse(order))
    op->erase();
  ++numFallbacks;
}

/// Adds `op` and, transitively, the ops that exchange values with it which no
/// buffer of a plan can hold.
static void addExchangingOps(Operation *op, Group &group) {
  if (!group.insert(op))
    return;
  auto isHeld = [](Value value) { return isInMemory(value.getType()); };
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp();
        def && !isHeld(operand) && !isa<stablehlo::ConstantOp>(def))
      addExchangingOps(def, group);
  for (Value result : op->getResults())
    if (!isHeld(result))
      for (Operation *user : result.getUsers())
        if (!user->hasTrait<OpTrait::IsTerminator>() ||
            user->getBlock() != op->getBlock())
          addExchangingOps(op->getBlock()->findAncestorOpInBlock(*user), group);
}

/// Returns the groups of ops to outline from a block, each closed under paths
/// between its ops.
static SmallVector<Group> findGroups(Block &block) {
  SmallVector<Group> groups;
  for (Operation &op : block.without_terminator()) {
    auto hasOp = [&](const Group &group) { return group.contains(&op); };
    if (isInCPUTarget(&op) || isa<stablehlo::ConstantOp>(op) ||
        llvm::any_of(groups, hasOp))
      continue;
    Group group;
    addExchangingOps(&op, group);
    for (size_t before = 0; before != group.size();) {
      before = group.size();
      close(group);
      llvm::erase_if(groups, [&](const Group &other) {
        auto isTaken = [&](Operation *one) { return group.contains(one); };
        bool meets = llvm::any_of(other, isTaken);
        if (meets)
          group.insert(other.begin(), other.end());
        return meets;
      });
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

void FormHostCallsPass::walkBlock(Block &block) {
  SmallVector<Group> groups = findGroups(block);
  for (Group &group : groups)
    outlineGroup(group);
  if (!groups.empty()) {
    sortTopologically(&block);
    // The programs hold clones of the constants.
    stablehlo::eraseDeadOps(block);
  }
  for (Operation &op : block)
    if (isa<stablehlo::WhileOp, stablehlo::IfOp, stablehlo::CaseOp>(op))
      for (Region &region : op.getRegions())
        walkBlock(region.front());
}

void FormHostCallsPass::runOnOperation() {
  if (getOperation().isExternal() || !getOperation().getBody().hasOneBlock())
    return;
  if (!TargetAttr::of(getOperation()).isGPU && fallback == "xla")
    walkBlock(getOperation().getBody().front());
  WalkResult result = getOperation().walk([&](stablehlo::CustomCallOp call) {
    return isCallback(call) && failed(formCallback(call))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  if (result.wasInterrupted())
    signalPassFailure();
}
