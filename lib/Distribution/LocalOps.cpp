//===- LocalOps.cpp - Ops on one device's shards --------------------------===//
//
// An op on whole values is also the op on shards if corresponding dimensions
// are sharded identically, and if it needs no elements of other devices along a
// sharded dimension. The rules check both, op by op. An op without a rule takes
// and gives unsharded values only. A sum over a sharded dimension is a partial
// result, which a collective after it completes.
//
//===----------------------------------------------------------------------===//

#include "BatchDims.h"
#include "LocalRule.h"
#include "WindowDims.h"

#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

LogicalResult LocalRule::requireUnsharded(Value value, int64_t dim) {
  if (!layouts.isSplit(value, dim))
    return success();
  return op->emitOpError()
         << "needs dimension " << dim << " of " << layouts.getWhole(value)
         << " whole, but each device has " << localSize(value, dim) << " of "
         << wholeSize(value, dim)
         << "; constrain the value with jax.lax.with_sharding_constraint";
}

LogicalResult LocalRule::makePartial(Value result, Axes axes) {
  const DeviceMesh &mesh = layouts.getMesh();
  Digits digits = mesh.getDigits(axes);
  for (int64_t dim = 0; dim < rankOf(result); ++dim)
    for (auto digit : mesh.getDigits(layouts.getAxes(result, dim)))
      if (llvm::is_contained(digits, digit))
        return op->emitOpError()
               << "has dimension " << dim << " of " << layouts.getWhole(result)
               << " split by axes over which it would be summed; constrain the "
                  "value with jax.lax.with_sharding_constraint";
  layouts.setPartial(result, digits);
  return success();
}

LogicalResult LocalRule::requireAllUnsharded(ValueRange values) {
  for (Value value : values)
    if (isa<RankedTensorType>(value.getType()))
      for (int64_t dim = 0; dim < rankOf(value); ++dim)
        if (failed(requireUnsharded(value, dim)))
          return failure();
  return success();
}

LogicalResult LocalRule::requireSameSharding(Value one, int64_t dim,
                                             Value other, int64_t otherDim) {
  if (!layouts.isSplit(one, dim) && !layouts.isSplit(other, otherDim))
    return success();
  const DeviceMesh &mesh = layouts.getMesh();
  if (mesh.getSplit(layouts.getAxes(one, dim)) ==
      mesh.getSplit(layouts.getAxes(other, otherDim)))
    return success();
  return op->emitOpError() << "needs dimension " << dim << " of "
                           << layouts.getWhole(one) << " and dimension "
                           << otherDim << " of " << layouts.getWhole(other)
                           << " sharded identically, but they are sharded over "
                              "different axes ("
                           << localSize(one, dim) << " and "
                           << localSize(other, otherDim)
                           << " elements on a device); constrain one of them "
                              "with jax.lax.with_sharding_constraint";
}

