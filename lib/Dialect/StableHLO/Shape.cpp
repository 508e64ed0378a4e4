//===- Shape.cpp - Constants and ops that move elements -------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "scalify/Dialect/StableHLO/BooleanBlobs.h"
#include "scalify/Dialect/StableHLO/Integers.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify::stablehlo;

//===----------------------------------------------------------------------===//
// ConstantOp
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

void ConstantOp::getAsmResultNames(
    function_ref<void(Value, StringRef)> setName) {
  setName(getOutput(),
          isa<IntegerType>(getElementTypeOrSelf(getOutput())) ? "c" : "cst");
}

LogicalResult ConstantOp::inferReturnTypes(MLIRContext *,
                                           std::optional<Location>,
                                           Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getValue().getType());
  return success();
}

// A quantized or dynamic result's type differs from its value's.
bool ConstantOp::isCompatibleReturnTypes(TypeRange lhs, TypeRange rhs) {
  if (lhs.size() != 1 || rhs.size() != 1)
    return false;
  auto a = dyn_cast<ShapedType>(lhs.front());
  auto b = dyn_cast<ShapedType>(rhs.front());
  if (!a || !b || failed(verifyCompatibleShape(a, b)))
    return false;
  auto storage = [](Type element) {
    if (auto quantized = dyn_cast<quant::QuantizedType>(element))
      return quantized.getStorageType();
    return element;
  };
  return storage(a.getElementType()) == storage(b.getElementType());
}

ParseResult ConstantOp::parse(OpAsmParser &parser, OperationState &result) {
  // The fallback form: `() <{value = ..}> : () -> type`.
  if (succeeded(parser.parseOptionalLParen())) {
    Type type;
    ElementsAttr value;
    SMLoc loc = parser.getCurrentLocation();
    NamedAttrList props;
    if (parser.parseRParen())
      return failure();
    if (succeeded(parser.parseOptionalLess()))
      if (parser.parseOptionalAttrDict(props) || parser.parseGreater())
        return failure();
    if (parser.parseOptionalAttrDict(result.attributes) ||
        parser.parseColon() || parser.parseType(type))
      return failure();
    Attribute found = props.get("value");
    if (!found)
      found = result.attributes.erase("value");
    value = dyn_cast_or_null<ElementsAttr>(found);
    auto function = dyn_cast<FunctionType>(type);
    if (!value)
      return parser.emitError(loc, "expected elements as 'value'");
    if (!function || function.getNumInputs() != 0 ||
        function.getNumResults() != 1)
      return parser.emitError(loc, "expected a type '() -> tensor<..>'");
    result.getOrAddProperties<Properties>().value = value;
    result.addTypes(function.getResults());
    return success();
  }
  ElementsAttr value;
  if (parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseAttribute(value))
    return failure();
  result.getOrAddProperties<Properties>().value = value;
  result.addTypes(value.getType());
  return success();
}

void ConstantOp::print(OpAsmPrinter &printer) {
  if (getValue().getType() == getOutput().getType()) {
    printer.printOptionalAttrDict((*this)->getAttrs(), {"value"});
    printer << ' ';
    auto dense = dyn_cast<DenseElementsAttr>(getValue());
    if (dense && dense.getElementType().isInteger(1) && !dense.isSplat() &&
        dense.getNumElements() > 0)
      printBooleanElements(printer.getStream(), dense);
    else
      printer << getValue();
    return;
  }
  printer << "() <{value = " << getValue() << "}>";
  printer.printOptionalAttrDict((*this)->getAttrs(), {"value"});
  printer << " : () -> " << getOutput().getType();
}

//===----------------------------------------------------------------------===//
// Ops whose result type is written
//===----------------------------------------------------------------------===//

LogicalResult IotaOp::verify() {
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  // iota_c1
  return checkDims(getLoc(), getOperationName(), "iota_dimension",
                   static_cast<int64_t>(getIotaDimension()), rank);
}

LogicalResult BroadcastInDimOp::verify() {
  return checkBroadcast(*this, cast<RankedTensorType>(getOperand().getType()),
                        getBroadcastDimensions(),
                        cast<RankedTensorType>(getType()));
}

void ReshapeOp::build(OpBuilder &builder, OperationState &state, Value operand,
                      ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(operand.getType());
  build(builder, state, type.clone(shape), operand);
}

LogicalResult ReshapeOp::verify() {
  return checkReshape(*this, cast<RankedTensorType>(getOperand().getType()),
                      cast<RankedTensorType>(getType()));
}

