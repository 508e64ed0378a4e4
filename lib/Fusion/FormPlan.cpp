//===- FormPlan.cpp - Builds the plan from clusters -----------------------===//

#include "CommandParts.h"
#include "KernelBody.h"
#include "PlanWriter.h"
#include "ScaleEntries.h"

#include "scalify/Dialect/Plan/PlanInPlace.h"
#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/Transforms/RegionUtils.h"

namespace scalify {
#define GEN_PASS_DEF_FORMPLAN
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

void PlanWriter::writeArguments() {
  SmallVector<Attribute> arguments, results;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    BlockArgument argument = main.getArgument(i);
    buffers[argument] = newBuffer<plan::ArgumentOp>(
        argument.getLoc(), typeOf(argument), b.getI64IntegerAttr(i));
    NamedAttrList attrs(main.getArgAttrDict(i));
    // The plan dialect does not depend on scalify's: it has the role's name.
    if (RoleAttr role = getRoleAttr(main, i)) {
      attrs.erase(kRoleAttr);
      attrs.set(plan::kRoleKey,
                b.getStringAttr(stringifyRole(role.getValue())));
    }
    arguments.push_back(attrs.getDictionary(b.getContext()));
    if (std::optional<unsigned> result = getAliasedResult(main, i))
      aliases[*result] = i;
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    DictionaryAttr attrs = main.getResultAttrDict(i);
    results.push_back(attrs ? attrs : b.getDictionaryAttr({}));
  }
  program->setAttr(plan::kArgsAttr, b.getArrayAttr(arguments));
  program->setAttr(plan::kResultsAttr, b.getArrayAttr(results));
  SmallVector<Attribute> argumentTypes, resultTypes;
  for (Type type : main.getArgumentTypes())
    argumentTypes.push_back(TypeAttr::get(type));
  for (Type type : main.getResultTypes())
    resultTypes.push_back(TypeAttr::get(type));
  program->setAttr(plan::kArgTypesAttr, b.getArrayAttr(argumentTypes));
  program->setAttr(plan::kResultTypesAttr, b.getArrayAttr(resultTypes));
}

