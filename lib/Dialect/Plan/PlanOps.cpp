//===- PlanOps.cpp - Verification of plans --------------------------------===//
//
// What a runtime relies on without looking: shapes of kernels match buffers,
// GEMMs stay in bounds, and temporaries that live together lie apart.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/PlanStreams.h"

using namespace mlir;
using namespace scalify::plan;

#include "scalify/Dialect/Plan/PlanEnums.cpp.inc"

#define GET_OP_CLASSES
#include "scalify/Dialect/Plan/PlanOps.cpp.inc"

int64_t scalify::plan::elementBytes(Type type) {
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

int64_t scalify::plan::bufferBytes(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  return type.getNumElements() * elementBytes(type.getElementType());
}

int64_t scalify::plan::countScales(Scaling scaling, int64_t rows, int64_t k) {
  int64_t blocks = llvm::divideCeil(k, kScaleBlock);
  switch (scaling) {
  case Scaling::Tensor:
    return 1;
  case Scaling::Rows:
    return rows;
  case Scaling::Vectors:
    return rows * blocks;
  case Scaling::Blocks:
    return llvm::divideCeil(rows, kScaleBlock) * llvm::alignTo(blocks, 4);
  }
  llvm_unreachable("unknown scaling");
}

bool scalify::plan::hasBias(Epilogue epilogue) {
  return epilogue == Epilogue::Bias || epilogue == Epilogue::BiasReLU ||
         epilogue == Epilogue::BiasGELU;
}

bool scalify::plan::hasGELU(Epilogue epilogue) {
  return epilogue == Epilogue::GELU || epilogue == Epilogue::BiasGELU;
}

Type scalify::plan::getBiasType(Type operand, Type result) {
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(operand) || result.isF16())
    return result;
  return BFloat16Type::get(operand.getContext());
}

Value scalify::plan::getWhole(Value buffer) {
  auto temp = buffer.getDefiningOp<TempOp>();
  return temp && temp.getWhole() ? temp.getWhole() : buffer;
}

llvm::DenseMap<Value, LiveRange>
scalify::plan::computeLiveRanges(ProgramOp program) {
  llvm::DenseMap<Value, LiveRange> ranges;
  llvm::DenseMap<Value, SmallVector<int64_t>> touches;
  for (auto [position, op] : llvm::enumerate(program.getBody().front())) {
    if (isa<TempOp>(op))
      continue;
    for (Value operand : llvm::map_range(op.getOperands(), getWhole)) {
      if (!operand.getDefiningOp<TempOp>())
        continue;
      LiveRange &range = ranges[operand];
      if (range.first < 0)
        range.first = position;
      range.last = position;
      touches[operand].push_back(position);
    }
  }
  StreamOrder order(program);
  for (auto &[value, range] : ranges) {
    range.held = order.heldUntil(touches[value]);
    range.isLastAlone =
        llvm::all_of(touches[value], [&, last = range.last](int64_t position) {
          return position == last || order.isBefore(position, last);
        });
  }
  return ranges;
}

