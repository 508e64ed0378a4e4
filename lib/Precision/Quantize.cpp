//===- Quantize.cpp - Cast the operands of dots to FP8 --------------------===//

#include "scalify/Precision/Passes.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/MeasuredScale.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_QUANTIZEDOTS
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::DotGeneralOp;

namespace {

/// FP8 data and its scale.
struct Cast {
  Value data;
  Value scale;
};

/// Casts values once and replays the moves between a value and its dots on the
/// FP8 data.
class Caster {
public:
  Caster(RecipeAttr recipe, Block &block)
      : recipe(recipe), block(block), builder(recipe.getContext()) {}

  /// The dequantized operand, or null with a reason.
  Value castOperand(SetScaleOp hint);
  unsigned getNumCasts() const { return numCasts; }

private:
  Cast castRoot(Value root, SetScaleOp hint);
  Value move(Value operand, Value root, Value data);
  Value makeScale(Value root, SetScaleOp hint, FloatType format);
  Value makeConstant(float value);

  RecipeAttr recipe;
  Block &block;
  OpBuilder builder;
  DenseMap<Value, Cast> casts;
  DenseMap<std::pair<Value, Value>, Value> moved;
  DenseMap<std::pair<Value, Value>, Value> wide;
  unsigned numCasts = 0;
};

} // namespace

Value Caster::makeConstant(float value) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&block);
  auto type = RankedTensorType::get({}, builder.getF32Type());
  return stablehlo::ConstantOp::create(
      builder, builder.getUnknownLoc(),
      cast<ElementsAttr>(DenseElementsAttr::get(type, value)));
}

Value Caster::makeScale(Value root, SetScaleOp hint, FloatType format) {
  switch (recipe.getScales()) {
  case ScaleSource::Propagated:
    return hint.getScale();
  case ScaleSource::Current:
    return buildAmaxScale(builder, root.getLoc(), root, format);
  case ScaleSource::Unit:
  case ScaleSource::None:
    break;
  }
  int exponent =
      isGradient(root) ? static_cast<int>(recipe.getGradientExponent()) : 0;
  return makeConstant(std::ldexp(1.0f, exponent));
}

static std::string describe(Value root, unsigned number) {
  std::string text = "c" + std::to_string(number) + ": ";
  if (auto arg = dyn_cast<BlockArgument>(root)) {
    auto func = cast<FunctionOpInterface>(arg.getOwner()->getParentOp());
    auto name =
        func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), kNameAttr);
    return text +
           (name ? name.str() : "arg" + std::to_string(arg.getArgNumber()));
  }
  return text + root.getDefiningOp()->getName().stripDialect().str();
}

Cast Caster::castRoot(Value root, SetScaleOp hint) {
  Cast &cast = casts[root];
  if (cast.data)
    return cast;
  builder.setInsertionPointAfterValue(root);
  auto format = mlir::cast<FloatType>(isGradient(root) ? recipe.getGradient()
                                                       : recipe.getForward());
  Value scale = makeScale(root, hint, format);
  // A scale that is made before the value, as constants are, needs no move;
  // one made after it sets the place of the cast.
  if (Operation *def = scale.getDefiningOp())
    if (def->getBlock() == root.getParentBlock() &&
        !def->isBeforeInBlock(&*builder.getInsertionPoint()))
      builder.setInsertionPointAfter(def);
  auto type = mlir::cast<RankedTensorType>(root.getType()).clone(format);
  auto quantize =
      QuantizeOp::create(builder, root.getLoc(), type, root, scale,
                         builder.getStringAttr(describe(root, numCasts++)));
  quantize->setAttr(kRuleAttr, hint.getRuleAttr()
                                   ? hint.getRuleAttr()
                                   : builder.getStringAttr("argument"));
  if (Operation *def = root.getDefiningOp())
    if (Attribute phase = def->getAttr(kPhaseAttr))
      quantize->setAttr(kPhaseAttr, phase);
  if (!quantize->hasAttr(kPhaseAttr))
    quantize->setAttr(kPhaseAttr, builder.getStringAttr("forward"));
  cast = {quantize, scale};
  return cast;
}

/// Replays the moves from `root` to `operand` on `data`.
Value Caster::move(Value operand, Value root, Value data) {
  if (operand == root)
    return data;
  Operation *op = operand.getDefiningOp();
  if (auto hint = dyn_cast<SetScaleOp>(op))
    return move(hint.getValue(), root, data);
  if (isa<stablehlo::OptimizationBarrierOp>(op))
    return move(op->getOperand(mlir::cast<OpResult>(operand).getResultNumber()),
                root, data);
  Value &entry = moved[{operand, data}];
  if (entry)
    return entry;
  Value source = move(op->getOperand(0), root, data);
  builder.setInsertionPointAfter(op);
  if (Operation *def = source.getDefiningOp())
    if (def->getBlock() == op->getBlock() && op->isBeforeInBlock(def))
      builder.setInsertionPointAfter(def);
  IRMapping mapping;
  mapping.map(op->getOperand(0), source);
  Operation *clone = builder.clone(*op, mapping);
  auto element = mlir::cast<ShapedType>(data.getType()).getElementType();
  Value result = clone->getResult(0);
  result.setType(mlir::cast<RankedTensorType>(result.getType()).clone(element));
  clone->removeAttr(kScaleAttr);
  clone->removeAttr(kRuleAttr);
  // The recursion may have moved the entry.
  return moved[{operand, data}] = result;
}

