//===- PlanInPlace.cpp - Legality of in-place writes ----------------------===//

#include "scalify/Dialect/Plan/PlanInPlace.h"
#include "scalify/Dialect/Plan/PlanStreams.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::plan;

//===----------------------------------------------------------------------===//
// Memory order
//===----------------------------------------------------------------------===//

/// True if all dimensions of more than one element keep their order, so that
/// neighbours in memory stay neighbours.
static bool keepsMemoryOrder(stablehlo::TransposeOp op) {
  int64_t last = -1;
  for (int64_t dim : op.getPermutation()) {
    if (typeOf(op.getOperand()).getDimSize(dim) == 1)
      continue;
    if (dim < last)
      return false;
    last = dim;
  }
  return true;
}

bool scalify::plan::broadcastsRows(stablehlo::BroadcastInDimOp op) {
  RankedTensorType from = typeOf(op.getOperand()), to = typeOf(op.getResult());
  int64_t next = 0;
  for (auto [i, dim] : llvm::enumerate(op.getBroadcastDimensions())) {
    if (from.getDimSize(i) == 1)
      continue;
    while (next < dim && to.getDimSize(next) == 1)
      ++next;
    if (dim != next || from.getDimSize(i) != to.getDimSize(dim))
      return false;
    ++next;
  }
  return true;
}

bool scalify::plan::reducesRows(stablehlo::ReduceOp op) {
  SmallVector<int64_t> dims(op.getDimensions());
  llvm::sort(dims);
  int64_t rank = typeOf(op.getInputs()[0]).getRank();
  return !dims.empty() && dims.front() == rank - int64_t(dims.size());
}

//===----------------------------------------------------------------------===//
// ElementOrder
//===----------------------------------------------------------------------===//

ElementOrder::ElementOrder(ArrayRef<Operation *> ops, ValueRange outputs) {
  walk(ops, outputs);
}

ElementOrder::ElementOrder(KernelOp kernel) {
  Block &body = kernel.getBody().front();
  auto ops = llvm::map_to_vector(body.without_terminator(),
                                 [](Operation &op) { return &op; });
  walk(ops, body.getTerminator()->getOperands());
}

void ElementOrder::meet(Value value, ReadPattern how) {
  auto [it, isNew] = met.try_emplace(value, how);
  if (!isNew && it->second != how)
    it->second = ReadPattern::Elsewhere;
}

void ElementOrder::walk(ArrayRef<Operation *> ops, ValueRange outputs) {
  for (Value output : outputs)
    full = std::max(full, countOf(output));
  for (Value output : outputs) {
    int64_t count = countOf(output);
    if (count == full) {
      meet(output, ReadPattern::ByElement);
      continue;
    }
    // Smaller outputs are written once per row.
    bool isRow = count > 0 && full % count == 0 &&
                 (columns == 0 || columns == full / count);
    if (isRow)
      columns = full / count;
    meet(output, isRow ? ReadPattern::ByRow : ReadPattern::Elsewhere);
  }
  for (Operation *op : llvm::reverse(ops))
    for (Value result : op->getResults())
      if (auto how = met.find(result); how != met.end())
        recordOperands(op, how->second);
  // A loop that does not end where rows do would write a row while summing it.
  if (hasRowSums && !endsRows(outputs)) {
    met.clear();
    hasRowSums = false;
  }
}

bool ElementOrder::endsRows(ValueRange outputs) const {
  return llvm::all_of(outputs, [&](Value output) {
    int64_t width = 1;
    if (countOf(output) == full)
      for (int64_t extent : llvm::reverse(typeOf(output).getShape()))
        if (width < columns)
          width *= extent;
    return countOf(output) != full || width == columns;
  });
}

/// Returns false if the operand must count as met elsewhere.
bool ElementOrder::recordBroadcast(Operation *op, ReadPattern how) {
  auto broadcast = cast<stablehlo::BroadcastInDimOp>(op);
  Value operand = broadcast.getOperand();
  int64_t from = countOf(operand), to = countOf(broadcast.getResult());
  if (from <= 1 || !broadcastsRows(broadcast))
    return false;
  if (from == to) {
    meet(operand, how);
    return true;
  }
  if (how != ReadPattern::ByElement || (columns != 0 && columns != to / from))
    return false;
  columns = to / from;
  meet(operand, ReadPattern::ByRow);
  return true;
}

