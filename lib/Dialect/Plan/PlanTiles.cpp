//===- PlanTiles.cpp - Commands that run tile by tile ---------------------===//

#include "scalify/Dialect/Plan/PlanTiles.h"

#include "scalify/Dialect/Plan/PlanInPlace.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"

#include "llvm/ADT/TypeSwitch.h"

#include <set>

using namespace mlir;
using namespace scalify;
using namespace scalify::plan;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

std::optional<Tiling> scalify::plan::tilingOf(Operation *command) {
  auto attr = command->getAttrOfType<DenseI64ArrayAttr>(kTilesAttr);
  if (!attr || attr.size() != 2 || attr[0] < 1)
    return std::nullopt;
  return Tiling{attr[0], attr[1]};
}

void scalify::plan::setTiling(Operation *command, Tiling tiling) {
  command->setAttr(kTilesAttr,
                   DenseI64ArrayAttr::get(command->getContext(),
                                          {tiling.tiles, tiling.group}));
}

SmallVector<TileGroup> scalify::plan::findTileGroups(ProgramOp program) {
  SmallVector<TileGroup> groups;
  for (auto [position, op] : llvm::enumerate(program.getBody().front())) {
    std::optional<Tiling> tiling = tilingOf(&op);
    if (!tiling)
      continue;
    auto place = static_cast<int64_t>(position);
    if (groups.empty() || groups.back().tiling.group != tiling->group)
      groups.push_back({*tiling, place, place});
    groups.back().last = place;
  }
  return groups;
}

int64_t scalify::plan::countOwnTiles(Value buffer) {
  auto temp = buffer.getDefiningOp<TempOp>();
  return temp ? temp.getTiles().value_or(0) : 0;
}

//===----------------------------------------------------------------------===//
// GEMMs
//===----------------------------------------------------------------------===//

size_t scalify::plan::countTiledDims(GemmOp gemm, int64_t tiles) {
  int64_t product = 1;
  for (auto [i, extent] : llvm::enumerate(gemm.getBatch())) {
    product *= extent;
    if (product == tiles)
      return i + 1;
  }
  return 0;
}

/// True if the indices of the first `dims` batch dimensions follow each other
/// in memory as equal parts of the buffer.
static bool isAligned(GemmOp gemm, unsigned operand, size_t dims,
                      int64_t tiles) {
  Value buffer = gemm->getOperand(operand);
  int64_t count = cast<MemRefType>(buffer.getType()).getNumElements();
  if (gemm.getOffsets()[operand] != 0 || count % tiles != 0)
    return false;
  ArrayRef<int64_t> batch = gemm.getBatch();
  auto strideOf = [&](size_t dim) {
    return gemm.getBatchStrides()[3 * dim + operand];
  };
  int64_t part = count / tiles, stride = part;
  for (size_t i = dims; i-- > 0;) {
    if (batch[i] != 1 && strideOf(i) != stride)
      return false;
    stride *= batch[i];
  }
  ArrayRef<int64_t> strides = operand == 0   ? gemm.getAStrides()
                              : operand == 1 ? gemm.getBStrides()
                                             : gemm.getCStrides();
  auto m = int64_t(gemm.getM()), n = int64_t(gemm.getN()),
       k = int64_t(gemm.getK());
  int64_t last = ((operand == 1 ? k : m) - 1) * strides[0] +
                 ((operand == 0 ? k : n) - 1) * strides[1];
  for (size_t i = dims; i < batch.size(); ++i)
    last += (batch[i] - 1) * strideOf(i);
  return last < part;
}