Value Caster::castOperand(SetScaleOp hint) {
  Value root = getDotOperandRoot(hint);
  Cast cast = castRoot(root, hint);
  Value data = move(hint.getValue(), root, cast.data);
  Value &entry = wide[{data, cast.scale}];
  if (!entry) {
    builder.setInsertionPointAfterValue(data);
    auto dequantize = DequantizeOp::create(builder, hint.getLoc(),
                                           hint.getType(), data, cast.scale);
    if (Operation *def = data.getDefiningOp())
      if (Attribute phase = def->getAttr(kPhaseAttr))
        dequantize->setAttr(kPhaseAttr, phase);
    entry = dequantize;
  }
  return entry;
}

static bool isFP8Tensor(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() == 8;
}

namespace {
struct QuantizeDotsPass : scalify::impl::QuantizeDotsBase<QuantizeDotsPass> {
  using QuantizeDotsBase::QuantizeDotsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!recipe.empty()) {
      RecipeAttr preset = RecipeAttr::getPreset(&getContext(), recipe);
      if (!preset) {
        module.emitError("unknown recipe '")
            << recipe << "': expected one of "
            << llvm::join(RecipeAttr::getPresetNames(), ", ");
        return signalPassFailure();
      }
      module->setAttr(kRecipeAttr, preset);
    }
    RecipeAttr attr = RecipeAttr::of(module);
    for (auto func : module.getOps<func::FuncOp>())
      if (!func.isExternal() && failed(quantize(func, attr)))
        return signalPassFailure();
  }

  LogicalResult quantize(func::FuncOp func, RecipeAttr recipe) {
    SmallVector<DotGeneralOp> dots;
    func.walk([&](DotGeneralOp dot) { dots.push_back(dot); });
    DotRoles roles(func);
    Caster caster(recipe, func.getBody().front());
    bool failedStrict = false;
    for (DotGeneralOp dot : dots) {
      std::string reason = getReasonToStayWide(dot, roles, recipe);
      if (reason.empty()) {
        for (OpOperand &operand : dot->getOpOperands())
          operand.set(
              caster.castOperand(operand.get().getDefiningOp<SetScaleOp>()));
        ++numFP8Dots;
      } else {
        failedStrict |= failed(keepWide(dot, reason, recipe));
      }
    }
    numCasts += caster.getNumCasts();
    func.walk([](SetScaleOp hint) {
      hint.replaceAllUsesWith(hint.getValue());
      hint.erase();
    });
    // Moves of wide data whose FP8 twins took over are dead now.
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(func.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    return failure(failedStrict);
  }

  /// Empty if the dot goes to FP8. Reasons that start with `!` are not the
  /// recipe's choice.
  static std::string getReasonToStayWide(DotGeneralOp dot,
                                         const DotRoles &roles,
                                         RecipeAttr recipe) {
    if (!recipe.castsDots())
      return "recipe: casts nothing";
    if (!isa<FunctionOpInterface>(dot->getParentOp()))
      return ("!body: inside of '" +
              dot->getParentOp()->getName().getStringRef() +
              "', where scales are not propagated")
          .str();
    DotRole role = roles.lookup(dot);
    if (role == DotRole::Attention && !recipe.getAttention())
      return "attention: two activations (recipe: attention = false)";
    if (role == DotRole::Head && !recipe.getHead())
      return "head: the last linear layer before the loss (recipe: head = "
             "false)";
    if (llvm::any_of(dot->getOperandTypes(), isFP8Tensor))
      return "given: the program itself casts its operands to FP8";
    for (Value operand : dot->getOperands())
      if (!operand.getDefiningOp<SetScaleOp>())
        return "!scale: an operand has none (run scalify-propagate and "
               "scalify-fold first)";
    return "";
  }

  LogicalResult keepWide(DotGeneralOp dot, StringRef reason,
                         RecipeAttr recipe) {
    ++numWideDots;
    bool isChoice = !reason.consume_front("!");
    if (!recipe.castsDots())
      return success();
    dot->setAttr(kWideAttr, StringAttr::get(&getContext(), reason));
    if (strict && !isChoice)
      return dot.emitOpError("stays wide under a strict recipe: ") << reason;
    if (remarks)
      dot.emitRemark("dot stays wide: ") << reason;
    return success();
  }
};
} // namespace
