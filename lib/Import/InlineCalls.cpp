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
#include "TypeLimits.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Quant/IR/QuantTypes.h"
#include "mlir/IR/IRMapping.h"

namespace scalify {
#define GEN_PASS_DEF_INLINECALLSPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;

/// Calls within one another: each is a level of every inlined op's location,
/// through which MLIR recurses.
static constexpr int64_t kMaxCallDepth = 512;

/// Hides functions that others use, if one public function is left: `@main`, or
/// a test or a step by its own name, which becomes `@main`.
static void nameMain(ModuleOp module, SymbolTable &symbols) {
  // All uses at once: looking for those of one function walks the module.
  std::optional<SymbolTable::UseRange> uses =
      SymbolTable::getSymbolUses(&module.getBodyRegion());
  if (!uses)
    return;
  llvm::DenseSet<StringAttr> names;
  for (SymbolTable::SymbolUse use : *uses)
    names.insert(use.getSymbolRef().getRootReference());
  SmallVector<func::FuncOp> roots, used;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic())
      (names.contains(function.getSymNameAttr()) ? used : roots)
          .push_back(function);
  if (roots.size() != 1)
    return;
  for (func::FuncOp function : used)
    function.setPrivate();
  if (!symbols.lookup("main"))
    (void)symbols.rename(roots[0], "main");
}

/// No target computes quantized numbers, and most ops do not expect them. No
/// pass expects tensors whose elements 63 bits cannot count, nor so many
/// dimensions that loops over them overflow the stack.
static LogicalResult checkType(Operation *op, Type type) {
  if (isa<quant::QuantizedType>(getElementTypeOrSelf(type)))
    return op->emitOpError("has the quantized type ")
           << type
           << ", which no target computes; pass integers, and write their "
              "conversion with other ops";
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && !scalify::import::isCountable(tensor.getShape()))
    return op->emitOpError("has the type ")
           << type << scalify::import::kUncountable;
  if (tensor && tensor.getRank() > scalify::import::kMostDims)
    return op->emitOpError("has a type of ")
           << tensor.getRank() << " dimensions, of which there may be "
           << scalify::import::kMostDims << "; reshape it to fewer";
  return success();
}

/// A plan's attributes are a later stage's, which takes for granted what it
/// wrote.
static LogicalResult checkHasNoPlan(ModuleOp module) {
  for (NamedAttribute attr : module->getDiscardableAttrs())
    if (attr.getName().strref().starts_with("plan."))
      return module.emitError("a program has no '")
             << attr.getName().getValue() << "', which is of a plan";
  return success();
}