bool scalify::plan::isInPlacePair(KernelOp kernel, Value out, Value in) {
  ArrayRef<int64_t> pairs = kernel.getInplace().value_or(ArrayRef<int64_t>());
  for (size_t i = 0; i + 1 < pairs.size(); i += 2)
    if (kernel.getWrites()[pairs[i]] == out &&
        kernel.getReads()[pairs[i + 1]] == in)
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

namespace {
struct Placed {
  TempOp temp;
  LiveRange range;
  int64_t begin, end;
};
} // namespace

// A value may be written over another one in the command that reads it last.
static bool handsOver(Placed &before, Placed &after, Block &block) {
  if (before.range.last != after.range.first ||
      before.range.first == after.range.first)
    return false;
  Operation &command = *std::next(block.begin(), before.range.last);
  if (auto collective = dyn_cast<CollectiveOp>(command))
    return collective.getSource() == before.temp.getMemory() &&
           collective.getDestination() == after.temp.getMemory() &&
           before.begin == after.begin && before.end == after.end;
  auto kernel = dyn_cast<KernelOp>(command);
  return kernel &&
         isInPlacePair(kernel, after.temp.getMemory(), before.temp.getMemory());
}

static SmallVector<Value> getWrites(Operation &command) {
  if (auto kernel = dyn_cast<KernelOp>(command))
    return llvm::to_vector(kernel.getWrites());
  if (auto gemm = dyn_cast<GemmOp>(command)) {
    SmallVector<Value> writes{gemm.getC()};
    if (gemm.getAux())
      writes.push_back(gemm.getAux());
    return writes;
  }
  if (auto attention = dyn_cast<AttentionOp>(command))
    return llvm::to_vector(attention.getWrites());
  if (auto collective = dyn_cast<CollectiveOp>(command))
    return {collective.getDestination()};
  if (auto message = dyn_cast<MessageOp>(command); message && !message.isSend())
    return {message.getMemory()};
  if (auto copy = dyn_cast<CopyOp>(command))
    return {copy.getDestination()};
  if (auto fill = dyn_cast<FillOp>(command))
    return {fill.getDestination()};
  return {};
}

// An argument is gone once the result that takes its memory is written, and so
// is every part of it.
static LogicalResult verifyAliases(Block &block) {
  llvm::DenseMap<int64_t, Value> results; // by the argument
  for (ResultOp result : block.getOps<ResultOp>())
    if (std::optional<int64_t> argument = result.getAliasArg();
        argument && !result->hasAttr(kOffsetAttr))
      results[*argument] = result.getMemory();
  llvm::DenseSet<Value> written;
  for (Operation &command : block) {
    SmallVector<Value> writes = getWrites(command);
    for (Value operand : command.getOperands()) {
      auto argument = operand.getDefiningOp<ArgumentOp>();
      Value result = argument ? results.lookup(argument.getIndex()) : Value();
      if (!result)
        continue;
      auto kernel = dyn_cast<KernelOp>(command);
      bool isInPlace = kernel && isInPlacePair(kernel, result, operand);
      if (written.contains(result) ||
          (llvm::is_contained(writes, result) && !isInPlace))
        return command.emitOpError("reads argument ")
               << argument.getIndex()
               << ", whose memory a result has taken by then";
    }
    written.insert(writes.begin(), writes.end());
  }
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  Block &block = getBody().front();
  if (failed(verifyAliases(block)) || failed(verifyStreams(*this)))
    return failure();
  if (!getArenaBytes())
    return success();
  SmallVector<Placed> placed;
  llvm::DenseMap<Value, LiveRange> ranges = computeLiveRanges(*this);
  for (TempOp temp : block.getOps<TempOp>()) {
    LiveRange range = ranges.lookup(temp.getMemory());
    if (range.first < 0)
      continue;
    if (!temp.getOffset())
      return temp.emitOpError("has no offset, but the program has an arena");
    int64_t begin = *temp.getOffset();
    int64_t end = begin + bufferBytes(temp.getMemory());
    if (end > static_cast<int64_t>(*getArenaBytes()))
      return temp.emitOpError("ends at byte ")
             << end << " of an arena of " << *getArenaBytes() << " bytes";
    placed.push_back({temp, range, begin, end});
  }
  llvm::sort(placed, [](const Placed &a, const Placed &b) {
    return a.range.first < b.range.first;
  });
  SmallVector<Placed *> live;
  for (Placed &next : placed) {
    llvm::erase_if(
        live, [&](Placed *old) { return old->range.last < next.range.first; });
    for (Placed *old : live)
      if (old->begin < next.end && next.begin < old->end &&
          !handsOver(*old, next, block)) {
        InFlightDiagnostic diag = next.temp->emitOpError(
            "shares memory with another temporary that is live");
        diag.attachNote(old->temp.getLoc()) << "the other temporary";
        return diag;
      }
    live.push_back(&next);
  }
  return success();
}

LogicalResult TempOp::verify() {
  if (!getWhole())
    return success();
  if (!getStart())
    return emitOpError("is a part, but does not say from which byte");
  auto whole = getWhole().getDefiningOp<TempOp>();
  if (!whole || whole.getWhole())
    return emitOpError("must be a part of a temporary that is none itself");
  auto start = static_cast<int64_t>(*getStart());
  int64_t end = start + bufferBytes(getMemory());
  if (start < 0 || end > bufferBytes(getWhole()))
    return emitOpError("has bytes ")
           << start << " to " << end << " of a temporary of "
           << bufferBytes(getWhole());
  if (getOffset() && whole.getOffset() &&
      *getOffset() != *whole.getOffset() + *getStart())
    return emitOpError("lies at byte ")
           << *getOffset() << ", but its whole at " << *whole.getOffset();
  return success();
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

static bool matches(Type tensor, Type buffer) {
  auto ranked = dyn_cast<RankedTensorType>(tensor);
  auto memory = cast<MemRefType>(buffer);
  return ranked && ranked.hasStaticShape() &&
         ranked.getElementType() == memory.getElementType() &&
         ranked.getNumElements() == memory.getNumElements();
}

LogicalResult KernelOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getReads().size())
    return emitOpError("reads ")
           << getReads().size() << " buffers, but its body has "
           << block.getNumArguments() << " arguments";
  for (auto [arg, buffer] : llvm::zip(block.getArguments(), getReads()))
    if (!matches(arg.getType(), buffer.getType()))
      return emitOpError("has body argument of type ")
             << arg.getType() << " for a buffer of type " << buffer.getType();
  Operation *yield = block.getTerminator();
  if (yield->getNumOperands() != getWrites().size())
    return emitOpError("writes ")
           << getWrites().size() << " buffers, but yields "
           << yield->getNumOperands() << " values";
  for (auto [value, buffer] : llvm::zip(yield->getOperands(), getWrites()))
    if (!matches(value.getType(), buffer.getType()))
      return emitOpError("yields a value of type ")
             << value.getType() << " for a buffer of type " << buffer.getType();
  for (int64_t index : getInplace().value_or(ArrayRef<int64_t>()))
    if (index < 0)
      return emitOpError("has a negative index in 'inplace'");
  return success();
}

