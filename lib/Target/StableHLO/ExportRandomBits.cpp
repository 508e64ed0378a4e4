//===- ExportRandomBits.cpp - Random words in StableHLO -------------------===//

#include "ExportRandomBits.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Scalify/Threefry.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

using namespace mlir;
using namespace scalify;

namespace {
/// Builds ops on words of rank 0 (of the key) and of the result's shape.
class WordBuilder {
public:
  explicit WordBuilder(RandomBitsOp op)
      : op(op), builder(op), loc(op.getLoc()),
        type(cast<RankedTensorType>(op.getType())) {}

  Value constant(int32_t value) {
    return makeConstant(RankedTensorType::get({}, builder.getI32Type()), value);
  }
  Value add(Value a, Value b) { return meet<stablehlo::AddOp>(a, b); }
  Value bxor(Value a, Value b) { return meet<stablehlo::XorOp>(a, b); }
  Value rotateLeft(Value x, int count) {
    return create<stablehlo::OrOp>(
        create<stablehlo::ShiftLeftOp>(x, makeConstant(type, count)),
        create<stablehlo::ShiftRightLogicalOp>(x,
                                               makeConstant(type, 32 - count)));
  }
  Value getKey(int64_t i);
  Value getPlace();
  Value spread(Value word) {
    if (word.getType() == type)
      return word;
    return create<stablehlo::BroadcastInDimOp>(type, word, ArrayRef<int64_t>{});
  }

private:
  template <typename Op, typename... Args> Value create(Args &&...args) {
    auto made = Op::create(builder, loc, std::forward<Args>(args)...);
    copyPhase(op, made);
    return made->getResult(0);
  }
  Value makeConstant(RankedTensorType type, int32_t value) {
    return create<stablehlo::ConstantOp>(
        mlir::cast<ElementsAttr>(DenseElementsAttr::get(type, value)));
  }
  template <typename Op> Value meet(Value a, Value b) {
    if (a.getType() != b.getType()) {
      a = spread(a);
      b = spread(b);
    }
    return create<Op>(a, b);
  }

  RandomBitsOp op;
  OpBuilder builder;
  Location loc;
  RankedTensorType type;
};
} // namespace

Value WordBuilder::getKey(int64_t i) {
  Value word = create<stablehlo::SliceOp>(op.getKey(), 0, i, i + 1);
  Type i32 = builder.getI32Type();
  word = create<stablehlo::BitcastConvertOp>(RankedTensorType::get({1}, i32),
                                             word);
  return create<stablehlo::ReshapeOp>(RankedTensorType::get({}, i32), word);
}

/// Returns the element's index in the whole.
Value WordBuilder::getPlace() {
  Value place = op.getFirst() ? spread(op.getFirst()) : Value();
  ArrayRef<int64_t> whole = op.getPlaces();
  int64_t stride = 1;
  for (int64_t dim = type.getRank(); dim-- > 0;) {
    int64_t extent = type.getDimSize(dim);
    if (extent > 1) {
      Value index = create<stablehlo::IotaOp>(type, static_cast<uint64_t>(dim));
      if (stride != 1)
        index = create<stablehlo::MulOp>(
            index, makeConstant(type, static_cast<int32_t>(stride)));
      place = place ? create<stablehlo::AddOp>(place, index) : index;
    }
    stride *= whole[dim];
  }
  return place ? place : makeConstant(type, 0);
}

void scalify::exportRandomBits(RandomBitsOp op) {
  WordBuilder words(op);
  std::array<Value, 2> block =
      threefry<Value>(words, {words.getKey(0), words.getKey(1)},
                      {op.getStream(), words.getPlace()});
  op.replaceAllUsesWith(words.spread(block[op.getWord()]));
  op.erase();
}
