//===- EmitRandomBits.cpp - Random words in registers ---------------------===//

#include "KernelEmitter.h"

#include "scalify/Dialect/Scalify/Threefry.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

namespace {
/// Builds each word at the outermost loop in which it is known.
struct WordBuilder {
  KernelEmitter &emitter;
  Location loc;

  Element constant(int64_t value) {
    OpBuilder &b = emitter.at(0);
    return {constantLike(b, loc, b.getI32Type(), value), 0};
  }
  template <typename Op> Element meet(Element a, Element b) {
    unsigned level = std::max(a.level, b.level);
    OpBuilder &builder = emitter.at(level);
    Value x = a.value, y = b.value;
    if (isa<VectorType>(x.getType()) || isa<VectorType>(y.getType())) {
      x = emitter.broadcast(builder, x);
      y = emitter.broadcast(builder, y);
    }
    return {Op::create(builder, loc, x, y), level};
  }
  Element add(Element a, Element b) { return meet<arith::AddIOp>(a, b); }
  Element bxor(Element a, Element b) { return meet<arith::XOrIOp>(a, b); }
  Element rotateLeft(Element x, int count) {
    OpBuilder &b = emitter.at(x.level);
    Type type = x.value.getType();
    auto c = [&](int64_t n) { return constantLike(b, loc, type, n); };
    Value high = arith::ShLIOp::create(b, loc, x.value, c(count));
    Value low = arith::ShRUIOp::create(b, loc, x.value, c(32 - count));
    return {arith::OrIOp::create(b, loc, high, low), x.level};
  }
};
} // namespace

FailureOr<Element> KernelEmitter::randomBits(RandomBitsOp op,
                                             const Index &index) {
  FailureOr<Element> seed = element(op.getKey(), {scope.constant(0)});
  FailureOr<Element> step = element(op.getKey(), {scope.constant(1)});
  FailureOr<Element> stream = element(op.getStream(), {});
  if (failed(seed) || failed(step) || failed(stream))
    return failure();
  WordBuilder words{*this, op.getLoc()};
  Element place = asElement(scope.linearise(index, op.getPlaces()),
                            getElementTypeOrSelf(op.getType()));
  if (op.getFirst()) {
    FailureOr<Element> first = element(op.getFirst(), {});
    if (failed(first))
      return failure();
    place = words.add(*first, place);
  }
  return threefry<Element>(words, {*seed, *step},
                           {*stream, place})[op.getWord()];
}