/// Returns the bits of one element; 0 if the type has no fixed width.
static int64_t elementBits(Type element) {
  if (auto quantized = dyn_cast<quant::QuantizedType>(element))
    return quantized.getStorageTypeIntegralWidth();
  return getElementBits(element);
}

LogicalResult BitcastConvertOp::verify() {
  auto operand = cast<RankedTensorType>(getOperand().getType());
  auto result = cast<RankedTensorType>(getType());
  int64_t from = elementBits(operand.getElementType());
  int64_t to = elementBits(result.getElementType());
  // bitcast_convert_c2
  if (isa<ComplexType>(operand.getElementType()) !=
      isa<ComplexType>(result.getElementType()))
    return emitOpError() << "cannot mix complex and real elements, got "
                         << operand << " and " << result;
  // bitcast_convert_c1: the narrower side has one more dimension, last, which
  // holds the pieces of an element of the wider side.
  RankedTensorType wide = from >= to ? operand : result;
  RankedTensorType narrow = from >= to ? result : operand;
  int64_t ratio = std::max(from, to) / std::max<int64_t>(1, std::min(from, to));
  ArrayRef<int64_t> narrowShape = narrow.getShape();
  bool legal = std::max(from, to) == ratio * std::min(from, to);
  if (from != to) {
    legal =
        legal && !narrowShape.empty() && sizesAgree(narrowShape.back(), ratio);
    narrowShape = narrowShape.drop_back(narrowShape.empty() ? 0 : 1);
  }
  if (!legal || failed(verifyCompatibleShape(wide.getShape(), narrowShape)))
    return emitOpError() << "cannot reinterpret " << operand << " as "
                         << result;
  return success();
}

//===----------------------------------------------------------------------===//
// Ops whose result type is inferred
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  SmallVector<int64_t> shape(adaptor.getBroadcastSizes());
  for (int64_t size : shape)
    if (size < 0)
      return emitOptionalError(location, "'", getOperationName(),
                               "' op needs sizes of at least 0 but got ", size);
  llvm::append_range(shape, operand.getShape());
  types.push_back(RankedTensorType::get(shape, operand.getElementType()));
  return success();
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> location,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  // transpose_c2
  if (failed(checkLength(location, getOperationName(), "dims",
                         permutation.size(), operand.getRank())) ||
      failed(checkDims(location, getOperationName(), "dims", permutation,
                       operand.getRank())))
    return failure();
  // transpose_c3
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(operand.getDimSize(dim));
  types.push_back(RankedTensorType::get(shape, operand.getElementType()));
  return success();
}

void SliceOp::build(OpBuilder &builder, OperationState &state, Value operand,
                    int64_t dim, int64_t begin, int64_t end) {
  SmallVector<int64_t> limits(
      cast<RankedTensorType>(operand.getType()).getShape());
  SmallVector<int64_t> starts(limits.size(), 0), strides(limits.size(), 1);
  starts[dim] = begin;
  limits[dim] = end;
  build(builder, state, operand, starts, limits, strides);
}

void SliceOp::build(OpBuilder &builder, OperationState &state, Value operand,
                    ArrayRef<int64_t> limits) {
  SmallVector<int64_t> starts(limits.size(), 0), strides(limits.size(), 1);
  build(builder, state, operand, starts, limits, strides);
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> location,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  ArrayRef<int64_t> starts = adaptor.getStartIndices();
  ArrayRef<int64_t> limits = adaptor.getLimitIndices();
  ArrayRef<int64_t> strides = adaptor.getStrides();
  StringRef name = getOperationName();
  int64_t rank = operand.getRank();
  // slice_c2
  if (failed(
          checkLength(location, name, "start_indices", starts.size(), rank)) ||
      failed(
          checkLength(location, name, "limit_indices", limits.size(), rank)) ||
      failed(checkLength(location, name, "strides", strides.size(), rank)))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < rank; ++dim) {
    int64_t size = operand.getDimSize(dim);
    // slice_c3, slice_c4
    if (starts[dim] < 0 || limits[dim] < starts[dim] || strides[dim] <= 0 ||
        (ShapedType::isStatic(size) && limits[dim] > size))
      return emitOptionalError(location, "'", name, "' op cannot take ",
                               starts[dim], ":", limits[dim], ":", strides[dim],
                               " of dimension ", dim, " of ", operand);
    // slice_c5
    shape.push_back(llvm::divideCeil(limits[dim] - starts[dim], strides[dim]));
  }
  types.push_back(RankedTensorType::get(shape, operand.getElementType()));
  return success();
}