static SmallVector<Operation *> opsInOrder(const Cluster &cluster) {
  SmallVector<Operation *> ops(cluster.ops.begin(), cluster.ops.end());
  llvm::sort(ops,
             [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
  return ops;
}

/// True if a loop begins to compute `value` with the argument, and does not
/// read that in any other way.
static bool isOwnCarry(Value value, BlockArgument argument) {
  auto loop = value.getDefiningOp<plan::IterateOp>();
  if (!loop || llvm::count(loop->getOperands(), argument) != 1)
    return false;
  unsigned number = cast<OpResult>(value).getResultNumber();
  return loop.getCarries()[number] == argument;
}

// True if the producer of `value` may write it into the argument's memory.
bool PlanWriter::mayAlias(Value value, int64_t index) {
  BlockArgument argument = main.getArgument(index);
  Operation *def = value.getDefiningOp();
  Cluster *writer = def ? clusters.of(def) : nullptr;
  if (!writer ||
      typeOf(value).getElementType() != typeOf(argument).getElementType())
    return false;
  bool isPast = false;
  for (Cluster *cluster : order) {
    bool reads = readers[index].contains(cluster);
    if (isPast && reads)
      return false;
    if (cluster != writer)
      continue;
    isPast = true;
    if (!reads || isOwnCarry(value, argument))
      continue;
    if (!cluster->isKernel ||
        !plan::ElementOrder(opsInOrder(*cluster), clusters.outputs(*cluster))
             .mayReplace(value, argument))
      return false;
  }
  // A result that is the argument itself reads it at the end.
  Operation *ret = main.getBody().front().getTerminator();
  for (unsigned i = 0; i < ret->getNumOperands(); ++i)
    if (lookThrough(ret->getOperand(i), Move::Reshape) == argument &&
        !isCopiedFirst(i))
      return false;
  return true;
}

// True for a result that is an argument and whose own memory no command reads:
// it is copied before all commands, so that another result may then overwrite
// the argument.
bool PlanWriter::isCopiedFirst(unsigned result) {
  Operation *ret = main.getBody().front().getTerminator();
  auto argument = dyn_cast<BlockArgument>(
      lookThrough(ret->getOperand(result), Move::Reshape));
  if (!argument)
    return false;
  auto alias = aliases.find(result);
  return alias == aliases.end() ||
         (alias->second != argument.getArgNumber() &&
          main.getArgument(alias->second).use_empty());
}

void PlanWriter::writeFirstCopies() {
  Operation *ret = main.getBody().front().getTerminator();
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    if (isCopiedFirst(i))
      plan::CopyOp::create(
          b, ret->getLoc(),
          buffers[lookThrough(ret->getOperand(i), Move::Reshape)],
          resultBuffers[i]);
}

void PlanWriter::findReaders() {
  readers.resize(main.getNumArguments());
  for (Cluster *cluster : order)
    for (Operation *op : cluster->ops)
      for (Value operand : op->getOperands())
        if (auto argument = dyn_cast<BlockArgument>(operand))
          readers[argument.getArgNumber()].insert(cluster);
}

void PlanWriter::bindResults() {
  findReaders();
  Operation *ret = main.getBody().front().getTerminator();
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    IntegerAttr alias;
    if (aliases.count(i))
      alias = b.getI64IntegerAttr(aliases[i]);
    RankedTensorType type = cast<RankedTensorType>(main.getResultTypes()[i]);
    resultBuffers.push_back(newBuffer<plan::ResultOp>(
        ret->getLoc(), type, b.getI64IntegerAttr(i), alias));
    Value value = lookThrough(ret->getOperand(i), Move::Reshape);
    Operation *def = value.getDefiningOp();
    if (!def || !clusters.of(def) || isStack(def) || resultOf.count(value))
      continue;
    if (alias && !mayAlias(value, alias.getInt()))
      continue;
    resultOf[value] = i;
  }
}

// At the end, copies the results that no command could write to their memory;
// first saves arguments that are results, since another result may overwrite
// them.
void PlanWriter::writeCopies() {
  Operation *ret = main.getBody().front().getTerminator();
  bool isLoop = main.isPrivate();
  SmallVector<std::pair<Value, Value>> copies;
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    Value value = lookThrough(ret->getOperand(i), Move::Reshape);
    auto bound = resultOf.find(value);
    if ((bound != resultOf.end() && bound->second == i) || isCopiedFirst(i))
      continue;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (aliases.count(i) && aliases[i] == argument.getArgNumber())
        continue; // already there
      Value saved = newTemp(ret->getLoc(), typeOf(value));
      plan::CopyOp::create(b, ret->getLoc(), buffers[value], saved);
      copies.push_back({saved, resultBuffers[i]});
      continue;
    }
    if (Operation *def = value.getDefiningOp();
        aliases.count(i) && !(def && isStack(def)))
      emitRemark(value.getLoc())
          << (isLoop ? "carry " : "result ") << i << " is copied "
          << (isLoop ? "in each iteration" : "to the memory of argument ")
          << (isLoop ? "" : std::to_string(aliases[i]))
          << ": the argument is read after it is computed";
    copies.push_back({bufferOf(value), resultBuffers[i]});
  }
  for (auto [from, to] : copies)
    plan::CopyOp::create(b, ret->getLoc(), from, to);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

Value PlanWriter::constantBuffer(ElementsAttr value) {
  Value &buffer = constants[value];
  if (!buffer)
    buffer = newBuffer<plan::ConstantOp>(
        main.getLoc(), cast<RankedTensorType>(value.getType()), value);
  return buffer;
}

Value PlanWriter::scaleBuffer(int64_t entry) {
  Value &buffer = scaleBuffers[entry];
  if (buffer)
    return buffer;
  auto type = RankedTensorType::get({}, b.getF32Type());
  buffer = newBuffer<plan::ArgumentOp>(
      main.getLoc(), type, b.getI64IntegerAttr(findScalesArgument(main)));
  buffer.getDefiningOp()->setAttr(
      plan::kOffsetAttr,
      b.getI64IntegerAttr(entry * static_cast<int64_t>(sizeof(float))));
  return buffer;
}

Value PlanWriter::bufferOf(Value value) {
  auto known = buffers.find(value);
  if (known != buffers.end())
    return known->second;
  Value buffer;
  if (auto constant = value.getDefiningOp<stablehlo::ConstantOp>();
      constant && !clusters.of(constant)) {
    auto entry = constant->getAttrOfType<IntegerAttr>(plan::kScaleEntryAttr);
    buffer = entry ? scaleBuffer(entry.getInt())
                   : constantBuffer(constant.getValue());
  } else if (auto bound = resultOf.find(value); bound != resultOf.end()) {
    buffer = resultBuffers[bound->second];
  } else if (value.getDefiningOp<stablehlo::PartitionIdOp>()) {
    buffer = newBuffer<plan::RankOp>(value.getLoc(), typeOf(value));
  } else {
    buffer = newTemp(value.getLoc(), typeOf(value));
  }
  return buffers[value] = buffer;
}

//===----------------------------------------------------------------------===//
// Stacks and kernels
//===----------------------------------------------------------------------===//

