//===- JoinStacks.cpp - Join stacks that are written in pieces ------------===//
//
// A scan writes its outputs into a stack, one update per iteration. A chain of
// updates would copy the whole stack each time. One concatenation writes every
// element once, and copies nothing if the pieces are contiguous in memory.
//
//===----------------------------------------------------------------------===//

#include "scalify/Import/JoinStacks.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include <map>

using namespace mlir;
using namespace scalify;

namespace {
/// The pieces that one chain of updates leaves, collected from the last update
/// to the first.
class Chain {
public:
  explicit Chain(stablehlo::DynamicUpdateSliceOp last)
      : last(last), loc(last.getLoc()), type(typeOf(last.getResult())) {}

  /// Returns false if there are fewer than two updates along one dimension.
  bool collect();
  /// Builds the join that replaces the last update.
  Value join(IndexFolder &folder, const JoinPieces &joinPieces) const;

private:
  struct Piece {
    int64_t end;
    Value value;
  };

  bool add(stablehlo::DynamicUpdateSliceOp op);
  Value sliceOfBase(OpBuilder &b, int64_t begin, int64_t end,
                    IndexFolder &folder) const;

  stablehlo::DynamicUpdateSliceOp last;
  Location loc;
  RankedTensorType type;
  int64_t dim = -1;
  Value base; // the value before the updates; fills the gaps between pieces
  std::map<int64_t, Piece> pieces;
};
} // namespace

/// Returns the only dimension in which an update is smaller than its operand,
/// or -1.
static int64_t getDim(stablehlo::DynamicUpdateSliceOp op) {
  int64_t found = -1;
  for (auto [dim, sizes] :
       llvm::enumerate(llvm::zip_equal(typeOf(op.getUpdate()).getShape(),
                                       typeOf(op.getResult()).getShape()))) {
    auto [part, whole] = sizes;
    if (part == whole)
      continue;
    if (found >= 0)
      return -1;
    found = static_cast<int64_t>(dim);
  }
  return found;
}

// A later update hides an earlier one; a partly hidden update ends the chain.
bool Chain::add(stablehlo::DynamicUpdateSliceOp op) {
  std::optional<SmallVector<int64_t>> starts = getStarts(op);
  if (!starts || getDim(op) != dim)
    return false;
  int64_t begin = (*starts)[dim];
  int64_t end = begin + typeOf(op.getUpdate()).getDimSize(dim);
  auto next = pieces.lower_bound(begin);
  if (next != pieces.end() && next->first == begin && next->second.end >= end)
    return true;
  if (next != pieces.end() && next->first < end)
    return false;
  if (next != pieces.begin()) {
    const Piece &before = std::prev(next)->second;
    if (before.end >= end)
      return true;
    if (before.end > begin)
      return false;
  }
  pieces.insert({begin, {end, op.getUpdate()}});
  return true;
}

bool Chain::collect() {
  dim = getDim(last);
  if (dim < 0)
    return false;
  base = last.getResult();
  while (auto op = base.getDefiningOp<stablehlo::DynamicUpdateSliceOp>()) {
    // An intermediate stack with other uses is in memory anyway.
    if ((op != last && !op->hasOneUse()) || !add(op))
      break;
    base = op.getOperand();
  }
  return pieces.size() >= 2;
}

Value Chain::sliceOfBase(OpBuilder &b, int64_t begin, int64_t end,
                         IndexFolder &folder) const {
  return folder.fold(stablehlo::SliceOp::create(b, loc, base, dim, begin, end))
      .front();
}

Value Chain::join(IndexFolder &folder, const JoinPieces &joinPieces) const {
  OpBuilder b(last);
  SmallVector<Value> parts;
  int64_t at = 0, extent = type.getDimSize(dim);
  for (const auto &[begin, piece] : pieces) {
    if (begin > at)
      parts.push_back(sliceOfBase(b, at, begin, folder));
    parts.push_back(piece.value);
    at = piece.end;
  }
  if (at < extent)
    parts.push_back(sliceOfBase(b, at, extent, folder));
  return joinPieces(b, loc, type, parts, dim);
}

Value scalify::concatenatePieces(OpBuilder &b, Location loc,
                                 RankedTensorType whole, ArrayRef<Value> pieces,
                                 int64_t dim) {
  return stablehlo::ConcatenateOp::create(b, loc, whole, pieces, dim);
}

unsigned scalify::joinStacks(Block &block, IndexFolder &folder,
                             const JoinPieces &joinPieces) {
  unsigned joined = 0;
  // In reverse, so that the last update of a chain comes first.
  SmallVector<stablehlo::DynamicUpdateSliceOp> updates(
      block.getOps<stablehlo::DynamicUpdateSliceOp>());
  for (stablehlo::DynamicUpdateSliceOp op : llvm::reverse(updates)) {
    if (op->use_empty()) {
      op.erase();
      continue;
    }
    Chain chain(op);
    if (!chain.collect())
      continue;
    Value whole = chain.join(folder, joinPieces);
    copyPhase(op, whole.getDefiningOp());
    op.getResult().replaceAllUsesWith(whole);
    op.erase();
    ++joined;
  }
  return joined;
}
