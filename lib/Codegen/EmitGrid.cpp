//===- EmitGrid.cpp - Distribution of loops over a GPU's threads ----------===//
//
// A block computes whole rows, and its threads share the innermost loop: each
// has vectors, with the stride of all threads together, so that neighbouring
// threads read neighbouring memory. Every thread computes the values that do
// not vary along a row, and one thread stores them. Each thread sums a part of
// a row. The parts are combined in an order that depends only on their number.
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

// With elements of at most 16 bits, as many as fill 16 bytes at 16 bits.
int64_t KernelEmitter::lanesOf(plan::KernelOp kernel, Machine machine) {
  if (machine == Machine::CPU)
    return 16;
  auto isNarrow = [](Value buffer) {
    auto type = cast<MemRefType>(buffer.getType());
    return type.getElementTypeBitWidth() <= 16;
  };
  return llvm::any_of(kernel.getReads(), isNarrow) ||
                 llvm::any_of(kernel.getWrites(), isNarrow)
             ? 8
             : 4;
}

void KernelEmitter::openGrid() {
  Location loc = kernel.getLoc();
  OpBuilder &b = at(0);
  grid = Grid{gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x),
              gpu::BlockDimOp::create(b, loc, gpu::Dimension::x),
              gpu::BlockIdOp::create(b, loc, gpu::Dimension::x),
              gpu::GridDimOp::create(b, loc, gpu::Dimension::x)};
}

/// Returns the start and the step of this thread's iterations of a loop.
std::pair<Value, Value> KernelEmitter::spreadOver(Spread spread, Value lower,
                                                  int64_t step) {
  Value unit = constantIndex(step);
  Location loc = kernel.getLoc();
  OpBuilder &b = at(innermost());
  Value place = spread == Spread::Blocks ? grid->block : grid->thread;
  Value count = spread == Spread::Blocks ? grid->blocks : grid->threads;
  if (spread == Spread::Grid) {
    Value before = arith::MulIOp::create(b, loc, grid->block, grid->threads);
    place = arith::AddIOp::create(b, loc, before, grid->thread);
    count = arith::MulIOp::create(b, loc, grid->blocks, grid->threads);
  }
  Value first = arith::MulIOp::create(b, loc, place, unit);
  return {arith::AddIOp::create(b, loc, lower, first),
          arith::MulIOp::create(b, loc, count, unit)};
}

AffineExpr KernelEmitter::pushIteration(AffineExpr lower, Interval range,
                                        int64_t lanes, bool mayBePastEnd) {
  Location loc = kernel.getLoc();
  Value from = asIndex(lower), one = constantIndex(1);
  Value to = arith::AddIOp::create(at(innermost()), loc, from, one);
  if (mayBePastEnd) {
    Value end = constantIndex(range.high + 1);
    to = arith::MinSIOp::create(at(innermost()), loc, to, end);
  }
  return pushLoop(from, to, range, lanes, lanes > 1);
}

IntegerAttr KernelEmitter::vectorAlignment(AffineExpr linear, Type stored) {
  if (!grid || !scope.isLaneAligned(linear))
    return {};
  // Buffers have a far larger alignment. No access is wider than this.
  constexpr int64_t kWidest = 16;
  int64_t bytes = scope.lanes * stored.getIntOrFloatBitWidth() / 8;
  return builder.getI64IntegerAttr(std::min(bytes, kWidest));
}

void KernelEmitter::emitBarrier(unsigned level) {
  gpu::BarrierOp::create(at(level), kernel.getLoc());
}

static gpu::AllReduceOperation operationOf(vector::CombiningKind kind) {
  using From = vector::CombiningKind;
  using To = gpu::AllReduceOperation;
  switch (kind) {
  case From::ADD:
    return To::ADD;
  case From::MUL:
    return To::MUL;
  case From::MINUI:
    return To::MINUI;
  case From::MINSI:
    return To::MINSI;
  case From::MAXUI:
    return To::MAXUI;
  case From::MAXSI:
    return To::MAXSI;
  case From::MINIMUMF:
    return To::MINIMUMF;
  case From::MAXIMUMF:
    return To::MAXIMUMF;
  case From::AND:
    return To::AND;
  case From::OR:
    return To::OR;
  default:
    return To::XOR;
  }
}