static std::optional<SmallVector<bool>> alignGemm(GemmOp gemm, int64_t tiles) {
  size_t dims = countTiledDims(gemm, tiles);
  if (dims == 0 || gemm->getNumOperands() != 3)
    return std::nullopt;
  SmallVector<bool> aligned;
  for (unsigned i = 0; i < 3; ++i)
    aligned.push_back(isAligned(gemm, i, dims, tiles));
  return aligned;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// A task of a kernel takes whole vectors of at most this many elements.
static constexpr int64_t kMaxLanes = 64;

namespace {
/// The values of a kernel's body that a tile reads in its own tile alone.
class TileReads {
public:
  TileReads(KernelOp kernel, int64_t tiles);
  bool isAligned(Value value) const {
    auto found = aligned.find(value);
    return found != aligned.end() && found->second;
  }

private:
  void visit(Operation *op);
  void meet(Value value, bool isOwn);
  bool fixesLeading(ArrayRef<int64_t> shape, ArrayRef<int64_t> source,
                    ArrayRef<int64_t> operand) const;

  int64_t tiles;
  llvm::DenseMap<Value, bool> aligned;
};
} // namespace

TileReads::TileReads(KernelOp kernel, int64_t tiles) : tiles(tiles) {
  Block &body = kernel.getBody().front();
  for (Value output : body.getTerminator()->getOperands())
    meet(output, true);
  for (Operation &op : llvm::reverse(body.without_terminator()))
    visit(&op);
}

void TileReads::meet(Value value, bool isOwn) {
  auto [found, isNew] = aligned.try_emplace(value, isOwn);
  if (!isNew)
    found->second &= isOwn;
}

/// Called for a result of `shape`, whose dimension i is `source[i]` of the
/// operand, or no dimension of it (-1). Returns true if the first dimensions,
/// without those of one index, are the operand's first ones, and the tiles
/// divide their indices: then a tile is a range of these in both.
bool TileReads::fixesLeading(ArrayRef<int64_t> shape, ArrayRef<int64_t> source,
                             ArrayRef<int64_t> operand) const {
  int64_t product = 1;
  size_t next = 0; // dimension of the operand
  for (size_t dim = 0; dim < shape.size() && product % tiles != 0; ++dim) {
    if (shape[dim] == 1)
      continue;
    while (next < operand.size() && operand[next] == 1)
      ++next;
    if (source[dim] != static_cast<int64_t>(next))
      return false;
    product *= shape[dim];
    ++next;
  }
  return product % tiles == 0;
}

void TileReads::visit(Operation *op) {
  bool isOwn = llvm::any_of(
      op->getResults(), [&](Value result) { return aligned.contains(result); });
  if (!isOwn)
    return; // unused
  isOwn = llvm::all_of(op->getResults(), [&](Value result) {
    return !aligned.contains(result) || isAligned(result);
  });
  int64_t count = countOf(op->getResult(0));
  auto keeps = [&](Value operand, ArrayRef<int64_t> shape,
                   ArrayRef<int64_t> source) {
    meet(operand,
         isOwn && fixesLeading(shape, source, typeOf(operand).getShape()));
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](stablehlo::BroadcastInDimOp broadcast) {
        RankedTensorType from = typeOf(broadcast.getOperand());
        RankedTensorType to = typeOf(broadcast.getResult());
        SmallVector<int64_t> source(to.getRank(), -1);
        for (auto [dim, at] :
             llvm::enumerate(broadcast.getBroadcastDimensions()))
          if (from.getDimSize(dim) == to.getDimSize(at))
            source[at] = dim;
        keeps(broadcast.getOperand(), to.getShape(), source);
      })
      .Case([&](stablehlo::TransposeOp transpose) {
        keeps(transpose.getOperand(), typeOf(transpose.getResult()).getShape(),
              transpose.getPermutation());
      })
      .Case([&](stablehlo::ReduceOp reduce) {
        for (Value input : reduce.getInputs()) {
          ArrayRef<int64_t> shape = typeOf(input).getShape();
          SmallVector<int64_t> source;
          for (int64_t dim = 0; dim < int64_t(shape.size()); ++dim)
            source.push_back(
                llvm::is_contained(reduce.getDimensions(), dim) ? -1 : dim);
          keeps(input, shape, source);
        }
        for (Value init : reduce.getInitValues())
          meet(init, false);
      })
      .Default([&](Operation *op) {
        bool isByElement =
            isElementwiseOp(op) ||
            isa<stablehlo::ReshapeOp, QuantizeOp, DequantizeOp>(op);
        for (Value operand : op->getOperands())
          meet(operand, isOwn && isByElement && countOf(operand) == count);
      });
}

/// True if rows of the kernel's loops, chosen by its outputs' shapes, end where
/// tiles do.
static bool splitsRows(KernelOp kernel, int64_t tiles) {
  int64_t full = 0;
  for (Value write : kernel.getWrites())
    full = std::max(full, cast<MemRefType>(write.getType()).getNumElements());
  if (full == 0 || full % tiles != 0)
    return false;
  int64_t part = full / tiles;
  auto fits = [&](int64_t length) {
    return length != 0 && (part % length == 0 || length % part == 0);
  };
  for (Value output : kernel.getBody().front().getTerminator()->getOperands()) {
    if (countOf(output) == 0 || countOf(output) % tiles != 0)
      return false;
    int64_t length = full / countOf(output);
    for (int64_t extent : llvm::reverse(typeOf(output).getShape()))
      if (!fits(length *= extent))
        return false;
  }
  int64_t rowLength = ElementOrder(kernel).rowLength();
  return part % kMaxLanes == 0 && (rowLength == 0 || part % rowLength == 0);
}

