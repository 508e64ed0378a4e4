//===- RankMaxima.cpp - Maxima over ranks ---------------------------------===//

#include "scalify/Precision/RankMaxima.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace scalify;

int64_t scalify::countRanks(func::FuncOp function) {
  auto isPart = [](DictionaryAttr attrs) {
    return attrs && attrs.contains(kWholeTypeAttr);
  };
  bool hasParts = false;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    hasParts |= isPart(function.getArgAttrDict(i));
  sdy::MeshAttr mesh =
      hasParts ? sdy::findLargestMesh(function->getParentOp()) : nullptr;
  return mesh ? mesh.getTotalSize() : 1;
}

Value scalify::buildMaxOverRanks(OpBuilder &builder, Location loc,
                                 Value value) {
  Operation *parent = builder.getInsertionBlock()->getParentOp();
  auto function = dyn_cast<func::FuncOp>(parent);
  if (!function)
    function = parent->getParentOfType<func::FuncOp>();
  int64_t count = countRanks(function);
  if (count == 1)
    return value;
  auto devices = llvm::to_vector(llvm::seq<int64_t>(0, count));
  auto groups = DenseIntElementsAttr::get(
      RankedTensorType::get({1, count}, builder.getI64Type()), devices);
  auto reduce = stablehlo::AllReduceOp::create(
      builder, loc, value.getType(), value, groups,
      stablehlo::ChannelHandleAttr::get(builder.getContext(), /*handle=*/1,
                                        /*type=*/1),
      /*use_global_device_ids=*/true);
  stablehlo::buildReducer<stablehlo::MaxOp>(
      builder, loc, reduce.getComputation(), getElementTypeOrSelf(value));
  return reduce->getResult(0);
}
