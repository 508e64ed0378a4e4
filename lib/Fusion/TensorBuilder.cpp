//===- TensorBuilder.cpp - Ops in place of another one --------------------===//

#include "TensorBuilder.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace scalify;

void TensorBuilder::Phases::notifyOperationInserted(Operation *op,
                                                    OpBuilder::InsertPoint) {
  if (phase && op->getBlock() == block)
    op->setAttr(kPhaseAttr, phase);
}

TensorBuilder::TensorBuilder(Operation *op) : ops(op->getLoc(), op) {
  phases.phase = op->getAttr(kPhaseAttr);
  phases.block = op->getBlock();
  ops.setListener(&phases);
}

Value TensorBuilder::constant(int64_t value, Type element, Dims shape) {
  auto scalar = RankedTensorType::get({}, element);
  Attribute attr =
      isa<FloatType>(element)
          ? Attribute(ops.getFloatAttr(element, static_cast<double>(value)))
          : Attribute(ops.getIntegerAttr(element, value));
  Value one = stablehlo::ConstantOp::create(
      ops, scalar, DenseElementsAttr::get(scalar, attr));
  return shape.empty() ? one : broadcast(one, shape, {});
}

Value TensorBuilder::iota(int64_t dim, Dims shape) {
  return stablehlo::IotaOp::create(
      ops, RankedTensorType::get(shape, ops.getI32Type()), dim);
}

Value TensorBuilder::broadcast(Value value, Dims shape, Dims dims) {
  return stablehlo::BroadcastInDimOp::create(ops, typeOf(value).clone(shape),
                                             value, dims);
}

Value TensorBuilder::reshape(Value value, Dims shape) {
  if (typeOf(value).getShape() == shape)
    return value;
  return stablehlo::ReshapeOp::create(ops, typeOf(value).clone(shape), value);
}

Value TensorBuilder::transpose(Value value, Dims permutation) {
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(typeOf(value).getDimSize(dim));
  return stablehlo::TransposeOp::create(ops, typeOf(value).clone(shape), value,
                                        permutation);
}

Value TensorBuilder::reverse(Value value, Dims dims) {
  return stablehlo::ReverseOp::create(ops, value.getType(), value, dims);
}

Value TensorBuilder::firstOf(Value value, int64_t dim, int64_t count,
                             int64_t stride) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  int64_t limit = (count - 1) * stride + 1;
  if (shape[dim] == limit && stride == 1)
    return value;
  SmallVector<int64_t> start(shape.size(), 0), limits(shape);
  SmallVector<int64_t> strides(shape.size(), 1);
  limits[dim] = limit;
  strides[dim] = stride;
  shape[dim] = count;
  return stablehlo::SliceOp::create(ops, typeOf(value).clone(shape), value,
                                    start, limits, strides);
}

Value TensorBuilder::at(Value value, int64_t dim, int64_t place) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  SmallVector<int64_t> start(shape.size(), 0), limits(shape);
  start[dim] = place;
  limits[dim] = place + 1;
  shape[dim] = 1;
  Value slice =
      stablehlo::SliceOp::create(ops, typeOf(value).clone(shape), value, start,
                                 limits, SmallVector<int64_t>(shape.size(), 1));
  shape.erase(shape.begin() + dim);
  return reshape(slice, shape);
}

Value TensorBuilder::pad(Value value, Value padding, Dims low, Dims high,
                         Dims interior) {
  auto isZero = [](int64_t amount) { return amount == 0; };
  if (llvm::all_of(llvm::concat<const int64_t>(low, high, interior), isZero))
    return value;
  SmallVector<int64_t> shape;
  for (auto [size, before, after, between] :
       llvm::zip(typeOf(value).getShape(), low, high, interior))
    shape.push_back(before + after + size + (size - 1) * between);
  return stablehlo::PadOp::create(ops, typeOf(value).clone(shape), value,
                                  padding, low, high, interior);
}