LogicalResult ConcatenateOp::inferReturnTypes(MLIRContext *,
                                              std::optional<Location> location,
                                              Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  // concatenate_c3
  if (adaptor.getInputs().empty())
    return emitOptionalError(location, "'", getOperationName(),
                             "' op needs at least one operand");
  auto first = cast<RankedTensorType>(adaptor.getInputs().front().getType());
  int64_t dimension = adaptor.getDimension();
  // concatenate_c4
  if (failed(checkDims(location, getOperationName(), "dimension", dimension,
                       first.getRank())))
    return failure();
  SmallVector<int64_t> shape(first.getShape());
  for (Type type : adaptor.getInputs().drop_front().getTypes()) {
    auto other = cast<RankedTensorType>(type);
    // concatenate_c1, concatenate_c2
    bool agrees = other.getRank() == first.getRank() &&
                  other.getElementType() == first.getElementType();
    for (int64_t dim = 0; agrees && dim < first.getRank(); ++dim)
      agrees =
          dim == dimension || sizesAgree(shape[dim], other.getDimSize(dim));
    if (!agrees)
      return emitOptionalError(location, "'", getOperationName(),
                               "' op cannot join ", first, " and ", other,
                               " along dimension ", dimension);
    for (int64_t dim = 0; dim < first.getRank(); ++dim) {
      int64_t size = other.getDimSize(dim);
      if (dim != dimension)
        shape[dim] = ShapedType::isDynamic(shape[dim]) ? size : shape[dim];
      else if (ShapedType::isDynamic(shape[dim]) || ShapedType::isDynamic(size))
        shape[dim] = ShapedType::kDynamic;
      else if (llvm::AddOverflow(shape[dim], size,
                                 shape[dim])) // concatenate_c6
        return emitOptionalError(location, "'", getOperationName(),
                                 "' op has a result of more elements than 63 "
                                 "bits can count along dimension ",
                                 dimension);
    }
  }
  types.push_back(RankedTensorType::get(shape, first.getElementType()));
  return success();
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> location,
                                      Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  auto padding = cast<RankedTensorType>(adaptor.getPaddingValue().getType());
  ArrayRef<int64_t> low = adaptor.getEdgePaddingLow();
  ArrayRef<int64_t> high = adaptor.getEdgePaddingHigh();
  ArrayRef<int64_t> interior = adaptor.getInteriorPadding();
  StringRef name = getOperationName();
  int64_t rank = operand.getRank();
  // pad_c1
  if (padding.getRank() != 0 ||
      padding.getElementType() != operand.getElementType())
    return emitOptionalError(location, "'", name,
                             "' op needs a scalar of the operand's element "
                             "type to pad with but got ",
                             padding, " and ", operand);
  // pad_c2
  if (failed(checkLength(location, name, "low", low.size(), rank)) ||
      failed(checkLength(location, name, "high", high.size(), rank)) ||
      failed(checkLength(location, name, "interior", interior.size(), rank)))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < rank; ++dim) {
    int64_t size = operand.getDimSize(dim);
    // pad_c3
    if (interior[dim] < 0)
      return emitOptionalError(location, "'", name,
                               "' op needs interior padding of at least 0 but "
                               "got ",
                               interior[dim]);
    if (ShapedType::isDynamic(size)) {
      shape.push_back(ShapedType::kDynamic);
      continue;
    }
    // pad_c4
    int64_t padded = std::max<int64_t>(size - 1, 0);
    if (llvm::MulOverflow(padded, interior[dim], padded) ||
        llvm::AddOverflow(padded, size, padded) ||
        llvm::AddOverflow(padded, low[dim], padded) ||
        llvm::AddOverflow(padded, high[dim], padded))
      return emitOptionalError(location, "'", name, "' op pads dimension ", dim,
                               " by more than 63 bits can count: low ",
                               low[dim], ", high ", high[dim], ", interior ",
                               interior[dim]);
    if (padded < 0)
      return emitOptionalError(location, "'", name,
                               "' op leaves a negative size ", padded,
                               " in dimension ", dim);
    shape.push_back(padded);
  }
  types.push_back(RankedTensorType::get(shape, operand.getElementType()));
  return success();
}

LogicalResult ReverseOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  auto operand = cast<RankedTensorType>(adaptor.getOperand().getType());
  // reverse_c2, reverse_c3
  if (failed(checkDims(location, getOperationName(), "dims",
                       adaptor.getDimensions(), operand.getRank())))
    return failure();
  types.push_back(operand);
  return success();
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Shape.cpp.inc"