static LogicalResult verifyMatrix(GemmOp op, unsigned which, Value buffer,
                                  int64_t rows, int64_t cols,
                                  ArrayRef<int64_t> strides) {
  if (strides.size() != 2)
    return op.emitOpError("needs two strides for each matrix");
  int64_t last = op.getOffsets()[which] + (rows - 1) * strides[0] +
                 (cols - 1) * strides[1];
  for (auto [i, extent] : llvm::enumerate(op.getBatch()))
    last += (extent - 1) * op.getBatchStrides()[3 * i + which];
  auto type = cast<MemRefType>(buffer.getType());
  if (last >= type.getNumElements())
    return op.emitOpError("touches element ")
           << last << " of operand " << which << ", which has "
           << type.getNumElements();
  return success();
}

static bool isFP8(Value buffer) {
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  return isa<Float8E4M3FNType, Float8E5M2Type>(element);
}

/// Elements of FP8 in 16 bytes.
static constexpr int64_t kFP8Alignment = 16;

// Hopper reads FP8 operands along the sum, and 16 bytes at a time.
static LogicalResult verifyFP8(GemmOp op, unsigned which, int64_t sumStride,
                               int64_t freeStride, int64_t free) {
  bool isAligned = op.getOffsets()[which] % kFP8Alignment == 0 &&
                   (free == 1 || freeStride % kFP8Alignment == 0);
  for (size_t i = 0; i < op.getBatch().size(); ++i)
    isAligned &= op.getBatchStrides()[3 * i + which] % kFP8Alignment == 0;
  if (sumStride != 1 || op.getK() % kFP8Alignment || !isAligned)
    return op.emitOpError("has FP8 operand ")
           << which
           << ", which must lie along the sum, in multiples of 16 elements";
  return success();
}

