//===- RefineShapes.cpp - Static shapes from those of arguments -----------===//
//
// A program of dynamic shapes computes shapes from the sizes of its arguments
// (jax.export with symbolic dimensions does). With the arguments' shapes given
// these are constants, and so are all shapes that do not depend on data: one
// walk in the program's order sets types, and folds what computes with sizes.
//
//===----------------------------------------------------------------------===//

#include "../ArgumentInfo.h"
#include "../TypeLimits.h"
#include "InferShapes.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Folds.h"
#include "scalify/Import/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include "llvm/ADT/StringExtras.h"

namespace scalify {
#define GEN_PASS_DEF_REFINESHAPESPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

static constexpr StringLiteral kAssertion = "shape_assertion";
static constexpr StringLiteral kWindowCall = "stablehlo.dynamic_reduce_window";

// Shapes and the sizes that they are made of have few elements.
static constexpr int64_t kMostSizes = 1024;

static bool isDynamic(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped && !shaped.hasStaticShape();
}

//===----------------------------------------------------------------------===//
// Shapes of the arguments
//===----------------------------------------------------------------------===//

static std::string listDynamic(func::FuncOp main) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (BlockArgument argument : main.getArguments())
    if (isDynamic(argument.getType()))
      os << (text.empty() ? "" : ", ") << "'"
         << import::getArgumentName(main, argument.getArgNumber()) << "' ("
         << argument.getType() << ")";
  return text;
}

static FailureOr<BlockArgument> findArgument(func::FuncOp main,
                                             StringRef name) {
  for (BlockArgument argument : main.getArguments())
    if (import::getArgumentName(main, argument.getArgNumber()) == name)
      return argument;
  unsigned number;
  if (!name.getAsInteger(10, number) && number < main.getNumArguments())
    return main.getArgument(number);
  return main.emitError("shape of an unknown argument '")
         << name << "'; those of dynamic shape are " << listDynamic(main);
}

/// Applies `name=4x8`.
static LogicalResult applyShape(func::FuncOp main, StringRef entry) {
  auto [name, sizes] = entry.rsplit('=');
  FailureOr<BlockArgument> argument = findArgument(main, name);
  if (failed(argument))
    return failure();
  SmallVector<int64_t> shape;
  SmallVector<StringRef> parts;
  sizes.split(parts, 'x', -1, /*KeepEmpty=*/!sizes.empty());
  for (StringRef part : parts)
    if (part.getAsInteger(10, shape.emplace_back()) || shape.back() < 0)
      return main.emitError("shape '")
             << sizes << "' of argument '" << name
             << "' is not one of sizes, as in " << name << "=4x8";
  auto type = dyn_cast<RankedTensorType>(argument->getType());
  if (!type || failed(verifyCompatibleShape(type.getShape(), shape)))
    return main.emitError("shape '")
           << sizes << "' does not fit argument '" << name << "' of type "
           << argument->getType();
  auto made = RankedTensorType::get(shape, type.getElementType());
  if (!import::isCountable(shape))
    return main.emitError("argument '")
           << name << "' would have the type " << made << import::kUncountable;
  argument->setType(made);
  return success();
}

static LogicalResult applyShapes(func::FuncOp main,
                                 ArrayRef<std::string> entries) {
  for (StringRef entry : entries)
    if (failed(applyShape(main, entry)))
      return failure();
  if (std::string left = listDynamic(main); !left.empty())
    return main.emitError("arguments of dynamic shape need sizes: ")
           << left
           << "; give them by --arg-shapes=NAME=4x8 (arg_shapes of "
              "scalify.compile)";
  return success();
}

//===----------------------------------------------------------------------===//
// Calls of JAX's shape polymorphism
//===----------------------------------------------------------------------===//

/// Fills the places `{0}`, `{1}` of a message.
static std::string fill(StringRef message, ValueRange numbers) {
  std::string text = message.str();
  for (auto [index, value] : llvm::enumerate(numbers)) {
    auto number = import::getNumbers(value);
    std::string place = "{" + std::to_string(index) + "}";
    std::string size =
        number && number->size() == 1 ? std::to_string((*number)[0]) : "?";
    for (size_t at; (at = text.find(place)) != std::string::npos;)
      text.replace(at, place.size(), size);
  }
  return text;
}

/// A condition on sizes, which holds or is an error.
static LogicalResult checkAssertion(CustomCallOp call) {
  auto holds = call->getNumOperands() > 0
                   ? import::getConstant(call->getOperand(0))
                   : DenseElementsAttr();
  if (call->getNumResults() > 0)
    return call.emitOpError("of '") << kAssertion << "' has results";
  if (!holds || holds.getNumElements() != 1 ||
      !holds.getElementType().isInteger(1))
    return call.emitOpError("asserts what is not known of the shapes");
  auto message = call->getAttrOfType<StringAttr>("error_message");
  if (!holds.getValues<APInt>()[0].isOne())
    return call.emitOpError("does not hold: ")
           << (message ? fill(message, call->getOperands().drop_front())
                       : std::string("the shapes of arguments do not fit"));
  call.erase();
  return success();
}

