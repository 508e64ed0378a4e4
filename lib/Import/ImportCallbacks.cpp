//===- ImportCallbacks.cpp - Replace tokens of callbacks ------------------===//
//
// JAX orders callbacks by tokens, which enter and leave `@main` and pass
// through its loops. Later stages accept tensors only, so a token becomes a
// scalar. Callbacks return their first operand unchanged, so that SSA values
// keep the order.
//
//===----------------------------------------------------------------------===//

#include "ArgumentInfo.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Passes.h"

#include "mlir/IR/Builders.h"

namespace scalify {
#define GEN_PASS_DEF_IMPORTCALLBACKSPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static bool isToken(Type type) { return isa<stablehlo::TokenType>(type); }

/// Removes tokens from the signature. They order steps among each other, which
/// is left to the caller.
static void dropFromSignature(func::FuncOp main) {
  Operation *ret = main.getBody().front().getTerminator();
  llvm::BitVector arguments(main.getNumArguments());
  llvm::BitVector results(main.getNumResults());
  SmallVector<int64_t> placeOf;
  for (auto [index, type] : llvm::enumerate(main.getResultTypes())) {
    placeOf.push_back(index - results.count());
    if (isToken(type))
      results.set(index);
  }
  OpBuilder b = OpBuilder::atBlockBegin(&main.getBody().front());
  for (BlockArgument argument : main.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (isToken(argument.getType())) {
      arguments.set(index);
      argument.replaceAllUsesWith(
          stablehlo::CreateTokenOp::create(b, main.getLoc()));
    } else if (auto alias =
                   main.getArgAttrOfType<IntegerAttr>(index, kAliasAttr);
               alias && alias.getInt() >= 0 &&
               alias.getInt() < static_cast<int64_t>(placeOf.size())) {
      main.setArgAttr(
          index, kAliasAttr,
          IntegerAttr::get(alias.getType(), placeOf[alias.getInt()]));
    }
  }
  ret->eraseOperands(results);
  (void)main.eraseResults(results);
  (void)main.eraseArguments(arguments);
}

namespace {

struct ImportCallbacks
    : scalify::impl::ImportCallbacksPassBase<ImportCallbacks> {
  void runOnOperation() override;
};

} // namespace

/// Scalars do not order these, which talk to a host or to another device.
static LogicalResult checkTransfers(ModuleOp module) {
  WalkResult result = module.walk([](Operation *op) {
    if (!isa<stablehlo::InfeedOp, stablehlo::OutfeedOp, stablehlo::SendOp,
             stablehlo::RecvOp>(op))
      return WalkResult::advance();
    op->emitOpError("transfers data while the step runs, which no target does; "
                    "use arguments, results or callbacks");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Replaces create_token by a constant, and after_all by a sum of scalars.
static void replaceTokenOp(Operation *op) {
  OpBuilder b(op);
  Value scalar;
  if (isa<stablehlo::AfterAllOp>(op))
    for (Value input : op->getOperands())
      scalar = scalar ? stablehlo::AddOp::create(b, op->getLoc(), scalar, input)
                            .getResult()
                      : input;
  if (!scalar)
    scalar = stablehlo::buildIndex(b, op->getLoc(), 0);
  op->getResult(0).replaceAllUsesWith(scalar);
  op->erase();
}

void ImportCallbacks::runOnOperation() {
  if (failed(checkTransfers(getOperation())))
    return signalPassFailure();
  for (auto function : getOperation().getOps<func::FuncOp>())
    if (!function.isExternal() && function.getBody().hasOneBlock() &&
        (llvm::any_of(function.getArgumentTypes(), isToken) ||
         llvm::any_of(function.getResultTypes(), isToken)))
      dropFromSignature(function);
  SmallVector<Operation *> makers;
  auto scalar = RankedTensorType::get({}, IntegerType::get(&getContext(), 32));
  getOperation().walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (isToken(result.getType()))
        result.setType(scalar);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          if (isToken(argument.getType()))
            argument.setType(scalar);
    if (isa<stablehlo::AfterAllOp, stablehlo::CreateTokenOp>(op))
      makers.push_back(op);
  });
  for (Operation *op : makers)
    replaceTokenOp(op);
}