void ElementOrder::recordOperands(Operation *op, ReadPattern how) {
  auto meetAll = [&](ValueRange values) {
    for (Value value : values)
      meet(value, ReadPattern::Elsewhere);
  };
  int64_t count = countOf(op->getResult(0));
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](stablehlo::BroadcastInDimOp broadcast) {
        if (!recordBroadcast(broadcast, how))
          meetAll(op->getOperands());
      })
      .Case([&](stablehlo::TransposeOp transpose) {
        meet(transpose.getOperand(),
             keepsMemoryOrder(transpose) ? how : ReadPattern::Elsewhere);
      })
      .Case([&](stablehlo::ReduceOp reduce) {
        bool isRows = how == ReadPattern::ByRow && reducesRows(reduce) &&
                      countOf(reduce.getInputs()[0]) == full;
        hasRowSums |= isRows;
        for (Value input : reduce.getInputs())
          meet(input, isRows ? ReadPattern::ByElement : ReadPattern::Elsewhere);
        meetAll(reduce.getInitValues());
      })
      // Elements that are not updated are read where they are written.
      .Case([&](stablehlo::DynamicUpdateSliceOp update) {
        meet(update.getOperand(), how);
        meetAll(op->getOperands().drop_front());
      })
      // A scatter works in its input's memory, and reads it at its updates.
      .Case([&](stablehlo::ScatterOp scatter) {
        bool isAlone = scatter.getInputs().size() == 1;
        meet(scatter.getInputs()[0], isAlone ? how : ReadPattern::Elsewhere);
        meetAll(op->getOperands().drop_front());
      })
      .Default([&](Operation *op) {
        bool isByElement =
            isElementwiseOp(op) ||
            isa<stablehlo::ReshapeOp, QuantizeOp, DequantizeOp>(op);
        for (Value operand : op->getOperands())
          meet(operand, isByElement && countOf(operand) == count
                            ? how
                            : ReadPattern::Elsewhere);
      });
}

bool ElementOrder::mayReplace(Value out, Value in) const {
  auto how = met.find(in);
  return how != met.end() && how->second == ReadPattern::ByElement &&
         countOf(in) == full && countOf(out) == full &&
         elementBytes(typeOf(in).getElementType()) ==
             elementBytes(typeOf(out).getElementType());
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

namespace {
struct Touch {
  OpOperand *operand;
  Access access;
};
} // namespace

static bool isProved(KernelOp kernel, OpOperand &write, OpOperand &read) {
  if (!isInPlacePair(kernel, write.get(), read.get()))
    return false;
  Block &body = kernel.getBody().front();
  unsigned index = write.getOperandNumber() - kernel.getReads().size();
  return ElementOrder(kernel).mayReplace(
      body.getTerminator()->getOperand(index),
      body.getArgument(read.getOperandNumber()));
}

/// True if a command may write one of two buffers that share bytes.
static bool mayShare(Operation *command, const Touch &a, const Touch &b) {
  if (a.access.isWrite == b.access.isWrite ||
      a.access.begin != b.access.begin || a.access.end != b.access.end)
    return false;
  const Touch &write = a.access.isWrite ? a : b;
  const Touch &read = a.access.isWrite ? b : a;
  if (auto kernel = dyn_cast<KernelOp>(command))
    return isProved(kernel, *write.operand, *read.operand);
  return isa<CollectiveOp>(command);
}

static LogicalResult verifyCommand(Operation &command) {
  SmallVector<Touch> touches;
  for (OpOperand &operand : command.getOpOperands())
    if (std::optional<Access> access = accessOf(operand))
      touches.push_back({&operand, *access});
  for (auto [i, touch] : llvm::enumerate(touches))
    for (const Touch &other : ArrayRef(touches).take_front(i))
      if (touch.access.conflictsWith(other.access) &&
          !mayShare(&command, touch, other))
        return command.emitOpError("writes bytes of operand ")
               << (touch.access.isWrite ? touch : other)
                      .operand->getOperandNumber()
               << " that operand "
               << (touch.access.isWrite ? other : touch)
                      .operand->getOperandNumber()
               << " shares, and not element by element";
  return success();
}

LogicalResult scalify::plan::verifyInPlace(ProgramOp program) {
  for (Operation &command : program.getBody().front())
    if (failed(verifyCommand(command)))
      return failure();
  return success();
}
