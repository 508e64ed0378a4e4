//===- PlanWritten.cpp - Reads of unwritten memory ------------------------===//
//
// Arena and result memory hold leftovers of an earlier step or another program.
// A command that reads them before a write gives numbers that differ from run
// to run.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/PlanInPlace.h"
#include "scalify/Dialect/Plan/PlanStreams.h"

#include <map>

using namespace mlir;
using namespace scalify::plan;

namespace {
struct Bytes {
  int64_t begin, end;
};

/// The disjoint byte ranges of one buffer that commands have written.
class Written {
public:
  void add(Bytes bytes) {
    SmallVector<Bytes> apart;
    for (Bytes old : ranges) {
      if (old.end < bytes.begin || bytes.end < old.begin) {
        apart.push_back(old);
        continue;
      }
      bytes = {std::min(bytes.begin, old.begin), std::max(bytes.end, old.end)};
    }
    apart.push_back(bytes);
    ranges = std::move(apart);
  }

  bool contains(Bytes bytes) const {
    return bytes.begin >= bytes.end || llvm::any_of(ranges, [&](Bytes written) {
             return written.begin <= bytes.begin && bytes.end <= written.end;
           });
  }

private:
  SmallVector<Bytes> ranges;
};
} // namespace

/// Returns the bytes of its whole that a buffer covers, if the step itself must
/// write them: none for arguments, constants, and results in an argument's
/// memory.
static std::optional<Bytes> bytesOf(Value buffer) {
  if (auto temp = buffer.getDefiningOp<TempOp>()) {
    int64_t start = temp.getWhole() ? temp.getStart().value_or(0) : 0;
    return Bytes{start, start + bufferBytes(buffer)};
  }
  auto result = buffer.getDefiningOp<ResultOp>();
  if (!result || result.getAliasArg())
    return std::nullopt;
  auto offset = result->getAttrOfType<IntegerAttr>(kOffsetAttr);
  int64_t start = offset ? offset.getInt() : 0;
  return Bytes{start, start + bufferBytes(buffer)};
}

LogicalResult scalify::plan::verifyWritten(ProgramOp program) {
  llvm::DenseMap<Value, Written> temporaries;
  std::map<int64_t, Written> results;
  auto writtenOf = [&](Value buffer) -> Written & {
    if (auto result = buffer.getDefiningOp<ResultOp>())
      return results[result.getIndex()];
    return temporaries[getWhole(buffer)];
  };
  for (Operation &command : program.getBody().front()) {
    if (isa<TempOp>(command))
      continue;
    for (OpOperand &operand : command.getOpOperands()) {
      std::optional<Access> access = accessOf(operand);
      std::optional<Bytes> bytes = bytesOf(operand.get());
      if (access && bytes && !access->isWrite &&
          !writtenOf(operand.get()).contains(*bytes))
        return command.emitOpError("reads operand ")
               << operand.getOperandNumber()
               << ", which no command before it has written";
    }
    for (OpOperand &operand : command.getOpOperands()) {
      std::optional<Access> access = accessOf(operand);
      std::optional<Bytes> bytes = bytesOf(operand.get());
      if (access && bytes && access->isWrite)
        writtenOf(operand.get()).add(*bytes);
    }
  }
  return success();
}