Value KernelEmitter::reduceAcrossThreads(unsigned level,
                                         vector::CombiningKind kind,
                                         Value part) {
  Location loc = kernel.getLoc();
  OpBuilder &b = at(level);
  Type type = part.getType();
  // Shuffles move 32-bit words. Zero extension preserves AND, and maximum and
  // minimum of unsigned integers; those of signed integers need sign extension.
  bool isSmall = type.isInteger() && type.getIntOrFloatBitWidth() < 32;
  bool isSigned = kind == vector::CombiningKind::MINSI ||
                  kind == vector::CombiningKind::MAXSI;
  if (isSmall && isSigned)
    part = arith::ExtSIOp::create(b, loc, b.getI32Type(), part);
  else if (isSmall)
    part = arith::ExtUIOp::create(b, loc, b.getI32Type(), part);
  // Threads may still read the shared memory of the previous reduction.
  gpu::BarrierOp::create(b, loc);
  auto operation =
      gpu::AllReduceOperationAttr::get(b.getContext(), operationOf(kind));
  Value whole = gpu::AllReduceOp::create(b, loc, part, operation,
                                         /*uniform=*/b.getUnitAttr());
  if (isSmall)
    whole = arith::TruncIOp::create(b, loc, type, whole);
  return whole;
}

Value KernelEmitter::isCounted(unsigned level) {
  Location loc = kernel.getLoc();
  OpBuilder &b = at(level);
  Value zero = constantLike(b, loc, b.getIndexType(), int64_t(0));
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                        grid->thread, zero);
  // Outside the loop over rows every block computes the value.
  if (level > 0)
    return isFirst;
  Value isFirstBlock = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                             grid->block, zero);
  return arith::AndIOp::create(b, loc, isFirst, isFirstBlock);
}

OpBuilder &KernelEmitter::getStoreBuilder(unsigned level) {
  if (!grid || isSpread(level))
    return at(level);
  // Other threads may not have read the overwritten elements yet.
  if (kernel.getInplace())
    emitBarrier(level);
  Value isFirst = isCounted(level);
  auto branch = scf::IfOp::create(at(level), kernel.getLoc(), isFirst);
  builder.setInsertionPoint(branch.thenYield());
  return builder;
}

// One counter per thread, which is a register.
void KernelEmitter::countOnGrid(unsigned level, Value &memory, Value flags) {
  Location loc = kernel.getLoc();
  Type i32 = builder.getI32Type();
  if (!memory) {
    OpBuilder &e = atEntry();
    memory = memref::AllocaOp::create(e, loc, MemRefType::get({}, i32));
    Value zero = constantLike(e, loc, i32, int64_t(0));
    zero.getDefiningOp()->moveBefore(memory.getDefiningOp());
    builder.setInsertionPointAfter(memory.getDefiningOp());
    memref::StoreOp::create(builder, loc, zero, memory);
  }
  Value ones;
  if (auto type = dyn_cast<VectorType>(flags.getType())) {
    // Per lane, a count is a predicated addition. For a vector's sum LLVM would
    // build a mask first, with twice the instructions.
    OpBuilder &b = at(level);
    for (int64_t i = 0; i < type.getDimSize(0); ++i) {
      Value flag = vector::ExtractOp::create(b, loc, flags, i);
      Value one = arith::ExtUIOp::create(b, loc, i32, flag);
      ones = ones ? Value(arith::AddIOp::create(b, loc, ones, one)) : one;
    }
  } else {
    if (!isSpread(level)) {
      Value isMine = isCounted(level);
      flags = arith::AndIOp::create(at(level), loc, flags, isMine);
    }
    ones = arith::ExtUIOp::create(at(level), loc, i32, flags);
  }
  OpBuilder &b = at(level);
  Value sum = memref::LoadOp::create(b, loc, memory);
  memref::StoreOp::create(b, loc, arith::AddIOp::create(b, loc, sum, ones),
                          memory);
}

void KernelEmitter::addCountOfGrid(Value memory, int64_t slot) {
  Location loc = kernel.getLoc();
  Value part = memref::LoadOp::create(at(0), loc, memory);
  Value sum = reduceAcrossThreads(0, vector::CombiningKind::ADD, part);
  Value place = constantIndex(slot);
  OpBuilder &b = at(0);
  Value zero = constantLike(b, loc, b.getIndexType(), int64_t(0));
  Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                        grid->thread, zero);
  auto branch = scf::IfOp::create(b, loc, isFirst);
  builder.setInsertionPoint(branch.thenYield());
  Value wide = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), sum);
  memref::AtomicRMWOp::create(builder, loc, arith::AtomicRMWKind::addi, wide,
                              function.getArguments().back(), place);
}