// It writes 16 bytes at a time too.
static LogicalResult verifyFP8Result(GemmOp op) {
  constexpr int64_t bytes = 16;
  Type type = cast<MemRefType>(op.getC().getType()).getElementType();
  bool isRowMajor = op.getCStrides()[1] == 1;
  auto inner = static_cast<int64_t>(isRowMajor ? op.getN() : op.getM());
  auto outer = static_cast<int64_t>(isRowMajor ? op.getM() : op.getN());
  int64_t step = outer == 1 ? 0 : op.getCStrides()[isRowMajor ? 0 : 1];
  bool isAligned = true;
  for (int64_t count : {inner, step, op.getOffsets()[2]})
    isAligned &= count * elementBytes(type) % bytes == 0;
  for (size_t i = 0; i < op.getBatch().size(); ++i)
    isAligned &=
        op.getBatchStrides()[3 * i + 2] * elementBytes(type) % bytes == 0;
  if (!isAligned)
    return op.emitOpError("has FP8 operands, and a result whose rows are no "
                          "multiples of 16 bytes");
  return success();
}

// What cuBLASLt has for Hopper from CUDA 12.9 on.
static LogicalResult verifyScalings(GemmOp op) {
  Scaling a = op.getAScaling(), b = op.getBScaling();
  if (a == Scaling::Tensor && b == Scaling::Tensor)
    return success();
  auto isOf128 = [](Scaling scaling) {
    return scaling == Scaling::Vectors || scaling == Scaling::Blocks;
  };
  bool isPair = (a == Scaling::Rows && b == Scaling::Rows) ||
                (isOf128(a) && isOf128(b) &&
                 (a == Scaling::Vectors || b == Scaling::Vectors));
  if (!isPair)
    return op.emitOpError("has scales by ")
           << stringifyScaling(a) << " x " << stringifyScaling(b)
           << ", which the library does not multiply";
  if (op.getScales().empty())
    return op.emitOpError("says how scales lie, but has none");
  if (!op.getBatch().empty())
    return op.emitOpError("has a batch, and more than one scale an operand");
  if (isOf128(a) && (op.getM() % 4 || op.getN() % 4))
    return op.emitOpError("has scales by blocks, and rows that are no multiple "
                          "of 4");
  return success();
}

static LogicalResult verifyScales(GemmOp op) {
  if (failed(verifyScalings(op)))
    return failure();
  if (op.getScales().empty())
    return success();
  if (op.getScales().size() != 2 || !isFP8(op.getA()))
    return op.emitOpError("takes two scales, those of its FP8 operands");
  auto k = static_cast<int64_t>(op.getK());
  int64_t wanted[] = {
      countScales(op.getAScaling(), static_cast<int64_t>(op.getM()), k),
      countScales(op.getBScaling(), static_cast<int64_t>(op.getN()), k)};
  for (auto [scale, count] : llvm::zip_equal(op.getScales(), wanted)) {
    auto type = cast<MemRefType>(scale.getType());
    if (!type.getElementType().isF32() || type.getNumElements() != count)
      return op.emitOpError("has scales of type ")
             << type << ", not " << count << " of F32";
  }
  return success();
}