/// Returns the static op of a window whose sizes are operands: sizes, strides,
/// dilations of the base and of the window, and padding.
static FailureOr<Operation *> makeReduceWindow(CustomCallOp call,
                                               SymbolTable &symbols) {
  unsigned count = call->getNumResults();
  ArrayAttr names = call.getCalledComputations();
  auto body = names && names.size() == 1
                  ? symbols.lookup<func::FuncOp>(
                        cast<FlatSymbolRefAttr>(names[0]).getValue())
                  : func::FuncOp();
  if (count == 0 || call->getNumOperands() != 2 * count + 5 || !body ||
      body.isExternal() || !body.getBody().hasOneBlock())
    return call.emitOpError("of '")
           << kWindowCall << "' needs values, as many initial values, five "
           << "operands of the window, and one computation";
  OpBuilder b(call);
  SmallVector<DenseI64ArrayAttr> window;
  for (Value operand : call->getOperands().take_back(5)) {
    auto numbers = import::getNumbers(operand);
    if (!numbers)
      return call.emitOpError("has a window that depends on data");
    window.push_back(b.getDenseI64ArrayAttr(*numbers));
  }
  auto rank = static_cast<int64_t>(window[0].size());
  if (window[4].size() != 2 * rank)
    return call.emitOpError("needs two paddings for each dimension");
  auto padding = DenseIntElementsAttr::get(
      RankedTensorType::get({rank, 2}, b.getI64Type()), window[4].asArrayRef());
  ValueRange operands = call->getOperands();
  auto reduce = ReduceWindowOp::create(
      b, call.getLoc(), call->getResultTypes(), operands.take_front(count),
      operands.slice(count, count), window[0], window[1], window[2], window[3],
      padding);
  IRMapping mapping;
  body.getBody().cloneInto(&reduce.getBody(), mapping);
  Operation *end = reduce.getBody().front().getTerminator();
  OpBuilder atEnd(end);
  if (isa<func::ReturnOp>(end)) {
    ReturnOp::create(atEnd, end->getLoc(), end->getOperands());
    end->erase();
  }
  call->replaceAllUsesWith(reduce->getResults());
  call.erase();
  if (failed(verify(reduce)))
    return failure();
  return reduce.getOperation();
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

namespace {
class Refiner {
public:
  explicit Refiner(ModuleOp module)
      : symbols(module), folds(import::getFolds(module.getContext(),
                                                {kMostSizes, /*zeros=*/true})),
        forms(getForms(module.getContext())),
        foreign(getForeign(module.getContext())) {}

  LogicalResult refine(Block &block);

private:
  static FrozenRewritePatternSet getForms(MLIRContext *context) {
    RewritePatternSet patterns(context);
    import::populateStaticForms(patterns);
    return std::move(patterns);
  }
  /// The canonical forms of ops that compute with sizes in other dialects.
  static FrozenRewritePatternSet getForeign(MLIRContext *context) {
    RewritePatternSet patterns(context);
    for (RegisteredOperationName name : context->getRegisteredOperations())
      if (isForeign(name))
        name.getCanonicalizationPatterns(patterns, context);
    return std::move(patterns);
  }
  static bool isForeign(OperationName name) {
    StringRef dialect = name.getDialectNamespace();
    return dialect == "shape" || dialect == "tensor" || dialect == "arith";
  }
  LogicalResult refine(Operation *op);
  LogicalResult refineLoop(WhileOp loop);
  LogicalResult refineBranches(Operation *op);
  FailureOr<Operation *> makeStatic(Operation *op);
  LogicalResult fold(Operation *op);

  SymbolTable symbols;
  FrozenRewritePatternSet folds, forms, foreign;
};

struct RefineShapes : scalify::impl::RefineShapesPassBase<RefineShapes> {
  using RefineShapesPassBase::RefineShapesPassBase;
  void runOnOperation() override;
};
} // namespace

static LogicalResult apply(Operation *op, const FrozenRewritePatternSet &set) {
  GreedyRewriteConfig config;
  config.setStrictness(GreedyRewriteStrictness::ExistingOps);
  return applyOpPatternsGreedily(op, set, config);
}

/// Replaces an op whose sizes are operands by the one whose sizes are
/// attributes, if they are constants.
FailureOr<Operation *> Refiner::makeStatic(Operation *op) {
  if (auto call = dyn_cast<CustomCallOp>(op);
      call && call.getCallTargetName() == kWindowCall)
    return makeReduceWindow(call, symbols);
  if (!isa<GetDimensionSizeOp, DynamicPadOp, RealDynamicSliceOp,
           DynamicGatherOp, DynamicConvOp>(op))
    return op;
  Operation *before = op->getPrevNode();
  Block *block = op->getBlock();
  if (failed(apply(op, forms)))
    return failure();
  Operation *made = before ? before->getNextNode() : &block->front();
  // Inference takes for granted what the static op's verifier checks.
  if (failed(verify(made)))
    return failure();
  return made;
}

/// Folds an op on sizes: its results are few integers, its operands constants.
LogicalResult Refiner::fold(Operation *op) {
  auto isSmall = [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return getElementTypeOrSelf(type).isIntOrIndex() &&
           (!shaped ||
            (shaped.hasStaticShape() && shaped.getNumElements() <= kMostSizes));
  };
  // These fold on operands that are no constants.
  bool readsShape = op->getName().getStringRef() == "shape.shape_of" ||
                    op->getName().getStringRef() == "tensor.dim";
  auto isConstant = [](Value value) {
    return matchPattern(value, m_Constant());
  };
  if (op->getNumResults() == 0 || op->getNumRegions() > 0 ||
      op->hasTrait<mlir::OpTrait::ConstantLike>() ||
      !llvm::all_of(op->getResultTypes(), isSmall) ||
      (!readsShape && !(op->getNumOperands() > 0 &&
                        llvm::all_of(op->getOperands(), isConstant))))
    return success();
  return apply(op, isForeign(op->getName()) ? foreign : folds);
}

LogicalResult Refiner::refineLoop(WhileOp loop) {
  for (auto [i, operand] : llvm::enumerate(loop->getOperands())) {
    auto type = operand.getType();
    loop.getCond().getArgument(i).setType(type);
    loop.getBody().getArgument(i).setType(type);
    loop->getResult(i).setType(type);
  }
  for (Region &region : loop->getRegions())
    if (failed(refine(region.front())))
      return failure();
  Operation *end = loop.getBody().front().getTerminator();
  for (auto [i, next] : llvm::enumerate(end->getOperands()))
    if (next.getType() != loop->getOperand(i).getType())
      return loop.emitOpError("changes the type of carry ")
             << i << " from " << loop->getOperand(i).getType() << " to "
             << next.getType();
  return success();
}

LogicalResult Refiner::refineBranches(Operation *op) {
  for (Region &region : op->getRegions()) {
    if (failed(refine(region.front())))
      return failure();
    Operation *end = region.front().getTerminator();
    for (auto [result, value] :
         llvm::zip(op->getResults(), end->getOperands())) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (type && type.hasStaticShape() &&
          failed(import::setShape(op, result, type.getShape())))
        return failure();
    }
  }
  return success();
}

