//===- InlineCalls.cpp - Inline all calls ---------------------------------===//
//
// JAX makes a private function of every inner jit. All calls are inlined,
// callees first, so that each body is cloned in its final form. MLIR's inliner
// is not used: it needs an interface of each dialect, works on a call graph
// with a cost budget, and leaves calls inside regions of unknown ops. Its
// inlining of one call splits the caller's block and merges it again, so that a
// step of n calls costs n^2.
//
//===----------------------------------------------------------------------===//

#include "Composites.h"
#include "ExpandTopK.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Import/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/StringSet.h"

namespace scalify {
#define GEN_PASS_DEF_INLINECALLSPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;

/// Names the function that no other calls `@main`, and hides the rest, if the
/// module has no `@main` and one such function: a test, or a step by its name.
static void nameMain(ModuleOp module, SymbolTable &symbols) {
  if (symbols.lookup("main"))
    return;
  llvm::StringSet<> called;
  module.walk([&](func::CallOp call) { called.insert(call.getCallee()); });
  SmallVector<func::FuncOp> roots;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !called.contains(function.getSymName()))
      roots.push_back(function);
  if (roots.size() != 1)
    return;
  for (auto function : module.getOps<func::FuncOp>())
    if (function != roots[0])
      function.setPrivate();
  (void)symbols.rename(roots[0], "main");
}

namespace {
class InlineCalls : public scalify::impl::InlineCallsPassBase<InlineCalls> {
public:
  /// Composites of `scalify.lax` become ops of the scalify dialect.
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<scalify::ScalifyDialect>();
  }

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    nameMain(getOperation(), symbols);
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

  LogicalResult inlineInto(func::FuncOp function, SymbolTable &symbols);
  LogicalResult inlineCallTo(func::CallOp call, SymbolTable &symbols);

  llvm::DenseMap<Operation *, State> states;
};
} // namespace

namespace {
/// Adds a call site as the outermost one of locations.
class CallSites {
public:
  explicit CallSites(Location call) : call(call) {}

  Location add(Location inner) {
    if (auto known = sites.find(inner); known != sites.end())
      return known->second;
    auto nested = dyn_cast<CallSiteLoc>(inner);
    Location site =
        nested ? CallSiteLoc::get(nested.getCallee(), add(nested.getCaller()))
               : CallSiteLoc::get(inner, call);
    sites.try_emplace(inner, site);
    return site;
  }

private:
  Location call;
  llvm::DenseMap<Location, Location> sites;
};
} // namespace

/// Replaces `call` by the body of `callee`, which is one block.
static void inlineBody(func::CallOp call, func::FuncOp callee) {
  OpBuilder builder(call);
  IRMapping mapping;
  mapping.map(callee.getArguments(), call.getOperands());
  CallSites sites(call.getLoc());
  auto setSite = [&](Operation *op) { op->setLoc(sites.add(op->getLoc())); };
  Block &body = callee.getBody().front();
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping)->walk(setSite);
  for (auto [result, value] :
       llvm::zip_equal(call.getResults(), body.getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookupOrDefault(value));
  call.erase();
}

LogicalResult InlineCalls::inlineInto(func::FuncOp function,
                                      SymbolTable &symbols) {
  states[function] = State::Open;
  if (failed(scalify::import::replaceComposites(function)) ||
      failed(scalify::import::expandApproxTopK(function, symbols)))
    return failure();
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

  if (call.getCalleeType() != callee.getFunctionType())
    return call.emitOpError("cannot be inlined: its types differ from those "
                            "of '@")
           << call.getCallee() << "'";
  inlineBody(call, callee);
  ++numInlined;
  return success();
}
