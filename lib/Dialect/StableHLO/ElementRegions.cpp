//===- ElementRegions.cpp - Scalar regions applied to tensors -------------===//

#include "scalify/Dialect/StableHLO/ElementRegions.h"

#include "scalify/Dialect/StableHLO/OpKinds.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;

FailureOr<SmallVector<Value>>
scalify::stablehlo::applyToElements(OpBuilder &builder, Operation *owner,
                                    Block &body, ValueRange arguments,
                                    function_ref<Type(Type)> elementOf) {
  auto shaped = cast<RankedTensorType>(arguments.front().getType());
  auto typeFor = [&](Value scalar) {
    return shaped.clone(elementOf(getElementTypeOrSelf(scalar)));
  };
  IRMapping map;
  map.map(body.getArguments(), arguments);
  // Values from outside the body are the same for all elements.
  auto valueOf = [&](Value scalar) {
    if (map.contains(scalar))
      return map.lookup(scalar);
    Type own = shaped.clone(getElementTypeOrSelf(scalar));
    // Applied to scalars, as in the body of another reduction, a constant is
    // what it is: such bodies hold no broadcast.
    Value spread = scalar;
    if (own != scalar.getType())
      spread = BroadcastInDimOp::create(builder, owner->getLoc(), own, scalar,
                                        ArrayRef<int64_t>());
    if (own != typeFor(scalar))
      spread =
          ConvertOp::create(builder, owner->getLoc(), typeFor(scalar), spread);
    map.map(scalar, spread);
    return spread;
  };
  for (Operation &inner : body.without_terminator()) {
    if (isa<stablehlo::ConstantOp>(inner)) {
      map.map(inner.getResult(0), builder.clone(inner)->getResult(0));
      Value scalar = map.lookup(inner.getResult(0));
      map.erase(inner.getResult(0));
      map.map(inner.getResult(0), valueOf(scalar));
      continue;
    }
    if (!isElementwiseOp(&inner) || inner.getNumResults() != 1)
      return owner->emitOpError() << "combines elements by '" << inner.getName()
                                  << "', which has no meaning for all "
                                     "elements at once";
    for (Value operand : inner.getOperands())
      valueOf(operand);
    Operation *copy = builder.clone(inner, map);
    copy->getResult(0).setType(typeFor(inner.getResult(0)));
    copy->setLoc(owner->getLoc());
    map.map(inner.getResult(0), copy->getResult(0));
  }
  SmallVector<Value> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(valueOf(value));
  return results;
}