// Binds the pieces of a stack to their parts of its memory; a piece that no
// command may write there is copied.
void PlanWriter::bindPieces(stablehlo::ConcatenateOp stack) {
  Value whole = bufferOf(stack.getResult());
  int64_t start = 0;
  for (Value piece : stack.getInputs()) {
    Value part = newBuffer<plan::TempOp>(stack.getLoc(), typeOf(piece), whole,
                                         b.getI64IntegerAttr(start),
                                         IntegerAttr(), IntegerAttr());
    start += plan::bufferBytes(part);
    Operation *def = piece.getDefiningOp();
    // A scatter works in the memory of its input.
    bool isMade = def && clusters.of(def) && !isStack(def) &&
                  !isa<stablehlo::ScatterOp>(def);
    if (isMade && !resultOf.count(piece) && !buffers.count(piece))
      buffers[piece] = part;
    else
      piecesToCopy[stack].push_back({piece, part});
  }
}

/// True if both are one buffer, or a result that aliases the argument.
static bool isSameMemory(Value source, Value target) {
  auto argument = source.getDefiningOp<plan::ArgumentOp>();
  auto result = target.getDefiningOp<plan::ResultOp>();
  return source == target ||
         (argument && result && result.getAliasArg() == argument.getIndex());
}

/// True if a kernel of `ops` reads `value` other than as the scatter's input.
static bool readsBesideScatter(ArrayRef<Operation *> ops,
                               stablehlo::ScatterOp scatter, Value value) {
  return llvm::any_of(ops, [&](Operation *op) {
    return llvm::any_of(op->getOpOperands(), [&](OpOperand &operand) {
      return operand.get() == value &&
             (op != scatter || operand.getOperandNumber() != 0);
    });
  });
}

/// Returns the (output, input) pairs of a kernel that share memory: results
/// that alias a donated argument.
SmallVector<int64_t> PlanWriter::donatedPairs(ArrayRef<Value> inputs,
                                              ArrayRef<Value> outputs) {
  SmallVector<int64_t> pairs;
  for (auto [i, output] : llvm::enumerate(outputs)) {
    auto bound = resultOf.find(output);
    if (bound == resultOf.end() || !aliases.count(bound->second))
      continue;
    Value argument = main.getArgument(aliases[bound->second]);
    for (auto [j, input] : llvm::enumerate(inputs))
      if (input == argument)
        pairs.append({int64_t(i), int64_t(j)});
  }
  return pairs;
}

// Returns the buffer in which `op` turns its input into its result in place:
// that of the input, or a copy if the input lives on.
Value PlanWriter::takeOver(Operation *op, Value input, Value result) {
  Operation *def = input.getDefiningOp();
  if (isa_and_nonnull<plan::UndefinedOp>(def))
    return bufferOf(result);
  bool dies = def && clusters.of(def) && input.hasOneUse() &&
              !resultOf.count(result) && !resultOf.count(input);
  if (dies)
    return buffers[result] = bufferOf(input);
  Value target = bufferOf(result);
  if (Value source = bufferOf(input); !isSameMemory(source, target)) {
    auto copy = plan::CopyOp::create(b, op->getLoc(), source, target);
    if (Attribute task = op->getAttr(plan::kTaskAttr))
      copy->setAttr(plan::kTaskAttr, task);
  }
  return target;
}

LogicalResult PlanWriter::writeKernel(Cluster &cluster) {
  SmallVector<Operation *> ops = opsInOrder(cluster);
  SmallVector<Value> inputs = clusters.inputs(cluster);
  SmallVector<Value> outputs = clusters.outputs(cluster);
  Location loc = outputs.front().getLoc();
  auto scatter = dyn_cast<stablehlo::ScatterOp>(cluster.ops.front());
  Value target;
  if (scatter)
    target = takeOver(scatter, scatter.getInputs()[0], scatter.getResult(0));
  KernelBody body(loc);
  for (Value input : inputs)
    if (!scatter || readsBesideScatter(ops, scatter, input))
      body.addInput(input, bufferOf(input));
  SmallVector<int64_t> pairs;
  if (scatter)
    pairs = {0, body.addScatter(scatter, target)};
  else
    pairs = donatedPairs(inputs, outputs);
  auto writes = llvm::map_to_vector(
      outputs, [&](Value output) { return bufferOf(output); });
  for (Operation *op : ops)
    body.copy(op, [&](stablehlo::ConstantOp constant, IntegerAttr entry) {
      return entry ? scaleBuffer(entry.getInt())
                   : constantBuffer(constant.getValue());
    });
  body.finish(outputs);

  auto kernel = plan::KernelOp::create(
      b, loc, nameOf(cluster), body.reads, writes, DenseI64ArrayAttr(),
      FlatSymbolRefAttr(), IntegerAttr(), IntegerAttr());
  kernel.getBody().takeBody(body.region);
  copyPhase(cluster, outputs.front().getDefiningOp(), kernel);
  if (!body.casts.empty())
    kernel->setAttr(plan::kCastsAttr, b.getArrayAttr(body.casts));
  if (!pairs.empty())
    kernel.setInplaceAttr(b.getDenseI64ArrayAttr(pairs));
  ++numKernels;
  return success();
}

