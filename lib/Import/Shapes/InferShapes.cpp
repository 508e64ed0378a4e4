//===- InferShapes.cpp - Types of results from those of operands ----------===//
//
// The dialect infers the types of most ops. Here are those whose result has
// another type than the operands alone give (an accumulator's, a bitcast's), so
// that only their shape can be inferred. Verifiers check the same shapes.
//
//===----------------------------------------------------------------------===//

#include "InferShapes.h"
#include "../TypeLimits.h"

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Dialect/StableHLO/Window.h"
#include "scalify/Import/Folds.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

using Shape = SmallVector<int64_t>;
using MaybeShape = std::optional<Shape>;

LogicalResult scalify::import::setShape(Operation *op, Value value,
                                        ArrayRef<int64_t> shape) {
  // Data may be the sizes of a shape, as those of an iota.
  for (int64_t size : shape)
    if (ShapedType::isStatic(size) && size < 0)
      return op->emitOpError("has a value whose shape has the size ") << size;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || failed(verifyCompatibleShape(type.getShape(), shape)))
    return op->emitOpError("has a value of type ")
           << value.getType() << ", and its operands give the shape of "
           << RankedTensorType::get(shape, getElementTypeOrSelf(value));
  // A bound, an encoding, is none of a static shape.
  auto made = RankedTensorType::get(shape, type.getElementType());
  if (!isCountable(shape))
    return op->emitOpError("has a value of type ") << made << kUncountable;
  value.setType(made);
  return success();
}

static Shape shapeOf(Value value) {
  return llvm::to_vector(typeOf(value).getShape());
}

static bool hasStaticShape(Value value) {
  auto type = dyn_cast<ShapedType>(value.getType());
  return !type || type.hasStaticShape();
}

//===----------------------------------------------------------------------===//
// Shapes by op
//===----------------------------------------------------------------------===//

static Shape shapeOf(DotGeneralOp op) {
  DotDimensionNumbersAttr dims = op.getDotDimensionNumbers();
  Shape shape;
  for (int64_t dim : dims.getLhsBatchingDimensions())
    shape.push_back(typeOf(op.getLhs()).getDimSize(dim));
  auto addFree = [&](Value value, ArrayRef<int64_t> batch,
                     ArrayRef<int64_t> contracting) {
    for (auto [dim, size] : llvm::enumerate(typeOf(value).getShape()))
      if (!llvm::is_contained(batch, int64_t(dim)) &&
          !llvm::is_contained(contracting, int64_t(dim)))
        shape.push_back(size);
  };
  addFree(op.getLhs(), dims.getLhsBatchingDimensions(),
          dims.getLhsContractingDimensions());
  addFree(op.getRhs(), dims.getRhsBatchingDimensions(),
          dims.getRhsContractingDimensions());
  return shape;
}

static MaybeShape shapeOf(ConvolutionOp op) {
  RankedTensorType lhs = typeOf(op.getLhs()), rhs = typeOf(op.getRhs());
  ConvDimensionNumbersAttr dims = op.getDimensionNumbers();
  Shape base, kernel;
  for (int64_t dim : dims.getInputSpatialDimensions())
    base.push_back(lhs.getDimSize(dim));
  for (int64_t dim : dims.getKernelSpatialDimensions())
    kernel.push_back(rhs.getDimSize(dim));
  auto window = readWindow(op, {kernel, op.getWindowStrides(), op.getPadding(),
                                op.getLhsDilation(), op.getRhsDilation()});
  if (failed(window))
    return std::nullopt;
  Shape shape(lhs.getRank());
  shape[dims.getOutputBatchDimension()] =
      lhs.getDimSize(dims.getInputBatchDimension()) /
      static_cast<int64_t>(op.getBatchGroupCount());
  shape[dims.getOutputFeatureDimension()] =
      rhs.getDimSize(dims.getKernelOutputFeatureDimension());
  for (auto [dim, size] :
       llvm::zip(dims.getOutputSpatialDimensions(), windowShape(base, *window)))
    shape[dim] = size;
  return shape;
}

