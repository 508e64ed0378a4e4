//===- Localize.cpp - From whole values to one device's shards ------------===//

#include "Layouts.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Distribution/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_LOCALIZEPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Inlines the body of a manual computation, since all values around it have
/// local types now.
static void inlineManual(sdy::ManualComputationOp op) {
  Block &body = op.getBody().front();
  for (auto [argument, operand] :
       llvm::zip(body.getArguments(), op.getTensors()))
    argument.replaceAllUsesWith(operand);
  Operation *end = body.getTerminator();
  op->replaceAllUsesWith(end->getOperands());
  end->erase();
  op->getBlock()->getOperations().splice(op->getIterator(),
                                         body.getOperations());
  op->erase();
}

ArrayAttr scalify::getParts(sdy::TensorShardingAttr sharding,
                            const DeviceMesh &mesh) {
  SmallVector<Attribute> dims;
  for (sdy::DimensionShardingAttr dim : sharding.getDimShardings()) {
    SmallVector<int64_t> numbers;
    for (auto [stride, size] : mesh.getSplit(dim.getAxes()))
      numbers.append({stride, size});
    dims.push_back(DenseI64ArrayAttr::get(sharding.getContext(), numbers));
  }
  return ArrayAttr::get(sharding.getContext(), dims);
}

/// Sets the whole types and shards of arguments and results, and updates the
/// function type.
static void retype(func::FuncOp function, const Layouts &layouts) {
  FunctionType whole = function.getFunctionType();
  Operation *end = function.getBody().front().getTerminator();
  SmallVector<Type> results(end->getOperandTypes());
  for (unsigned i = 0; i < whole.getNumInputs(); ++i)
    if (auto sharding = function.getArgAttrOfType<sdy::TensorShardingAttr>(
            i, kShardingAttr)) {
      function.setArgAttr(i, kWholeTypeAttr, TypeAttr::get(whole.getInput(i)));
      function.setArgAttr(i, kPartsAttr, getParts(sharding, layouts.getMesh()));
    }
  // checkResults made sure that a result without a sharding is replicated.
  for (unsigned i = 0; i < whole.getNumResults(); ++i) {
    auto type = cast<RankedTensorType>(whole.getResult(i));
    auto sharding =
        function.getResultAttrOfType<sdy::TensorShardingAttr>(i, kShardingAttr);
    SmallVector<Attribute> none(
        type.getRank(), DenseI64ArrayAttr::get(function.getContext(), {}));
    function.setResultAttr(i, kWholeTypeAttr, TypeAttr::get(type));
    function.setResultAttr(i, kPartsAttr,
                           sharding ? getParts(sharding, layouts.getMesh())
                                    : ArrayAttr::get(type.getContext(), none));
  }
  function.setFunctionType(FunctionType::get(
      function.getContext(), function.getBody().front().getArgumentTypes(),
      results));
}

/// Checks that the returned values have the shardings of the results.
static LogicalResult checkResults(func::FuncOp function,
                                  const Layouts &layouts) {
  Operation *end = function.getBody().front().getTerminator();
  for (auto [index, value] : llvm::enumerate(end->getOperands())) {
    auto sharding = function.getResultAttrOfType<sdy::TensorShardingAttr>(
        index, kShardingAttr);
    for (int64_t dim = 0; dim < layouts.getWhole(value).getRank(); ++dim) {
      Axes said = sharding ? sharding.getDimShardings()[dim].getAxes() : Axes();
      if (layouts.getMesh().getSplit(said) !=
          layouts.getMesh().getSplit(layouts.getAxes(value, dim)))
        return end->emitOpError() << "returns result " << index
                                  << " sharded differently than declared";
    }
  }
  return success();
}

/// Returns the largest channel handle of the program's own collectives.
static int64_t countChannels(ArrayRef<Operation *> ops) {
  int64_t largest = 0;
  for (Operation *op : ops)
    if (auto channel =
            op->getAttrOfType<stablehlo::ChannelHandleAttr>("channel_handle"))
      largest = std::max(largest, channel.getHandle());
  return largest;
}

/// Fails if an op reads a partial result, which only a collective may.
static LogicalResult requireComplete(Operation *op, const Layouts &layouts) {
  for (Value operand : op->getOperands())
    if (!layouts.getPartial(operand).empty())
      return op->emitOpError()
             << "reads " << layouts.getWhole(operand)
             << ", which is still a partial result on each device; reduce it "
                "with a collective first";
  return success();
}

static LogicalResult localize(Operation *op, Layouts &layouts,
                              int64_t &numChannels) {
  if (isCollective(op))
    return localizeCollective(op, layouts, numChannels);
  if (failed(requireComplete(op, layouts)))
    return failure();
  return localizeOp(op, layouts);
}

static LogicalResult localize(func::FuncOp function) {
  FailureOr<Layouts> layouts = Layouts::read(function);
  if (failed(layouts) || failed(checkResults(function, *layouts)))
    return failure();
  layouts->setLocalTypes();
  SmallVector<Operation *> ops;
  SmallVector<sdy::ManualComputationOp> manual;
  function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    ops.push_back(op);
    if (auto found = dyn_cast<sdy::ManualComputationOp>(op))
      manual.push_back(found);
  });
  int64_t numChannels = countChannels(ops);
  for (Operation *op : ops) {
    op->removeDiscardableAttr(kShardingAttr);
    if (failed(localize(op, *layouts, numChannels)))
      return failure();
  }
  for (sdy::ManualComputationOp op : llvm::reverse(manual))
    inlineManual(op);
  retype(function, *layouts);
  return success();
}

namespace {

struct Localize : scalify::impl::LocalizePassBase<Localize> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(localize(function)))
        return signalPassFailure();
  }
};

} // namespace
