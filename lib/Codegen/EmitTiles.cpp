//===- EmitTiles.cpp - Transposes by tiles in GPU shared memory -----------===//
//
// A transpose separates neighbours in memory: with contiguous reads it writes
// single elements, and vice versa. So a block processes one tile at a time. Its
// threads compute the transpose's operand in the operand's memory order, and
// store it to shared memory (and to the output, if the kernel writes it
// untransposed too). After a barrier they read the tile in the other order.
// Both passes move vectors of up to 16 bytes.
//
// The rows of a tile have no gaps, but 16 bytes of padding follow each group of
// as many rows as a vector has lanes: a warp's reads then hit different banks.
//
//===----------------------------------------------------------------------===//

#include "EmitTiles.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

// Per block; shorter sides would leave most of a tile idle.
static constexpr int64_t kThreads = 256, kMinSide = 16;
// In bits: a vector in memory, and a thread's part of wider elements.
static constexpr int64_t kVectorBits = 128, kPartBits = 256;
// In bytes: shared memory that every device has without opting in for more.
static constexpr int64_t kSharedBytes = 48 * 1024;

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t bitsOf(Value value) {
  return storageType(tensorType(value).getElementType())
      .getIntOrFloatBitWidth();
}

// Simplifies a transpose: drops dimensions of one element, and merges
// dimensions that stay neighbours.
static void mergeDims(stablehlo::TransposeOp op, TileSpace &space) {
  ArrayRef<int64_t> shape = tensorType(op.getOperand()).getShape();
  SmallVector<int64_t> written; // dimensions of the operand
  for (int64_t dim : op.getPermutation())
    if (shape[dim] != 1)
      written.push_back(dim);
  auto positionOf = [&](int64_t dim) {
    return llvm::find(written, dim) - written.begin();
  };
  SmallVector<int64_t> firsts;
  int64_t last = -2;
  for (auto [dim, extent] : llvm::enumerate(shape)) {
    if (extent == 1)
      continue;
    if (last >= 0 && positionOf(dim) == positionOf(last) + 1) {
      space.shape.back() *= extent;
    } else {
      space.shape.push_back(extent);
      firsts.push_back(dim);
    }
    last = dim;
  }
  for (int64_t dim : written)
    if (auto *found = llvm::find(firsts, dim); found != firsts.end())
      space.order.push_back(found - firsts.begin());
}

static bool movesInnermostDim(const TileSpace &space) {
  return space.shape.size() > 1 &&
         space.order.back() != int64_t(space.shape.size()) - 1;
}

llvm::DenseSet<Value>
codegen::collectDependencies(ValueRange roots,
                             llvm::function_ref<bool(Operation *)> isEnd) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> stack(roots);
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (op && !isEnd(op))
      stack.append(op->operand_begin(), op->operand_end());
  }
  return seen;
}

// As many lanes as fill a vector of the narrowest elements, unless wider ones
// take too many registers. No vector crosses the end of a row.
static int64_t chooseLanes(const llvm::DenseSet<Value> &values,
                           ArrayRef<Value> moved, int64_t large,
                           int64_t extent) {
  int64_t narrowest = 64, widest = 8;
  auto see = [&](Value value) {
    narrowest = std::min(narrowest, bitsOf(value));
    widest = std::max(widest, bitsOf(value));
  };
  for (Value value : values)
    if (isa<BlockArgument>(value) &&
        tensorType(value).getNumElements() >= large)
      see(value);
  llvm::for_each(moved, see);
  int64_t lanes = std::min(kVectorBits / narrowest, kPartBits / widest);
  while (extent % lanes != 0)
    lanes /= 2;
  return lanes;
}

// True if an output of one pass aliases an input that the other pass reads.
static bool readsOverwrittenInput(plan::KernelOp kernel,
                                  ArrayRef<unsigned> writes,
                                  const llvm::DenseSet<Value> &others) {
  auto pairs = kernel.getInplace();
  if (!pairs)
    return false;
  for (size_t i = 0; i + 1 < pairs->size(); i += 2)
    if (llvm::is_contained(writes, (*pairs)[i]) &&
        others.contains(kernel.getBody().getArgument((*pairs)[i + 1])))
      return true;
  return false;
}