LogicalResult PlanWriter::write() {
  b.setInsertionPoint(main);
  StringRef name = main.getSymName() == "main" ? "step" : main.getSymName();
  program = plan::ProgramOp::create(b, main.getLoc(), name, IntegerAttr(),
                                    IntegerAttr());
  Block *block = &program.getBody().emplaceBlock();
  b.setInsertionPointToEnd(block);
  // Buffers above, commands below.
  auto mark = plan::ArgumentOp::create(b, main.getLoc(),
                                       MemRefType::get({1}, b.getI8Type()),
                                       b.getI64IntegerAttr(0));
  buffersEnd.setInsertionPoint(mark);
  order = clusters.schedule();
  writeArguments();
  bindResults();
  writeFirstCopies();
  for (Cluster *cluster : order)
    if (cluster->full != 0 && isStack(cluster->ops.front()))
      bindPieces(cast<stablehlo::ConcatenateOp>(cluster->ops.front()));
  for (Cluster *cluster : order) {
    Operation *first = cluster->ops.front();
    if (isLibraryCall(first))
      writeCall(first);
    else if (isStack(first))
      for (auto [piece, part] : piecesToCopy.lookup(first)) {
        auto copy =
            plan::CopyOp::create(b, first->getLoc(), bufferOf(piece), part);
        if (Attribute task = first->getAttr(plan::kTaskAttr))
          copy->setAttr(plan::kTaskAttr, task);
      }
    else if (cluster->full != 0 && failed(writeKernel(*cluster)))
      return failure();
  }
  writeCopies();
  mark.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct FormPlanPass : scalify::impl::FormPlanBase<FormPlanPass> {
  using FormPlanBase::FormPlanBase;
  void runOnOperation() override;

private:
  LogicalResult plan(func::FuncOp function);
};
} // namespace

LogicalResult FormPlanPass::plan(func::FuncOp function) {
  Block &block = function.getBody().front();
  // Results and operands of calls look through reshapes, which keep the memory;
  // host calls do not, since the callee reads the shapes.
  for (Operation &op : block)
    if ((isLibraryCall(&op) && !isa<plan::InvokeOp>(op)) || isStack(&op))
      for (OpOperand &operand : op.getOpOperands())
        operand.set(lookThrough(operand.get(), Move::Reshape));
  Operation *ret = block.getTerminator();
  for (OpOperand &operand : ret->getOpOperands())
    operand.set(lookThrough(operand.get(), Move::Reshape));
  Clusters clusters(block, {maxBuffers, maxOps, phaseDistance,
                            TargetAttr::of(getOperation()).isGPU});
  clusters.pull();
  numMerged += clusters.merge();
  PlanWriter writer(function, clusters);
  if (failed(writer.write()))
    return failure();
  numKernels += writer.numKernels;
  // Users before definitions.
  function.erase();
  return success();
}

/// Clones constants that rewrites have moved out of a region back into it:
/// regions of ops in a kernel must be self-contained.
static LogicalResult closeRegions(Operation *op) {
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  for (Value value : captured) {
    auto constant = value.getDefiningOp<stablehlo::ConstantOp>();
    if (!constant)
      return op->emitOpError("uses a value from outside in its region, which "
                             "no kernel supports: pass it as an operand");
    for (Region &region : op->getRegions())
      replaceAllUsesInRegionWith(value,
                                 OpBuilder::atBlockBegin(&region.front())
                                     .clone(*constant)
                                     ->getResult(0),
                                 region);
  }
  return success();
}

void FormPlanPass::runOnOperation() {
  auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
  auto isMain = [](func::FuncOp function) {
    return function.getSymName() == "main";
  };
  auto hasOneBlock = [](func::FuncOp function) {
    return function.getBody().hasOneBlock();
  };
  if (llvm::none_of(functions, isMain) ||
      !llvm::all_of(functions, hasOneBlock)) {
    getOperation().emitError("has no function 'main' of one block to plan");
    return signalPassFailure();
  }
  for (func::FuncOp function : functions) {
    for (Operation &op : function.getBody().front())
      if (op.getNumRegions() > 0 && failed(closeRegions(&op)))
        return signalPassFailure();
    if (failed(plan(function)))
      return signalPassFailure();
  }
}
