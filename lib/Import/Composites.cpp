//===- Composites.cpp - Replace composites by calls or hints --------------===//
//
// `scalify.lax` marks values by composites whose decomposition is the identity,
// so that other compilers of StableHLO drop them. Here they become hint ops.
//
//===----------------------------------------------------------------------===//

#include "Composites.h"

#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"

using namespace mlir;
using namespace scalify;
using stablehlo::CompositeOp;

static bool isWideTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return false;
  Type element = tensor.getElementType();
  return element.isF32() || element.isF16() || element.isBF16();
}

static bool isScale(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 && tensor.getElementType().isF32();
}

static bool hasForm(CompositeOp op, unsigned operands, unsigned results) {
  return op.getNumOperands() == operands && op.getNumResults() == results &&
         isWideTensor(op.getOperand(0).getType()) &&
         op.getOperand(0).getType() == op.getResult(0).getType();
}

/// Parses axes such as "0,2"; empty for all axes.
static LogicalResult parseAxes(CompositeOp op, StringRef text,
                               OpBuilder &builder, DenseI64ArrayAttr &axes) {
  SmallVector<StringRef> parts;
  text.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  SmallVector<int64_t> numbers(parts.size());
  for (auto [part, number] : llvm::zip(parts, numbers))
    if (part.getAsInteger(10, number))
      return op.emitOpError("has the axes \"")
             << text << "\"; they must be numbers joined by ','";
  if (!numbers.empty())
    axes = builder.getDenseI64ArrayAttr(numbers);
  return success();
}

static LogicalResult replaceRescale(CompositeOp op, OpBuilder &builder) {
  auto name = op.getCompositeAttributes().getAs<StringAttr>("statistic");
  if (!name || !hasForm(op, 1, 1))
    return op.emitOpError("needs one float tensor, its result of the same "
                          "type, and a statistic");
  std::optional<Statistic> statistic = symbolizeStatistic(name.getValue());
  if (!statistic)
    return op.emitOpError("has the statistic ")
           << name << "; it must be one of max, l1, l2";
  DenseI64ArrayAttr axes;
  if (auto text = op.getCompositeAttributes().getAs<StringAttr>("axes"))
    if (failed(parseAxes(op, text.getValue(), builder, axes)))
      return failure();
  auto point =
      RescalePointOp::create(builder, op.getLoc(), op.getResult(0).getType(),
                             *statistic, op.getOperand(0), "user",
                             /*sample=*/1, axes);
  op->replaceAllUsesWith(point);
  return success();
}

static LogicalResult replaceSetScaling(CompositeOp op, OpBuilder &builder) {
  if (!hasForm(op, 2, 1) || !isScale(op.getOperand(1).getType()))
    return op.emitOpError("needs a float tensor, a rank-0 scale of f32, and a "
                          "result of the tensor's type");
  op->replaceAllUsesWith(OverrideScaleOp::create(
      builder, op.getLoc(), op.getOperand(0), op.getOperand(1)));
  return success();
}

static LogicalResult replaceGetDataScale(CompositeOp op, OpBuilder &builder) {
  if (!hasForm(op, 1, 2) || !isScale(op.getResult(1).getType()))
    return op.emitOpError("needs a float tensor, and as results one of its "
                          "type and a rank-0 scale of f32");
  op->replaceAllUsesWith(
      DataScaleOp::create(builder, op.getLoc(), op.getOperand(0)));
  return success();
}

/// Builds one barrier for all values that cross the border.
static LogicalResult replaceStageBorder(CompositeOp op, OpBuilder &builder,
                                        StringRef direction) {
  if (op.getOperandTypes() != op.getResultTypes() || op.getNumOperands() == 0)
    return op.emitOpError("needs results of its operands' types");
  auto border = stablehlo::OptimizationBarrierOp::create(
      builder, op.getLoc(), op.getResultTypes(), op.getOperands());
  border->setAttr(stablehlo::kStageBorderAttr,
                  builder.getStringAttr(direction));
  op->replaceAllUsesWith(border);
  return success();
}

static LogicalResult replaceComposite(CompositeOp op) {
  OpBuilder builder(op);
  StringRef name = op.getName();
  LogicalResult replaced = success();
  if (name == "scalify.rescale")
    replaced = replaceRescale(op, builder);
  else if (name == "scalify.set_scaling")
    replaced = replaceSetScaling(op, builder);
  else if (name == "scalify.get_data_scale")
    replaced = replaceGetDataScale(op, builder);
  else if (name == "scalify.stage_border")
    replaced = replaceStageBorder(op, builder, "forward");
  else if (name == "scalify.stage_border_grad")
    replaced = replaceStageBorder(op, builder, "backward");
  else
    op->replaceAllUsesWith(
        func::CallOp::create(builder, op.getLoc(), op.getDecompositionAttr(),
                             op.getResultTypes(), op.getOperands()));
  if (succeeded(replaced))
    op.erase();
  return replaced;
}

LogicalResult scalify::import::replaceComposites(func::FuncOp function) {
  SmallVector<CompositeOp> composites;
  function.walk([&](CompositeOp op) { composites.push_back(op); });
  for (CompositeOp op : composites)
    if (failed(replaceComposite(op)))
      return failure();
  return success();
}