static bool fitsSharedMemory(const TileSpace &space) {
  int64_t bytes = 0;
  for (stablehlo::TransposeOp op : space.turns)
    bytes += bitsOf(op.getOperand()) / 8 * space.side * (space.side + 16);
  return bytes <= kSharedBytes;
}

std::optional<TileSpace> scalify::codegen::chooseTiles(plan::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  Operation *yield = body.getTerminator();
  TileSpace space;
  for (Operation &op : body.without_terminator()) {
    if (isa<stablehlo::ReduceOp, stablehlo::ScatterOp, stablehlo::ConcatenateOp,
            stablehlo::PadOp, stablehlo::GatherOp, plan::WindowsOp>(op))
      return std::nullopt;
    auto turn = dyn_cast<stablehlo::TransposeOp>(op);
    TileSpace own;
    if (!turn || (mergeDims(turn, own), !movesInnermostDim(own)))
      continue;
    if (space.turns.empty()) {
      space.shape = own.shape;
      space.order = own.order;
    } else if (space.shape != own.shape || space.order != own.order) {
      return std::nullopt;
    }
    space.turns.push_back(turn);
  }
  if (space.turns.empty())
    return std::nullopt;
  int64_t rows = space.shape[space.order.back()], columns = space.shape.back();
  if (std::min(rows, columns) < kMinSide)
    return std::nullopt;
  int64_t large = tensorType(space.turns[0].getOperand()).getNumElements();
  auto isTurn = [&](Operation *op) {
    return llvm::is_contained(space.turns, op);
  };
  SmallVector<Value> reads, writes, tiles;
  for (stablehlo::TransposeOp turn : space.turns)
    tiles.push_back(turn.getOperand());
  for (auto [i, output] : llvm::enumerate(yield->getOperands())) {
    if (tensorType(output).getNumElements() != large)
      return std::nullopt;
    llvm::DenseSet<Value> behind = collectDependencies(output, isTurn);
    bool isTurned = llvm::any_of(space.turns, [&](stablehlo::TransposeOp turn) {
      return behind.contains(turn.getResult());
    });
    (isTurned ? space.turned : space.straight).push_back(i);
    (isTurned ? writes : reads).push_back(output);
  }
  llvm::append_range(reads, tiles);
  llvm::DenseSet<Value> first = collectDependencies(reads, isTurn);
  llvm::DenseSet<Value> second = collectDependencies(writes, isTurn);
  if (llvm::any_of(space.turns,
                   [&](stablehlo::TransposeOp turn) {
                     return first.contains(turn.getResult());
                   }) ||
      readsOverwrittenInput(kernel, space.straight, second) ||
      readsOverwrittenInput(kernel, space.turned, first))
    return std::nullopt;
  llvm::append_range(writes, tiles);
  space.readLanes = chooseLanes(first, reads, large, columns);
  space.writtenLanes = chooseLanes(second, writes, large, rows);
  bool isWide = llvm::any_of(tiles, [](Value v) { return bitsOf(v) > 16; });
  space.side = isWide ? 32 : 64;
  if (!fitsSharedMemory(space))
    return std::nullopt;
  return space;
}

//===----------------------------------------------------------------------===//
// Tiles in memory
//===----------------------------------------------------------------------===//

void KernelEmitter::stage(Value value, const StagedTile &tile) {
  stagedTiles[value] = tile;
}

LogicalResult KernelEmitter::storeToTile(const StagedTile &tile,
                                         Element element, Type type) {
  Location loc = kernel.getLoc();
  Value place = asIndex(tile.place);
  OpBuilder &b = at(tile.level);
  if (!scope.dependsOnLanes(tile.place)) {
    Value stored = toStorage(b, loc, element.value, type, machine);
    memref::StoreOp::create(b, loc, stored, tile.memory, place);
    return success();
  }
  Value stored = toStorage(b, loc, broadcast(b, element.value), type, machine);
  auto store = vector::StoreOp::create(b, loc, stored, tile.memory, place);
  int64_t bits = storageType(type).getIntOrFloatBitWidth() * scope.lanes;
  store.setAlignmentAttr(b.getI64IntegerAttr(std::min(bits, kVectorBits) / 8));
  return success();
}

