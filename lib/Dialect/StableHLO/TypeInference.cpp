//===- TypeInference.cpp - Result types common to several families --------===//

#include "scalify/Dialect/StableHLO/Detail.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

LogicalResult scalify::stablehlo::detail::inferElementwiseType(
    std::optional<Location> location, StringRef opName, ValueRange operands,
    SmallVectorImpl<Type> &inferred) {
  auto first = dyn_cast<RankedTensorType>(operands.front().getType());
  if (!first)
    return emitOptionalError(location, opName, " needs ranked tensors");
  SmallVector<int64_t> shape(first.getShape());
  for (Type type : operands.drop_front().getTypes()) {
    auto other = dyn_cast<RankedTensorType>(type);
    if (!other || other.getRank() != first.getRank())
      return emitOptionalError(location, opName,
                               " needs operands of one rank but got ", first,
                               " and ", type);
    for (auto [dim, size] : llvm::zip(shape, other.getShape())) {
      if (ShapedType::isStatic(dim) && ShapedType::isStatic(size) &&
          dim != size)
        return emitOptionalError(location, opName,
                                 " needs operands of one shape but got ", first,
                                 " and ", type);
      if (ShapedType::isDynamic(dim))
        dim = size;
    }
  }
  inferred.push_back(first.clone(shape));
  return success();
}

bool scalify::stablehlo::detail::areCompatibleTypes(TypeRange lhs,
                                                    TypeRange rhs) {
  if (lhs.size() != rhs.size())
    return false;
  return llvm::all_of(llvm::zip(lhs, rhs), [](auto pair) {
    auto [a, b] = pair;
    if (a == b)
      return true;
    return getElementTypeOrSelf(a) == getElementTypeOrSelf(b) &&
           isa<ShapedType>(a) && isa<ShapedType>(b) &&
           succeeded(verifyCompatibleShape(a, b));
  });
}