static std::optional<SmallVector<bool>> alignKernel(KernelOp kernel,
                                                    int64_t tiles) {
  Block &body = kernel.getBody().front();
  bool scatters = llvm::any_of(body, llvm::IsaPred<stablehlo::ScatterOp>);
  if (kernel.getWrites().empty() || scatters || !splitsRows(kernel, tiles))
    return std::nullopt;
  TileReads reads(kernel, tiles);
  SmallVector<bool> aligned;
  for (BlockArgument argument : body.getArguments())
    aligned.push_back(reads.isAligned(argument));
  aligned.append(kernel.getWrites().size(), true);
  return aligned;
}

std::optional<SmallVector<bool>> scalify::plan::alignTiles(Operation *command,
                                                           int64_t tiles) {
  if (auto gemm = dyn_cast<GemmOp>(command))
    return alignGemm(gemm, tiles);
  if (auto kernel = dyn_cast<KernelOp>(command))
    return alignKernel(kernel, tiles);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

bool TiledAccess::conflictsWith(const TiledAccess &other) const {
  if (!access.conflictsWith(other.access))
    return false;
  // The order within a tile is that of live ranges.
  if (countOwnTiles(operand->get()) && countOwnTiles(other.operand->get()))
    return false;
  return !isAligned || !other.isAligned || access.begin != other.access.begin ||
         access.end != other.access.end;
}

std::optional<SmallVector<TiledAccess>>
scalify::plan::tiledAccessesOf(Operation *command, int64_t tiles) {
  auto aligned = alignTiles(command, tiles);
  if (!aligned)
    return std::nullopt;
  SmallVector<TiledAccess> accesses;
  for (auto [operand, isAligned] :
       llvm::zip_equal(command->getOpOperands(), *aligned))
    if (std::optional<Access> access = accessOf(operand))
      accesses.push_back({&operand, *access, isAligned});
  return accesses;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

static LogicalResult verifyGroup(Block &block, const TileGroup &group) {
  SmallVector<TiledAccess> before; // of the commands before
  for (Operation &op :
       llvm::make_range(std::next(block.begin(), group.first),
                        std::next(block.begin(), group.last + 1))) {
    if (isBuffer(&op))
      continue;
    std::optional<Tiling> tiling = tilingOf(&op);
    if (!tiling || tiling->group != group.tiling.group ||
        tiling->tiles != group.tiling.tiles)
      return op.emitOpError("lies between the commands of tile group ")
             << group.tiling.group;
    auto accesses = tiledAccessesOf(&op, tiling->tiles);
    if (!accesses)
      return op.emitOpError("cannot run in ") << tiling->tiles << " tiles";
    for (const TiledAccess &access : *accesses) {
      int64_t own = countOwnTiles(access.operand->get());
      if (own && (own != tiling->tiles || !access.isAligned))
        return op.emitOpError("does not touch one tile of operand ")
               << access.operand->getOperandNumber();
      if (llvm::any_of(before, [&](const TiledAccess &other) {
            return access.conflictsWith(other);
          }))
        return op.emitOpError("shares bytes of operand ")
               << access.operand->getOperandNumber()
               << " with other tiles of its group, of which one writes";
    }
    llvm::append_range(before, *accesses);
  }
  return success();
}

LogicalResult scalify::plan::verifyTiles(ProgramOp program) {
  Block &block = program.getBody().front();
  for (Operation &op : block)
    if (op.hasAttr(kTilesAttr) && !tilingOf(&op))
      return op.emitOpError("has '")
             << kTilesAttr << "' = " << op.getAttr(kTilesAttr)
             << ": expected the number of tiles, at least 1, and that of the "
                "group";
  std::set<int64_t> seen; // any numbers: a DenseSet has keys of its own
  for (const TileGroup &group : findTileGroups(program)) {
    if (!seen.insert(group.tiling.group).second)
      return program.emitOpError("has two tile groups ") << group.tiling.group;
    if (failed(verifyGroup(block, group)))
      return failure();
  }
  // A thread's memory holds nothing between groups.
  for (TempOp temp : block.getOps<TempOp>()) {
    if (!temp.getTiles())
      continue;
    std::optional<int64_t> group;
    for (Operation *user : temp.getMemory().getUsers()) {
      std::optional<Tiling> tiling = tilingOf(user);
      if (!tiling || group.value_or(tiling->group) != tiling->group)
        return temp.emitOpError("is memory of one tile, and used outside of "
                                "its group");
      group = tiling->group;
    }
  }
  return success();
}