LogicalResult LocalRule::requireSameSharding(Value one, Value other) {
  for (int64_t dim = 0; dim < rankOf(one); ++dim)
    if (failed(requireSameSharding(one, dim, other, dim)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Values built from constants
//===----------------------------------------------------------------------===//

LogicalResult LocalRule::onConstant(Value result, ElementsAttr value) {
  RankedTensorType local = layouts.getLocal(result);
  Value part;
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (value.getType() == local)
    part = ConstantOp::create(builder, op->getLoc(), local, value);
  else if (dense && dense.isSplat())
    part = ConstantOp::create(builder, op->getLoc(), local,
                              dense.resizeSplat(local));
  else
    part = sliceShard(
        builder, op->getLoc(),
        ConstantOp::create(builder, op->getLoc(), layouts.getWhole(result),
                           value),
        local, [&](int64_t dim) { return layouts.getAxes(result, dim); },
        layouts.getMesh());
  layouts.replace(result, part);
  op->erase();
  return success();
}

LogicalResult LocalRule::on(IotaOp iota) {
  Value result = iota.getResult();
  auto dim = static_cast<int64_t>(iota.getIotaDimension());
  if (!layouts.isSplit(result, dim))
    return success();
  SmallVector<int32_t> starts;
  const DeviceMesh &mesh = layouts.getMesh();
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device)
    starts.push_back(mesh.getPlace(device, layouts.getAxes(result, dim)) *
                     localSize(result, dim));
  builder.setInsertionPointAfter(op);
  RankedTensorType type = layouts.getLocal(result);
  Location loc = op->getLoc();
  Value start = lookUp(builder, loc, starts, mesh.getNumDevices());
  start = ConvertOp::create(
      builder, loc, RankedTensorType::get({}, type.getElementType()), start);
  start =
      BroadcastInDimOp::create(builder, loc, type, start, ArrayRef<int64_t>());
  auto shifted = AddOp::create(builder, loc, result, start);
  layouts.replace(result, shifted);
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

LogicalResult LocalRule::on(BroadcastInDimOp broadcast) {
  Value operand = broadcast.getOperand(), result = broadcast.getResult();
  for (auto [from, to] : llvm::enumerate(broadcast.getBroadcastDimensions()))
    if (wholeSize(operand, from) == wholeSize(result, to) &&
        failed(requireSameSharding(operand, from, result, to)))
      return failure();
  return success();
}

/// Describes a shape as a row of runs: sizes, and the axes that shard the
/// dimensions after them. Shapes of one value with equal rows have the same
/// elements on each device.
static auto describe(Value value, const Layouts &layouts) {
  struct Run {
    int64_t size = 1;
    SmallVector<sdy::AxisRefAttr> axes;
  };
  SmallVector<Run> runs;
  auto last = [&](bool isSplit) -> Run & {
    if (runs.empty() || runs.back().axes.empty() == isSplit)
      runs.emplace_back();
    return runs.back();
  };
  for (int64_t dim = 0; dim < layouts.getWhole(value).getRank(); ++dim) {
    if (layouts.isSplit(value, dim))
      llvm::append_range(last(true).axes, layouts.getAxes(value, dim));
    if (int64_t size = layouts.getLocal(value).getDimSize(dim); size > 1)
      last(false).size *= size;
  }
  SmallVector<std::pair<int64_t, SmallVector<std::pair<int64_t, int64_t>>>> row;
  for (const Run &run : runs)
    row.push_back({run.size, layouts.getMesh().getSplit(run.axes)});
  return row;
}

LogicalResult LocalRule::on(ReshapeOp reshape) {
  Value operand = reshape.getOperand(), result = reshape.getResult();
  if (describe(operand, layouts) == describe(result, layouts))
    return success();
  return op->emitOpError()
         << "has parts of " << layouts.getLocal(operand) << " and of "
         << layouts.getLocal(result)
         << " that do not hold the same elements of the whole value; "
            "constrain one of them with jax.lax.with_sharding_constraint";
}

LogicalResult LocalRule::on(TransposeOp transpose) {
  for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
    if (failed(requireSameSharding(transpose.getOperand(), from,
                                   transpose.getResult(), to)))
      return failure();
  return success();
}

LogicalResult LocalRule::on(SliceOp slice) {
  Value operand = slice.getOperand();
  SmallVector<int64_t> limits(slice.getLimitIndices());
  for (int64_t dim = 0; dim < rankOf(operand); ++dim) {
    bool isAll = slice.getStartIndices()[dim] == 0 &&
                 slice.getStrides()[dim] == 1 &&
                 limits[dim] == wholeSize(operand, dim);
    if (failed(isAll ? requireSameSharding(operand, dim, slice.getResult(), dim)
                     : requireUnsharded(operand, dim)))
      return failure();
    if (isAll)
      limits[dim] = localSize(operand, dim);
  }
  slice.setLimitIndices(limits);
  return success();
}

LogicalResult LocalRule::on(PadOp pad) {
  Value operand = pad.getOperand();
  for (int64_t dim = 0; dim < rankOf(operand); ++dim) {
    bool isKept = pad.getEdgePaddingLow()[dim] == 0 &&
                  pad.getEdgePaddingHigh()[dim] == 0 &&
                  pad.getInteriorPadding()[dim] == 0;
    if (failed(isKept ? requireSameSharding(operand, dim, pad.getResult(), dim)
                      : requireUnsharded(operand, dim)) ||
        (!isKept && failed(requireUnsharded(pad.getResult(), dim))))
      return failure();
  }
  return success();
}

LogicalResult LocalRule::on(ConcatenateOp concatenate) {
  auto along = static_cast<int64_t>(concatenate.getDimension());
  Value result = concatenate.getResult();
  if (failed(requireUnsharded(result, along)))
    return failure();
  for (Value input : concatenate.getInputs())
    for (int64_t dim = 0; dim < rankOf(result); ++dim)
      if (failed(dim == along ? requireUnsharded(input, dim)
                              : requireSameSharding(input, dim, result, dim)))
        return failure();
  return success();
}

LogicalResult LocalRule::on(ReverseOp reverse) {
  for (int64_t dim : reverse.getDimensions())
    if (failed(requireUnsharded(reverse.getOperand(), dim)))
      return failure();
  return requireSameSharding(reverse.getOperand(), reverse.getResult());
}

LogicalResult LocalRule::on(SortOp sort) {
  for (Value input : sort.getInputs()) {
    int64_t dim = static_cast<int64_t>(sort.getDimension());
    if (failed(requireUnsharded(input, dim < 0 ? dim + rankOf(input) : dim)))
      return failure();
  }
  return checkOperandResultPairs();
}

//===----------------------------------------------------------------------===//
// Dots and reductions
//===----------------------------------------------------------------------===//

LogicalResult LocalRule::on(DotGeneralOp dot) {
  Value lhs = dot.getLhs(), rhs = dot.getRhs(), result = dot.getResult();
  DotDimensionNumbersAttr dims = dot.getDotDimensionNumbers();
  int64_t next = 0;
  for (auto [l, r] : llvm::zip(dims.getLhsBatchingDimensions(),
                               dims.getRhsBatchingDimensions())) {
    if (failed(requireSameSharding(lhs, l, rhs, r)) ||
        failed(requireSameSharding(lhs, l, result, next++)))
      return failure();
  }
  SmallVector<sdy::AxisRefAttr> summed;
  for (auto [l, r] : llvm::zip(dims.getLhsContractingDimensions(),
                               dims.getRhsContractingDimensions())) {
    if (failed(requireSameSharding(lhs, l, rhs, r)))
      return failure();
    llvm::append_range(summed, layouts.getAxes(lhs, l));
  }
  auto checkFree = [&](Value side, ArrayRef<int64_t> batch,
                       ArrayRef<int64_t> contracting) -> LogicalResult {
    for (int64_t dim = 0; dim < rankOf(side); ++dim)
      if (!llvm::is_contained(batch, dim) &&
          !llvm::is_contained(contracting, dim) &&
          failed(requireSameSharding(side, dim, result, next++)))
        return failure();
    return success();
  };
  if (failed(checkFree(lhs, dims.getLhsBatchingDimensions(),
                       dims.getLhsContractingDimensions())))
    return failure();
  if (failed(checkFree(rhs, dims.getRhsBatchingDimensions(),
                       dims.getRhsContractingDimensions())))
    return failure();
  return makePartial(result, summed);
}

LogicalResult LocalRule::on(ReduceOp reduce) {
  SmallVector<sdy::AxisRefAttr> joined;
  for (Value input : reduce.getInputs()) {
    int64_t kept = 0;
    for (int64_t dim = 0; dim < rankOf(input); ++dim) {
      bool isReduced = llvm::is_contained(reduce.getDimensions(), dim);
      if (isReduced && !hasNeutralInit(reduce) &&
          failed(requireUnsharded(input, dim)))
        return failure();
      if (isReduced)
        llvm::append_range(joined, layouts.getAxes(input, dim));
      if (!isReduced)
        for (Value result : reduce->getResults())
          if (failed(requireSameSharding(input, dim, result, kept)))
            return failure();
      kept += !isReduced;
    }
  }
  return joined.empty() ? success() : makePartial(reduce.getResult(0), joined);
}

LogicalResult LocalRule::on(ConvolutionOp conv) {
  Value input = conv.getLhs(), kernel = conv.getRhs();
  Value result = conv.getResult();
  ConvDimensionNumbersAttr dims = conv.getDimensionNumbers();
  int64_t inputFeature = dims.getInputFeatureDimension();
  int64_t kernelFeature = dims.getKernelInputFeatureDimension();
  // Groups would have to be sharded as the features are.
  if (conv.getFeatureGroupCount() != 1 || conv.getBatchGroupCount() != 1)
    if (failed(requireUnsharded(input, inputFeature)) ||
        failed(requireUnsharded(result, dims.getOutputFeatureDimension())) ||
        (conv.getBatchGroupCount() != 1 &&
         failed(requireUnsharded(input, dims.getInputBatchDimension()))))
      return failure();
  if (failed(requireSameSharding(input, dims.getInputBatchDimension(), result,
                                 dims.getOutputBatchDimension())) ||
      failed(requireSameSharding(kernel, dims.getKernelOutputFeatureDimension(),
                                 result, dims.getOutputFeatureDimension())) ||
      failed(requireSameSharding(input, inputFeature, kernel, kernelFeature)))
    return failure();
  for (auto [in, window, out] : llvm::zip(dims.getInputSpatialDimensions(),
                                          dims.getKernelSpatialDimensions(),
                                          dims.getOutputSpatialDimensions()))
    if (failed(requireUnsharded(input, in)) ||
        failed(requireUnsharded(kernel, window)) ||
        failed(requireUnsharded(result, out)))
      return failure();
  return makePartial(result, layouts.getAxes(input, inputFeature));
}

LogicalResult LocalRule::on(ReduceWindowOp reduce) {
  for (Value input : reduce.getInputs())
    for (int64_t dim = 0; dim < rankOf(input); ++dim)
      for (Value result : reduce->getResults())
        if (failed(isKept(reduce, dim)
                       ? requireSameSharding(input, dim, result, dim)
                       : requireUnsharded(input, dim)))
          return failure();
  return success();
}

LogicalResult LocalRule::on(SelectAndScatterOp scatter) {
  Value operand = scatter.getOperand(), source = scatter.getSource();
  for (int64_t dim = 0; dim < rankOf(operand); ++dim)
    if (failed(isKept(scatter, dim)
                   ? requireSameSharding(operand, dim, source, dim)
                   : requireUnsharded(operand, dim)) ||
        (!isKept(scatter, dim) && failed(requireUnsharded(source, dim))) ||
        failed(requireSameSharding(operand, dim, scatter.getResult(), dim)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

LogicalResult LocalRule::onElementwise() {
  Value result = op->getResult(0);
  for (Value operand : op->getOperands())
    if (rankOf(operand) == rankOf(result) &&
        failed(requireSameSharding(operand, result)))
      return failure();
  return success();
}

/// Loops and barriers: operand i and result i are sharded identically.
LogicalResult LocalRule::checkOperandResultPairs() {
  for (auto [operand, result] : llvm::zip(op->getOperands(), op->getResults()))
    if (isa<RankedTensorType>(operand.getType()) &&
        failed(requireSameSharding(operand, result)))
      return failure();
  return success();
}

/// Branches and loop bodies: yielded values are sharded as the op's results.
/// Other regions are on scalars.
LogicalResult LocalRule::on(ReturnOp end) {
  Operation *parent = end->getParentOp();
  auto loop = dyn_cast<WhileOp>(parent);
  bool isBody = loop && end->getParentRegion() == &loop.getBody();
  if (!isBody && !isa<IfOp, CaseOp>(parent))
    return success();
  for (auto [given, result] : llvm::zip(end.getResults(), parent->getResults()))
    if (isa<RankedTensorType>(given.getType()) &&
        failed(requireSameSharding(given, result)))
      return failure();
  return success();
}

/// Checks the operands against the in-shardings, and the yielded values against
/// the out-shardings without the manual axes.
LogicalResult LocalRule::on(sdy::ManualComputationOp manual) {
  const DeviceMesh &mesh = layouts.getMesh();
  auto isManual = [&](sdy::AxisRefAttr axis) {
    return llvm::any_of(manual.getManualAxes().getAxes(), [&](StringAttr name) {
      return name.getValue() == axis.getName();
    });
  };
  auto check = [&](Value value, sdy::TensorShardingAttr said, bool isInside) {
    for (auto [dim, sharding] : llvm::enumerate(said.getDimShardings())) {
      SmallVector<sdy::AxisRefAttr> axes;
      llvm::copy_if(sharding.getAxes(), std::back_inserter(axes),
                    [&](auto axis) { return !isInside || !isManual(axis); });
      if (mesh.getSplit(axes) != mesh.getSplit(layouts.getAxes(value, dim)))
        return LogicalResult(op->emitOpError()
                             << "has dimension " << dim << " of "
                             << layouts.getWhole(value)
                             << " sharded differently than declared");
    }
    return success();
  };
  for (auto [value, said] :
       llvm::zip(manual.getTensors(), manual.getInShardings().getShardings()))
    if (failed(check(value, said, /*isInside=*/false)))
      return failure();
  Operation *end = manual.getBody().front().getTerminator();
  for (auto [value, said] :
       llvm::zip(end->getOperands(), manual.getOutShardings().getShardings()))
    if (failed(check(value, said, /*isInside=*/true)))
      return failure();
  return success();
}

/// Matrices are whole, and their batch is sharded identically everywhere.
LogicalResult LocalRule::checkBatch(int64_t batchRank) {
  SmallVector<Value> values(op->getOperands());
  llvm::append_range(values, op->getResults());
  for (Value value : values)
    for (int64_t dim = 0; dim < rankOf(value); ++dim)
      if (failed(dim < batchRank
                     ? requireSameSharding(values.front(), dim, value, dim)
                     : requireUnsharded(value, dim)))
        return failure();
  return success();
}

LogicalResult LocalRule::checkUnsharded() {
  if (failed(requireAllUnsharded(op->getOperands())))
    return failure();
  return requireAllUnsharded(op->getResults());
}

LogicalResult LocalRule::run() {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<IotaOp, BroadcastInDimOp, ReshapeOp, TransposeOp, DotGeneralOp,
            ConvolutionOp, ReduceOp, ReduceWindowOp, SelectAndScatterOp,
            SliceOp, PadOp, ConcatenateOp, ReverseOp, SortOp, DynamicSliceOp,
            DynamicUpdateSliceOp, GatherOp, ScatterOp, ReturnOp>(
          [&](auto one) { return on(one); })
      .Case<ConstantOp, sdy::ConstantOp>([&](auto constant) {
        return onConstant(constant->getResult(0), constant.getValue());
      })
      .Case<WhileOp, OptimizationBarrierOp>(
          [&](Operation *) { return checkOperandResultPairs(); })
      .Case<sdy::ManualComputationOp>([&](auto one) { return on(one); })
      // The terminators of branches are checked by on(ReturnOp), those of a
      // manual computation by its own rule, and the function by Localize.
      .Case<IfOp, CaseOp, sdy::ReturnOp, func::ReturnOp>(
          [](Operation *) { return success(); })
      .Default([&](Operation *) {
        if (std::optional<int64_t> batchRank = getBatchRank(op))
          return checkBatch(*batchRank);
        return isElementwiseOp(op) ? onElementwise() : checkUnsharded();
      });
}

LogicalResult scalify::localizeOp(Operation *op, Layouts &layouts) {
  return LocalRule(op, layouts).run();
}