static LogicalResult checkTypes(ModuleOp module) {
  auto check = [](Operation *op, TypeRange types) {
    return llvm::all_of(
        types, [&](Type type) { return succeeded(checkType(op, type)); });
  };
  WalkResult found = module.walk([&](Operation *op) {
    if (!check(op, op->getResultTypes()))
      return WalkResult::interrupt();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (!check(op, block.getArgumentTypes()))
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(found.wasInterrupted());
}

/// Passes take the operands of a function's last op for its results. A body of
/// a reduction may end as its region does.
static LogicalResult checkEnd(func::FuncOp function) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return success();
  Operation *end = function.getBody().front().getTerminator();
  bool isRegionEnd =
      isa<scalify::stablehlo::ReturnOp>(end) && function.isPrivate() &&
      end->getOperandTypes() == TypeRange(function.getResultTypes());
  if (isa<func::ReturnOp>(end) || isRegionEnd)
    return success();
  return end->emitOpError("ends '@")
         << function.getName() << "', which must return its results";
}

/// The functions that windows of dynamic shape reduce by, which become regions
/// once shapes are known.
static llvm::DenseSet<StringAttr> findWindowBodies(ModuleOp module) {
  llvm::DenseSet<StringAttr> names;
  module.walk([&](scalify::stablehlo::CustomCallOp call) {
    if (call.getCallTargetName() != "stablehlo.dynamic_reduce_window" ||
        !call.getCalledComputations())
      return;
    for (auto name :
         call.getCalledComputations().getAsRange<FlatSymbolRefAttr>())
      names.insert(name.getAttr());
  });
  return names;
}

namespace {
/// Counts what functions become once their calls are inlined. Calls that double
/// are a program of 2^40 ops in forty functions.
class Expansion {
public:
  Expansion(SymbolTable &symbols, int64_t maxOps)
      : symbols(symbols), maxOps(maxOps) {}

  /// Emits an error if the function would be too large, or its calls too deep.
  LogicalResult visit(func::FuncOp function);

private:
  struct Counts {
    bool isOpen = true;
    int64_t ops = 0, depth = 0;
  };

  /// Adds what the call becomes. Calls that cannot be inlined have errors of
  /// their own.
  LogicalResult add(Operation *call, StringRef name, Counts &caller);

  SymbolTable &symbols;
  int64_t maxOps;
  llvm::DenseMap<Operation *, Counts> functions;
  int64_t numOpen = 0;
};
} // namespace

static LogicalResult checkDepth(Operation *call, int64_t depth) {
  if (depth <= kMaxCallDepth)
    return success();
  return call->emitOpError("cannot be inlined: more than ")
         << kMaxCallDepth
         << " calls are within one another; write them as a loop";
}

LogicalResult Expansion::visit(func::FuncOp function) {
  if (!functions.try_emplace(function).second)
    return success();
  Counts own;
  SmallVector<std::pair<Operation *, StringRef>> calls;
  function.walk([&](Operation *op) {
    ++own.ops;
    if (auto call = dyn_cast<func::CallOp>(op))
      calls.push_back({op, call.getCallee()});
    else if (auto composite = dyn_cast<scalify::stablehlo::CompositeOp>(op))
      calls.push_back({op, composite.getDecomposition()});
  });
  ++numOpen;
  for (auto [call, name] : calls)
    if (failed(add(call, name, own)))
      return failure();
  --numOpen;
  own.isOpen = false;
  functions[function] = own;
  return success();
}

LogicalResult Expansion::add(Operation *call, StringRef name, Counts &caller) {
  auto callee = symbols.lookup<func::FuncOp>(name);
  if (!callee || callee.isExternal())
    return success();
  if (!functions.contains(callee) &&
      (failed(checkDepth(call, numOpen)) || failed(visit(callee))))
    return failure();
  const Counts inner = functions.lookup(callee);
  if (inner.isOpen)
    return success();
  caller.ops += inner.ops;
  caller.depth = std::max(caller.depth, inner.depth + 1);
  if (caller.ops > maxOps)
    return call->emitOpError("cannot be inlined: its function would have ")
           << caller.ops << " ops or more, and there may be " << maxOps
           << "; write repeated calls as a loop, or raise 'max-ops' of "
              "--scalify-inline-calls";
  return checkDepth(call, caller.depth);
}

namespace {
struct InlineCalls : scalify::impl::InlineCallsPassBase<InlineCalls> {
  using InlineCallsPassBase::InlineCallsPassBase;

  /// Composites of `scalify.lax` become ops of the scalify dialect.
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<scalify::ScalifyDialect>();
  }

  void runOnOperation() override {
    if (failed(checkHasNoPlan(getOperation())) ||
        failed(checkTypes(getOperation())))
      return signalPassFailure();
    SymbolTable symbols(getOperation());
    nameMain(getOperation(), symbols);
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(checkEnd(function)))
        return signalPassFailure();
    Expansion expansion(symbols, maxOps);
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.isPublic() && failed(expansion.visit(function)))
        return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.isPublic() && failed(inlineInto(function, symbols)))
        return signalPassFailure();
    llvm::DenseSet<StringAttr> kept = findWindowBodies(getOperation());
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (function.isPrivate() && !kept.contains(function.getSymNameAttr()))
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

/// Names arguments of the caller as the callee does: jax.export passes those of
/// main, which have no names, to the function that it wraps.
static void nameArguments(func::CallOp call, func::FuncOp callee) {
  for (auto [operand, argument] :
       llvm::zip(call.getOperands(), callee.getArguments()))
    if (auto passed = dyn_cast<BlockArgument>(operand))
      if (isa<UnknownLoc>(passed.getLoc()) && isa<NameLoc>(argument.getLoc()) &&
          isa<func::FuncOp>(passed.getOwner()->getParentOp()))
        passed.setLoc(argument.getLoc());
}

/// Replaces `call` by the body of `callee`, which is one block.
static void inlineBody(func::CallOp call, func::FuncOp callee) {
  OpBuilder builder(call);
  IRMapping mapping;
  mapping.map(callee.getArguments(), call.getOperands());
  nameArguments(call, callee);
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