LogicalResult Refiner::refine(Operation *op) {
  if (auto call = dyn_cast<CustomCallOp>(op);
      call && call.getCallTargetName() == kAssertion)
    return checkAssertion(call);
  FailureOr<Operation *> made = makeStatic(op);
  if (failed(made))
    return failure();
  op = *made;
  auto loop = dyn_cast<WhileOp>(op);
  if (failed(loop                    ? refineLoop(loop)
             : isa<IfOp, CaseOp>(op) ? refineBranches(op)
                                     : import::inferShapes(op)))
    return failure();
  for (Value result : op->getResults())
    if (isDynamic(result.getType()) && !isOpTriviallyDead(op))
      return op->emitOpError("has a result of type ")
             << result.getType()
             << ", whose shape does not follow from those of the arguments";
  return fold(op);
}

LogicalResult Refiner::refine(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (failed(refine(&op)))
      return failure();
  return success();
}

/// True if any type is dynamic, or a shape is asserted.
static bool needsShapes(func::FuncOp main) {
  if (llvm::any_of(main.getArgumentTypes(), isDynamic))
    return true;
  WalkResult found = main.walk([](Operation *op) {
    auto call = dyn_cast<CustomCallOp>(op);
    return llvm::any_of(op->getResultTypes(), isDynamic) ||
                   (call && (call.getCallTargetName() == kAssertion ||
                             call.getCallTargetName() == kWindowCall))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return found.wasInterrupted();
}

void RefineShapes::runOnOperation() {
  auto main = getOperation().lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal() || !main.getBody().hasOneBlock() ||
      (argShapes.empty() && !needsShapes(main)))
    return;
  Block &body = main.getBody().front();
  if (failed(applyShapes(main, argShapes)) ||
      failed(Refiner(getOperation()).refine(body)))
    return signalPassFailure();
  stablehlo::updateFunctionType(main);
  for (auto function :
       llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
    if (function.isPrivate())
      function.erase();
}