static Shape shapeOf(ReduceOp op) {
  Shape shape;
  for (auto [dim, size] :
       llvm::enumerate(typeOf(op.getInputs().front()).getShape()))
    if (!llvm::is_contained(op.getDimensions(), int64_t(dim)))
      shape.push_back(size);
  return shape;
}

static MaybeShape shapeOf(ReduceWindowOp op) {
  auto window = readWindow(op, {op.getWindowDimensions(), op.getWindowStrides(),
                                op.getPadding(), op.getBaseDilations(),
                                op.getWindowDilations()});
  if (failed(window))
    return std::nullopt;
  return windowShape(typeOf(op.getInputs().front()).getShape(), *window);
}

/// One dimension of a reshape follows from the number of elements.
static MaybeShape shapeOf(ReshapeOp op) {
  Shape shape = shapeOf(op.getResult());
  int64_t *unknown = nullptr, known = 1;
  for (int64_t &size : shape) {
    if (ShapedType::isStatic(size))
      known *= size; // countable, or the type would have been refused
    else if (unknown)
      return std::nullopt;
    else
      unknown = &size;
  }
  int64_t count = typeOf(op.getOperand()).getNumElements();
  if (unknown && (known == 0 || count % known != 0))
    return std::nullopt;
  if (unknown)
    *unknown = count / known;
  return shape;
}

static MaybeShape shapeOf(BroadcastInDimOp op) {
  Shape shape = shapeOf(op.getResult());
  for (auto [dim, size] : llvm::zip(op.getBroadcastDimensions(),
                                    typeOf(op.getOperand()).getShape()))
    if (ShapedType::isDynamic(shape[dim]) && size != 1)
      shape[dim] = size;
  return shape;
}

static MaybeShape shapeOf(BitcastConvertOp op) {
  Shape shape = shapeOf(op.getOperand());
  int64_t from = getElementBits(op.getOperand().getType());
  int64_t to = getElementBits(op.getType());
  if (from > to)
    shape.push_back(from / to);
  else if (from < to)
    shape.pop_back();
  return shape;
}

static MaybeShape shapeOf(FftOp op) {
  Shape shape = shapeOf(op.getOperand());
  if (op.getFftType() == FftType::RFFT)
    shape.back() = op.getFftLength().back() / 2 + 1;
  if (op.getFftType() == FftType::IRFFT)
    shape.back() = op.getFftLength().back();
  return shape;
}

/// chlo's broadcasts align the last dimensions, as NumPy does, or those that
/// the attribute names.
static MaybeShape broadcastShape(Operation *op) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  bool isLhsLonger = typeOf(lhs).getRank() >= typeOf(rhs).getRank();
  Shape shape = shapeOf(isLhsLonger ? lhs : rhs);
  Shape other = shapeOf(isLhsLonger ? rhs : lhs);
  auto places = op->getAttrOfType<DenseI64ArrayAttr>("broadcast_dimensions");
  if (places && places.size() != int64_t(other.size()))
    return std::nullopt;
  for (auto [dim, size] : llvm::enumerate(other)) {
    int64_t at = places ? places[dim] : shape.size() - other.size() + dim;
    if (at < 0 || at >= int64_t(shape.size()))
      return std::nullopt;
    if (shape[at] == 1)
      shape[at] = size;
  }
  return shape;
}

/// The shape of an op with one result.
static MaybeShape findShape(Operation *op) {
  using Result = MaybeShape;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<DotGeneralOp, ConvolutionOp, ReshapeOp, BroadcastInDimOp,
            BitcastConvertOp, FftOp>(
          [](auto op) -> Result { return shapeOf(op); })
      .Case([](DotOp op) -> Result {
        Shape shape(typeOf(op.getLhs()).getShape().drop_back());
        llvm::append_range(shape, typeOf(op.getRhs()).getShape().drop_front());
        return shape;
      })
      .Case<DynamicReshapeOp, DynamicIotaOp>([](auto op) -> Result {
        return import::getNumbers(op.getOutputShape());
      })
      .Case([](DynamicBroadcastInDimOp op) -> Result {
        return import::getNumbers(op.getOutputDimensions());
      })
      .Case(
          [](RngOp op) -> Result { return import::getNumbers(op.getShape()); })
      .Case<CholeskyOp, SelectAndScatterOp, BatchNormInferenceOp>(
          [](Operation *op) -> Result { return shapeOf(op->getOperand(0)); })
      .Case([](TriangularSolveOp op) -> Result { return shapeOf(op.getB()); })
      .Case([](chlo::ConstantLikeOp op) -> Result {
        return shapeOf(op->getOperand(0));
      })
      .Default([](Operation *op) -> Result {
        if (op->getName().getStringRef().starts_with("chlo.broadcast_"))
          return broadcastShape(op);
        if (op->getName().getDialectNamespace() == "chlo" &&
            op->getNumOperands() == 2 && op->getNumResults() == 1)
          return shapeOf(op->getOperand(0));
        // Of one that infers its type, this is left to the op.
        if (op->hasTrait<mlir::OpTrait::Elementwise>() &&
            !isa<InferTypeOpInterface>(op))
          return shapeOf(op->getOperand(0));
        return std::nullopt;
      });
}

