//===- NarrowSums.cpp - Sums over ranks of narrow data --------------------===//
//
// A reduction in the transport rounds at every hop, which costs 8 dB for 8
// ranks of E4M3, and everything for 512. Instead each rank sends every other
// rank that rank's piece, and sums the pieces it receives in F32, in the order
// of ranks.
//
//===----------------------------------------------------------------------===//

#include "NarrowSums.h"

#include "NarrowMoves.h"
#include "PieceSums.h"
#include "UniformValues.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Dequantizes `data` and sums it along the first dimension in F32. The result
/// has the element type of `from`.
static Value sumWide(OpBuilder &builder, Location loc, DequantizeOp from,
                     Value data) {
  auto type = cast<RankedTensorType>(data.getType());
  Type wide = getElementTypeOrSelf(from.getType()), f32 = builder.getF32Type();
  Value parts = DequantizeOp::create(builder, loc, type.clone(wide), data,
                                     from.getScale());
  if (wide != f32)
    parts = ConvertOp::create(builder, loc, type.clone(f32), parts);
  return buildOrderedSum(builder, loc, parts, wide);
}

bool scalify::narrowSum(Operation *op) {
  Value wide = op->getOperand(0);
  DequantizeOp from = findDequantize(wide);
  auto groups = op->getAttrOfType<DenseIntElementsAttr>("replica_groups");
  if (!from || !isSum(op->getRegion(0)) ||
      getElementTypeOrSelf(from.getData()).getIntOrFloatBitWidth() >=
          getElementTypeOrSelf(wide).getIntOrFloatBitWidth())
    return false;
  auto stays = [&](StringRef why) {
    op->emitRemark("sums ")
        << wide.getType() << " that was "
        << getElementTypeOrSelf(from.getData()) << ": " << why;
    return false;
  };
  if (llvm::is_contained(groups.getValues<int64_t>(), -1))
    return stays("its groups are of unequal size");
  if (cast<RankedTensorType>(wide.getType()).getNumElements() <
      groups.getType().getDimSize(1))
    return stays("it has fewer elements than a group has ranks");
  if (!isUniform(from.getScale(), groups))
    return stays("ranks may have different scales for it");

  Operation *before = op->getPrevNode();
  OpBuilder builder(op);
  Value data = buildNarrow(builder, wide);
  auto sumParts = [&](OpBuilder &builder, Value parts) {
    return sumWide(builder, op->getLoc(), from, parts);
  };
  PieceSums sum(op, sumParts);
  auto part = dyn_cast<ReduceScatterOp>(op);
  Value result =
      part ? sum.scatter(data, static_cast<int64_t>(part.getScatterDimension()))
           : sum.all(data);
  copyPhaseToInserted(op, before);
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  return true;
}
