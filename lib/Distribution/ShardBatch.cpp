//===- ShardBatch.cpp - Data parallelism for a plain step -----------------===//
//
// Adds the JAX shardings of data parallelism: the batch is sharded by rows, and
// everything else is replicated. Partitioning adds the sums over ranks.
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {
#define GEN_PASS_DEF_SHARDBATCHPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static constexpr StringLiteral kAxis = "data";

/// True if a loop slices `value` along its first dimension, as a loop over
/// micro-batches does, also after moves that keep that dimension.
static bool isSlicedByLoop(Value value,
                           llvm::SmallPtrSetImpl<Operation *> &seen) {
  auto type = cast<RankedTensorType>(value.getType());
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto slice = dyn_cast<stablehlo::DynamicSliceOp>(user))
      if (use.getOperandNumber() == 0 && type.getDimSize(0) > 1 &&
          slice->getParentOfType<stablehlo::WhileOp>() &&
          cast<RankedTensorType>(slice.getType()).getDimSize(0) == 1)
        return true;
    if (!seen.insert(user).second)
      continue;
    Value next;
    if (auto loop = dyn_cast<stablehlo::WhileOp>(user))
      next = loop->getRegion(1).getArgument(use.getOperandNumber());
    else if (isa<stablehlo::SliceOp, stablehlo::ConvertOp, stablehlo::ReshapeOp,
                 stablehlo::TransposeOp>(user))
      next = user->getResult(0);
    auto moved = next ? cast<RankedTensorType>(next.getType()) : type;
    bool keepsFirst =
        moved.getRank() > 0 && moved.getDimSize(0) == type.getDimSize(0);
    if (auto transpose = dyn_cast<stablehlo::TransposeOp>(user))
      keepsFirst = transpose.getPermutation()[0] == 0;
    if (next && keepsFirst && isSlicedByLoop(next, seen))
      return true;
  }
  return false;
}

/// Returns the dimension of rows: the first one, or the one after
/// micro-batches.
static int64_t findRows(BlockArgument argument) {
  auto type = cast<RankedTensorType>(argument.getType());
  llvm::SmallPtrSet<Operation *, 16> seen;
  return type.getRank() > 0 && isSlicedByLoop(argument, seen);
}

static sdy::TensorShardingAttr makeSharding(Type type, int64_t split) {
  MLIRContext *context = type.getContext();
  SmallVector<sdy::DimensionShardingAttr> dims;
  for (int64_t dim = 0; dim < cast<RankedTensorType>(type).getRank(); ++dim) {
    SmallVector<sdy::AxisRefAttr> axes;
    if (dim == split)
      axes.push_back(sdy::AxisRefAttr::get(context, kAxis, 0, 0));
    dims.push_back(sdy::DimensionShardingAttr::get(context, axes,
                                                   /*isClosed=*/true, -1));
  }
  return sdy::TensorShardingAttr::get(
      context, FlatSymbolRefAttr::get(context, "mesh"), dims, {}, {});
}

namespace {
struct ShardBatchPass : scalify::impl::ShardBatchPassBase<ShardBatchPass> {
  using ShardBatchPassBase::ShardBatchPassBase;
  void runOnOperation() override;

private:
  LogicalResult checkIsUnsharded(func::FuncOp main);
  LogicalResult shardArguments(func::FuncOp main);
};
} // namespace

LogicalResult ShardBatchPass::checkIsUnsharded(func::FuncOp main) {
  if (sdy::findLargestMesh(getOperation()))
    return main.emitOpError("already has a mesh: partition it by its own "
                            "shardings");
  auto partitions =
      getOperation()->getAttrOfType<IntegerAttr>("mhlo.num_partitions");
  bool isSharded = partitions && partitions.getInt() > 1;
  for (unsigned index = 0; index < main.getNumArguments(); ++index)
    isSharded |= bool(main.getArgAttr(index, "mhlo.sharding"));
  if (isSharded)
    return main.emitOpError("has shardings of GSPMD: lower it with Shardy's "
                            "(jax_use_shardy_partitioner, JAX's default)");
  for (Type type : llvm::concat<const Type>(main.getArgumentTypes(),
                                            main.getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return main.emitOpError("takes or returns ")
             << type << ", which is no array of a known shape";
  }
  return success();
}

/// All batches must have the same number of rows: otherwise the pass cannot
/// tell which rows belong to which rank.
LogicalResult ShardBatchPass::shardArguments(func::FuncOp main) {
  std::optional<int64_t> rows;
  for (BlockArgument argument : main.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto type = cast<RankedTensorType>(argument.getType());
    int64_t dim = -1;
    if (scalify::isOneOf(scalify::getRoleAttr(main, index),
                         scalify::Role::Batch)) {
      dim = findRows(argument);
      int64_t own = dim < type.getRank() ? type.getDimSize(dim) : 0;
      InFlightDiagnostic error = emitError(argument.getLoc());
      error << "the batch '" << scalify::getArgumentName(argument)
            << "' of type " << type;
      if (own == 0 || own % ranks != 0)
        return error << " has no rows that " << ranks.getValue()
                     << " ranks divide: lower the step with the whole batch "
                        "of all ranks, or with shardings";
      if (own != rows.value_or(own))
        return error << " has " << own << " rows, and another one " << *rows
                     << ": lower the step with shardings";
      error.abandon();
      rows = own;
    }
    main.setArgAttr(index, kShardingAttr, makeSharding(type, dim));
  }
  if (!rows)
    return main.emitOpError("has no argument with the role 'batch' to shard: "
                            "lower it with shardings");
  return success();
}

void ShardBatchPass::runOnOperation() {
  auto main = getOperation().lookupSymbol<func::FuncOp>("main");
  if (!main || ranks < 2)
    return;
  if (failed(checkIsUnsharded(main)))
    return signalPassFailure();
  if (failed(shardArguments(main)))
    return signalPassFailure();
  for (unsigned index = 0; index < main.getNumResults(); ++index)
    main.setResultAttr(index, kShardingAttr,
                       makeSharding(main.getResultTypes()[index], -1));
  OpBuilder builder = OpBuilder::atBlockBegin(getOperation().getBody());
  auto axis = sdy::MeshAxisAttr::get(&getContext(), kAxis, ranks);
  sdy::MeshOp::create(builder, main.getLoc(), "mesh",
                      sdy::MeshAttr::get(&getContext(), {axis}, {}));
}