/// The shapes of an op's results where several follow from its operands.
static std::optional<SmallVector<Shape>> findShapes(Operation *op) {
  auto repeat = [&](const MaybeShape &shape) {
    return shape
               ? std::optional(SmallVector<Shape>(op->getNumResults(), *shape))
               : std::nullopt;
  };
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return repeat(shapeOf(reduce));
  if (auto reduce = dyn_cast<ReduceWindowOp>(op))
    return repeat(shapeOf(reduce));
  if (isa<SortOp, MapOp>(op))
    return repeat(shapeOf(op->getOperand(0)));
  if (isa<ScatterOp, AllReduceOp, CollectivePermuteOp, CollectiveBroadcastOp>(
          op)) {
    SmallVector<Shape> shapes;
    for (Value operand : op->getOperands().take_front(op->getNumResults()))
      shapes.push_back(shapeOf(operand));
    return shapes;
  }
  if (isa<BatchNormTrainingOp>(op))
    return SmallVector<Shape>{shapeOf(op->getOperand(0)),
                              shapeOf(op->getOperand(1)),
                              shapeOf(op->getOperand(1))};
  if (isa<BatchNormGradOp>(op))
    return SmallVector<Shape>{shapeOf(op->getOperand(0)),
                              shapeOf(op->getOperand(1)),
                              shapeOf(op->getOperand(1))};
  if (op->getNumResults() == 1)
    return repeat(findShape(op));
  return std::nullopt;
}

/// Operands that are shapes, by the attribute of custom calls.
static LogicalResult setShapesOfCall(CustomCallOp call) {
  auto indices =
      call->getAttrOfType<DenseIntElementsAttr>("indices_of_shape_operands");
  if (!indices || indices.getNumElements() != call->getNumResults())
    return success();
  for (auto [result, index] :
       llvm::zip(call.getResults(), indices.getValues<APInt>())) {
    uint64_t place = index.getLimitedValue();
    if (place >= call->getNumOperands())
      return call.emitOpError("has no operand ") << place << " of a shape";
    if (MaybeShape shape = import::getNumbers(call->getOperand(place)))
      if (failed(import::setShape(call, result, *shape)))
        return failure();
  }
  return success();
}

LogicalResult scalify::import::inferShapes(Operation *op) {
  if (llvm::all_of(op->getResults(), hasStaticShape) ||
      !llvm::all_of(op->getOperands(), hasStaticShape))
    return success();
  if (auto call = dyn_cast<CustomCallOp>(op))
    return setShapesOfCall(call);
  SmallVector<Shape> shapes;
  if (auto inferred = findShapes(op)) {
    shapes = *inferred;
  } else if (auto infer = dyn_cast<InferTypeOpInterface>(op)) {
    SmallVector<Type> types;
    if (failed(infer.inferReturnTypes(
            op->getContext(), op->getLoc(), op->getOperands(),
            op->getAttrDictionary(), op->getPropertiesStorage(),
            op->getRegions(), types)))
      return failure();
    for (Type type : types) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor)
        return success();
      shapes.push_back(llvm::to_vector(tensor.getShape()));
    }
  } else {
    return success();
  }
  for (auto [result, shape] : llvm::zip_equal(op->getResults(), shapes))
    if (failed(setShape(op, result, shape)))
      return failure();
  return success();
}
