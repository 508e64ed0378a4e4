//===- InlineCalls.cpp - Inlines every call -------------------------------===//
//
// JAX makes a private function of every inner jit. All of them are inlined,
// callees first, so that each body is copied in its final form. MLIR's inliner
// pass is not used as it is: it asks each dialect for permission, works on a
// call graph with a cost budget, and leaves calls inside regions whose op it
// does not know. Its inlining of one call is.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Inliner.h"
#include "mlir/Transforms/InliningUtils.h"

namespace scalify {
#define GEN_PASS_DEF_INLINECALLSPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;

namespace {

/// Inlines whatever it is asked to: legality is settled by the pass.
struct AlwaysInline : InlinerInterface {
  using InlinerInterface::InlinerInterface;

  bool isLegalToInline(Operation *, Operation *, bool) const override {
    return true;
  }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const override {
    return true;
  }
  bool isLegalToInline(Operation *, Region *, bool,
                       IRMapping &) const override {
    return true;
  }
  bool shouldAnalyzeRecursively(Operation *) const override { return false; }
  void handleTerminator(Operation *op, ValueRange results) const override {
    for (auto [result, value] : llvm::zip_equal(results, op->getOperands()))
      result.replaceAllUsesWith(value);
  }
};

class InlineCalls : public scalify::impl::InlineCallsPassBase<InlineCalls> {
public:
  void runOnOperation() override {
    replaceComposites();
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.isPublic() && failed(inlineInto(function, symbols)))
        return signalPassFailure();
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (function.isPrivate())
        function.erase();
  }

private:
  enum class State { Open, Done };

  void replaceComposites();
  LogicalResult inlineInto(func::FuncOp function, SymbolTable &symbols);
  LogicalResult inlineCallTo(func::CallOp call, SymbolTable &symbols);

  llvm::DenseMap<Operation *, State> states;
};

} // namespace

/// A composite is what its decomposition computes: a call of it.
void InlineCalls::replaceComposites() {
  getOperation().walk([](scalify::stablehlo::CompositeOp op) {
    OpBuilder builder(op);
    auto call =
        func::CallOp::create(builder, op.getLoc(), op.getDecomposition(),
                             op->getResultTypes(), op->getOperands());
    op.replaceAllUsesWith(call);
    op.erase();
  });
}

LogicalResult InlineCalls::inlineInto(func::FuncOp function,
                                      SymbolTable &symbols) {
  states[function] = State::Open;
  SmallVector<func::CallOp> calls;
  function.walk([&](func::CallOp call) { calls.push_back(call); });
  for (func::CallOp call : calls)
    if (failed(inlineCallTo(call, symbols)))
      return failure();
  states[function] = State::Done;
  return success();
}

LogicalResult InlineCalls::inlineCallTo(func::CallOp call,
                                        SymbolTable &symbols) {
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  if (!callee)
    return call.emitOpError("calls '@")
           << call.getCallee() << "', which the module does not define";
  if (callee.isExternal() || !callee.getBody().hasOneBlock())
    return call.emitOpError("cannot be inlined: '@")
           << call.getCallee() << "' does not have a body of one block";
  auto known = states.find(callee);
  if (known != states.end() && known->second == State::Open)
    return call.emitOpError("calls '@")
           << call.getCallee()
           << "' recursively; write the recursion as stablehlo.while";
  if (known == states.end() && failed(inlineInto(callee, symbols)))
    return failure();

  AlwaysInline inliner(&getContext());
  if (failed(mlir::inlineCall(inliner, InlinerConfig().getCloneCallback(),
                              cast<CallOpInterface>(call.getOperation()),
                              cast<CallableOpInterface>(callee.getOperation()),
                              &callee.getBody())))
    return call.emitOpError("cannot be inlined: its types differ from those "
                            "of '@")
           << call.getCallee() << "'";
  call.erase();
  ++numInlined;
  return success();
}