Value TensorBuilder::compare(Value lhs, Value rhs,
                             stablehlo::ComparisonDirection direction) {
  return stablehlo::CompareOp::create(ops, lhs, rhs, direction);
}

Value TensorBuilder::convert(Value value, Type element) {
  return stablehlo::ConvertOp::create(ops, typeOf(value).clone(element), value);
}

Value TensorBuilder::sum(Value value, Dims dims) {
  Value zero = constant(0, typeOf(value).getElementType(), {});
  return stablehlo::buildReduce<stablehlo::AddOp>(ops, ops.getLoc(), value,
                                                  zero, dims);
}

FailureOr<TensorBuilder::Values>
TensorBuilder::elementwise(Operation *op, Region &region,
                           ValueRange arguments) {
  Dims shape = typeOf(arguments.front()).getShape();
  IRMapping map;
  map.map(region.getArguments(), arguments);
  auto spread = [&](Value value) {
    Value mapped = map.lookupOrDefault(value);
    return typeOf(mapped).getShape() == shape ? mapped
                                              : broadcast(mapped, shape, {});
  };
  Values results;
  for (Operation &inner : region.front()) {
    if (inner.hasTrait<OpTrait::IsTerminator>()) {
      llvm::append_range(results, llvm::map_range(inner.getOperands(), spread));
      continue;
    }
    if (!isa<stablehlo::ConstantOp>(inner) && !isElementwiseOp(&inner)) {
      op->emitOpError("not in an executable: its region has '")
          << inner.getName() << "', which is not elementwise";
      return failure();
    }
    for (Value operand : inner.getOperands())
      map.map(operand, spread(operand));
    Operation *copy = ops.clone(inner, map);
    if (!isa<stablehlo::ConstantOp>(inner))
      for (Value result : copy->getResults())
        result.setType(typeOf(result).clone(shape));
  }
  return results;
}

// Element k of place o is element o * stride + k * dilation. Repeated row by
// row, with rows one element longer than what repeats, the values shift by one
// from row to row: reading row o from its start gives what a window there sees.
Value TensorBuilder::slide(Value value, int64_t dim,
                           const stablehlo::WindowDim &window, int64_t places) {
  if (window.size == 1)
    return firstOf(value, dim, places, window.stride);
  int64_t rows = (places - 1) * window.stride + 1;
  int64_t columns = (window.size - 1) * window.windowDilation + 1;
  int64_t length = rows + columns - 1;
  value = firstOf(value, dim, length);
  SmallVector<int64_t> shape(typeOf(value).getShape()), dims;
  for (int64_t d = 0; d < int64_t(shape.size()); ++d)
    dims.push_back(d < dim ? d : d + 1);
  shape.insert(shape.begin() + dim, rows + 1);
  value = broadcast(value, shape, dims);
  shape.erase(shape.begin() + dim);
  shape[dim] = (rows + 1) * length;
  value = firstOf(reshape(value, shape), dim, rows * (length + 1));
  shape[dim] = length + 1;
  shape.insert(shape.begin() + dim, rows);
  value = firstOf(reshape(value, shape), dim, places, window.stride);
  return firstOf(value, dim + 1, window.size, window.windowDilation);
}

Value TensorBuilder::windows(Value value, Value padding,
                             ArrayRef<stablehlo::WindowDim> window) {
  SmallVector<int64_t> low, high, interior, places, counts, elements;
  for (auto [size, dim] : llvm::zip(typeOf(value).getShape(), window)) {
    places.push_back(dim.positions(size));
    low.push_back(dim.low);
    high.push_back(dim.high);
    interior.push_back(dim.baseDilation - 1);
  }
  value = pad(value, padding, low, high, interior);
  int64_t next = 0;
  for (auto [dim, count] : llvm::zip(window, places)) {
    value = slide(value, next, dim, count);
    counts.push_back(next++);
    if (dim.size > 1)
      elements.push_back(next++);
  }
  llvm::append_range(counts, elements);
  return elements.empty() ? value : transpose(value, counts);
}