static LogicalResult verifyBias(GemmOp op) {
  auto type = cast<MemRefType>(op.getBias().getType());
  auto elementOf = [](Value buffer) {
    return cast<MemRefType>(buffer.getType()).getElementType();
  };
  Type wanted = getBiasType(elementOf(op.getA()), elementOf(op.getC()));
  if (type.getElementType() != wanted)
    return op.emitOpError("has a bias of ")
           << type.getElementType() << ", and the library adds one of "
           << wanted;
  int64_t first = op.getOffsets()[3];
  int64_t end = first + static_cast<int64_t>(op.getN());
  if (end > type.getNumElements())
    return op.emitOpError("reads element ")
           << end - 1 << " of a bias of " << type.getNumElements();
  if (first * elementBytes(wanted) % kBiasAlignment)
    return op.emitOpError("has a bias that lies at no multiple of ")
           << kBiasAlignment << " bytes";
  return success();
}

static LogicalResult verifyAux(GemmOp op) {
  if (!hasGELU(op.getEpilogue()))
    return op.emitOpError("stores what a GELU reads, and has none");
  if (op.getAux().getType() != op.getC().getType() || op.getOffsets()[2] != 0)
    return op.emitOpError("stores what a GELU reads in memory unlike its "
                          "result's");
  bool isAligned = op.getM() == 1 || op.getCStrides()[0] % kAuxAlignment == 0;
  for (size_t i = 2; i < op.getBatchStrides().size(); i += 3)
    isAligned &= op.getBatchStrides()[i] % kAuxAlignment == 0;
  if (!isAligned)
    return op.emitOpError("stores what a GELU reads in rows of no multiple of ")
           << kAuxAlignment << " elements";
  return success();
}

// The library writes columns, and adds element i to row i: C's columns are
// contiguous as its rows.
static LogicalResult verifyEpilogue(GemmOp op) {
  Epilogue epilogue = op.getEpilogue();
  if (hasBias(epilogue) != static_cast<bool>(op.getBias()))
    return op.emitOpError(op.getBias() ? "has a bias, and no epilogue that "
                                         "adds it"
                                       : "adds a bias, and has none");
  if (op.getAux() && failed(verifyAux(op)))
    return failure();
  if (epilogue == Epilogue::None)
    return success();
  if (op.getCStrides()[1] != 1)
    return op.emitOpError("has an epilogue, and rows that are not contiguous");
  if (op.getAScaling() != Scaling::Tensor ||
      op.getBScaling() != Scaling::Tensor)
    return op.emitOpError(
        "has an epilogue, and more than one scale an operand");
  if (isFP8(op.getA()) && !op.getBatch().empty())
    return op.emitOpError("has an epilogue, and a batch of FP8 products");
  auto elementOf = [](Value buffer) {
    return cast<MemRefType>(buffer.getType()).getElementType();
  };
  Type result = elementOf(op.getC());
  if (!isFP8(op.getA()) && !result.isF32() && result != elementOf(op.getA()))
    return op.emitOpError("has an epilogue, and rounds to ")
           << result << " a product of " << elementOf(op.getA());
  return op.getBias() ? verifyBias(op) : success();
}

LogicalResult GemmOp::verify() {
  if (getOffsets().size() != (getBias() ? 4 : 3))
    return emitOpError("needs three offsets, and one more for a bias");
  if (getBatchStrides().size() != 3 * getBatch().size())
    return emitOpError("needs three strides for each batch dimension");
  if (failed(verifyMatrix(*this, 0, getA(), getM(), getK(), getAStrides())) ||
      failed(verifyMatrix(*this, 1, getB(), getK(), getN(), getBStrides())) ||
      failed(verifyScales(*this)))
    return failure();
  auto isF32 = [](Value buffer) {
    return cast<MemRefType>(buffer.getType()).getElementType().isF32();
  };
  if (getTf32() && !(isF32(getA()) && isF32(getB())))
    return emitOpError("has 'tf32' and an operand that is not F32");
  if (isFP8(getA()) != isFP8(getB()))
    return emitOpError("has one FP8 operand: both are or none");
  if (isFP8(getA()) &&
      (failed(
           verifyFP8(*this, 0, getAStrides()[1], getAStrides()[0], getM())) ||
       failed(verifyFP8(*this, 1, getBStrides()[0], getBStrides()[1], getN()))))
    return failure();
  if (failed(verifyMatrix(*this, 2, getC(), getM(), getN(), getCStrides())) ||
      failed(verifyEpilogue(*this)))
    return failure();
  return isFP8(getA()) ? verifyFP8Result(*this) : success();
}