FailureOr<Element> KernelEmitter::staged(Value value, const Index &index) {
  auto found = stagedTiles.find(value);
  if (found == stagedTiles.end())
    return failure();
  const StagedTile &tile = found->second;
  RankedTensorType type = tensorType(value);
  LinearForm rest =
      scope.flatten(scope.linearise(index, type.getShape()) - tile.linear);
  if (!rest.terms.empty() || rest.constant != 0)
    return failure();
  Location loc = kernel.getLoc();
  Value place = asIndex(tile.place);
  OpBuilder &b = at(tile.level);
  Value stored;
  if (!scope.dependsOnLanes(tile.place)) {
    stored = memref::LoadOp::create(b, loc, tile.memory, place);
  } else {
    SmallVector<Value> lanes;
    for (int64_t i = 0; i < scope.lanes; ++i) {
      Value apart = constantLike(b, loc, b.getIndexType(), i * tile.rowLength);
      Value at = arith::AddIOp::create(b, loc, place, apart);
      lanes.push_back(memref::LoadOp::create(b, loc, tile.memory, at));
    }
    Type element = cast<MemRefType>(tile.memory.getType()).getElementType();
    stored = vector::FromElementsOp::create(
        b, loc, cast<VectorType>(vectorOf(element)), lanes);
  }
  return Element{toRegister(b, loc, stored, type.getElementType(), machine),
                 tile.level};
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

namespace {
/// Emits the two passes over every tile of a block.
struct TileEmitter {
  KernelEmitter &e;
  const TileSpace &space;
  int64_t row, column; // the tiled dimensions
  Operation *yield;
  SmallVector<Value> memories; // one per transpose
  Index tile;                  // tile index in every dimension

  TileEmitter(KernelEmitter &emitter, const TileSpace &space)
      : e(emitter), space(space), row(space.order.back()),
        column(space.shape.size() - 1),
        yield(emitter.kernel.getBody().front().getTerminator()) {}
  FailureOr<KernelRows> emit();

private:
  void allocate();
  int64_t rowsOfGroup(Value value) const {
    return std::min<int64_t>(kVectorBits / bitsOf(value), space.side);
  }
  LogicalResult pass(int64_t outer, int64_t inner, int64_t lanes,
                     llvm::function_ref<LogicalResult(const Index &)> body);
  KernelEmitter::StagedTile tileOf(size_t turn, const Index &index);
  AffineExpr linearOf(const Index &index, bool isTurned);
  LogicalResult readPass(const Index &index);
  LogicalResult writePass(const Index &index);
  FailureOr<SmallVector<Element>> compute(ArrayRef<unsigned> outputs,
                                          AffineExpr linear);
  LogicalResult store(ArrayRef<unsigned> outputs, ArrayRef<Element> values,
                      AffineExpr linear);
};
} // namespace

void TileEmitter::allocate() {
  auto shared = static_cast<int64_t>(NVVM::NVVMMemorySpace::Shared);
  for (stablehlo::TransposeOp turn : space.turns) {
    Value value = turn.getOperand();
    int64_t gap = kVectorBits / bitsOf(value);
    int64_t groups = space.side / rowsOfGroup(value);
    OpBuilder &b = e.atEntry();
    auto type = MemRefType::get({space.side * space.side + groups * gap},
                                storageType(tensorType(value).getElementType()),
                                AffineMap(), b.getI64IntegerAttr(shared));
    memories.push_back(memref::AllocaOp::create(b, e.kernel.getLoc(), type));
  }
}

/// Each thread has vectors along `inner`, at positions along `outer`.
LogicalResult
TileEmitter::pass(int64_t outer, int64_t inner, int64_t lanes,
                  llvm::function_ref<LogicalResult(const Index &)> body) {
  int64_t side = space.side, vectors = side / lanes;
  AffineExpr mine = e.pushLoop(0, side * vectors, 1, false, Spread::Threads);
  Index index(tile);
  auto push = [&](int64_t dim, AffineExpr within, int64_t step) {
    int64_t extent = space.shape[dim];
    index[dim] =
        e.pushIteration(tile[dim] * side + within, {0, extent - 1}, step,
                        /*mayBePastEnd=*/extent % side != 0);
  };
  push(outer, e.scope.floorDiv(mine, vectors), 1);
  push(inner, e.scope.mod(mine, vectors) * lanes, lanes);
  if (failed(body(index)))
    return failure();
  for (int i = 0; i < 3; ++i)
    e.popLoop();
  // Until all threads have stored the tile, or have read it.
  e.emitBarrier(e.innermost());
  return success();
}

AffineExpr TileEmitter::linearOf(const Index &index, bool isTurned) {
  if (!isTurned)
    return e.scope.linearise(index, space.shape);
  Index turned;
  SmallVector<int64_t> shape;
  for (int64_t dim : space.order) {
    turned.push_back(index[dim]);
    shape.push_back(space.shape[dim]);
  }
  return e.scope.linearise(turned, shape);
}

KernelEmitter::StagedTile TileEmitter::tileOf(size_t turn, const Index &index) {
  Value value = stablehlo::TransposeOp(space.turns[turn]).getOperand();
  int64_t side = space.side, gap = kVectorBits / bitsOf(value);
  AffineExpr r = index[row] - tile[row] * side;
  AffineExpr c = index[column] - tile[column] * side;
  AffineExpr group = e.scope.floorDiv(r, rowsOfGroup(value));
  return {memories[turn], linearOf(index, false), r * side + group * gap + c,
          side, e.innermost()};
}

FailureOr<SmallVector<Element>> TileEmitter::compute(ArrayRef<unsigned> outputs,
                                                     AffineExpr linear) {
  SmallVector<Element> values;
  for (unsigned i : outputs) {
    Value output = yield->getOperand(i);
    FailureOr<Element> value = e.element(
        output, e.scope.delinearise(linear, tensorType(output).getShape()));
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  return values;
}

LogicalResult TileEmitter::store(ArrayRef<unsigned> outputs,
                                 ArrayRef<Element> values, AffineExpr linear) {
  for (auto [i, value] : llvm::zip(outputs, values))
    if (failed(e.store(i, value, linear,
                       tensorType(yield->getOperand(i)).getElementType())))
      return failure();
  return success();
}

// All loads precede the first store, as in every kernel.
LogicalResult TileEmitter::readPass(const Index &index) {
  AffineExpr linear = linearOf(index, false);
  FailureOr<SmallVector<Element>> values = compute(space.straight, linear);
  if (failed(values))
    return failure();
  SmallVector<Element> staged;
  for (stablehlo::TransposeOp turn : space.turns) {
    Value value = turn.getOperand();
    FailureOr<Element> element = e.element(
        value, e.scope.delinearise(linear, tensorType(value).getShape()));
    if (failed(element))
      return failure();
    staged.push_back(*element);
  }
  for (auto [i, element] : llvm::enumerate(staged)) {
    Value value = stablehlo::TransposeOp(space.turns[i]).getOperand();
    if (failed(e.storeToTile(tileOf(i, index), element,
                             tensorType(value).getElementType())))
      return failure();
  }
  return store(space.straight, *values, linear);
}

LogicalResult TileEmitter::writePass(const Index &index) {
  for (size_t i = 0; i < space.turns.size(); ++i)
    e.stage(stablehlo::TransposeOp(space.turns[i]).getOperand(),
            tileOf(i, index));
  AffineExpr linear = linearOf(index, true);
  FailureOr<SmallVector<Element>> values = compute(space.turned, linear);
  for (stablehlo::TransposeOp turn : space.turns)
    e.endStage(turn.getOperand());
  return failure(failed(values) ||
                 failed(store(space.turned, *values, linear)));
}

FailureOr<KernelRows> TileEmitter::emit() {
  allocate();
  SmallVector<int64_t> counts(space.shape);
  counts[row] = llvm::divideCeil(counts[row], space.side);
  counts[column] = llvm::divideCeil(counts[column], space.side);
  KernelRows rows;
  rows.threads = kThreads;
  for (int64_t count : counts)
    rows.rows *= count;
  AffineExpr mine = e.pushLoop(0, rows.rows, 1, false, Spread::Blocks);
  tile = e.scope.delinearise(mine, counts);
  if (failed(pass(row, column, space.readLanes,
                  [&](const Index &index) { return readPass(index); })))
    return failure();
  // A cast that both passes compute is counted only in the first.
  llvm::SaveAndRestore<Operation *> second(e.pass, space.turns[0]);
  if (failed(pass(column, row, space.writtenLanes,
                  [&](const Index &index) { return writePass(index); })))
    return failure();
  e.popLoop();
  if (failed(e.finish()))
    return failure();
  return rows;
}

FailureOr<KernelRows> scalify::codegen::emitTiles(KernelEmitter &emitter,
                                                  const TileSpace &space) {
  return TileEmitter(emitter, space).emit();
}