bool scalify::plan::isKeySide(unsigned matrix, bool isGradient) {
  // Forward: q k v, result. Gradient: q k v result grad, dq dk dv.
  return matrix == 1 || matrix == 2 || (isGradient && matrix > kGradientReads);
}

/// Buffers of the attention without its statistics, which are `statistics`.
static SmallVector<Value> getMatrices(AttentionOp op, Value &statistics) {
  SmallVector<Value> matrices(op.getReads());
  if (op.getGradient())
    statistics = matrices.pop_back_val();
  llvm::append_range(matrices, op.getWrites());
  if (!op.getGradient())
    statistics = matrices.pop_back_val();
  return matrices;
}

static LogicalResult verifyWindow(AttentionOp op, unsigned which, Value buffer,
                                  Type element) {
  ArrayRef<int64_t> sizes = op.getSizes();
  bool isKey = isKeySide(which, op.getGradient());
  ArrayRef<int64_t> window = op.getWindows().slice(4 * which, 4);
  auto type = cast<MemRefType>(buffer.getType());
  if (type.getElementType() != element)
    return op.emitOpError("has matrix ")
           << which << " of another format than the first";
  int64_t last = window[0] + (sizes[Batch] - 1) * window[1] +
                 (sizes[isKey ? KeyHeads : Heads] - 1) * window[2] +
                 (sizes[isKey ? Keys : Queries] - 1) * window[3] +
                 sizes[Channels] - 1;
  if (llvm::any_of(window, [](int64_t step) { return step < 0; }) ||
      last >= type.getNumElements())
    return op.emitOpError("touches element ")
           << last << " of matrix " << which << ", which has "
           << type.getNumElements();
  return success();
}

LogicalResult AttentionOp::verify() {
  unsigned reads = getGradient() ? kGradientReads + 1 : kForwardReads;
  unsigned writes = getGradient() ? 3 : 2;
  if (getReads().size() != reads || getWrites().size() != writes)
    return emitOpError("must read ")
           << reads << " buffers and write " << writes;
  ArrayRef<int64_t> sizes = getSizes();
  if (sizes.size() != NumAttentionSizes ||
      llvm::any_of(sizes, [](int64_t size) { return size < 1; }) ||
      sizes[Heads] % sizes[KeyHeads])
    return emitOpError("needs six positive sizes, heads a multiple of key "
                       "heads");
  if (getCausal() && sizes[Queries] != sizes[Keys])
    return emitOpError("is causal, and needs as many queries as keys");
  Value statistics;
  SmallVector<Value> matrices = getMatrices(*this, statistics);
  if (getWindows().size() != 4 * matrices.size())
    return emitOpError("needs an offset and three strides for each matrix");
  Type element = cast<MemRefType>(matrices[0].getType()).getElementType();
  if (!element.isBF16() && !element.isF16())
    return emitOpError("multiplies ") << element << ", not bf16 or f16";
  for (auto [which, buffer] : llvm::enumerate(matrices))
    if (failed(verifyWindow(*this, which, buffer, element)))
      return failure();
  auto type = cast<MemRefType>(statistics.getType());
  if (!type.getElementType().isF32() ||
      type.getNumElements() != sizes[Batch] * sizes[Heads] * sizes[Queries])
    return emitOpError("needs statistics of one F32 number a row, not ")
           << type;
  return success();
}

LogicalResult CopyOp::verify() {
  if (bufferBytes(getSource()) != bufferBytes(getDestination()))
    return emitOpError("copies ")
           << bufferBytes(getSource()) << " bytes to a buffer of "
           << bufferBytes(getDestination());
  return success();
}
