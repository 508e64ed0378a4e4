//===- WidenValues.cpp - Widen 16-bit values to F32 -----------------------===//
//
// A recipe that narrows the whole step gives every narrow tensor its own scale.
// A step that the user traced in F16 or BF16 narrows without scales: gradients
// underflow before a cast can scale them. So its values become F32 first, and
// only arguments and results keep their types. The recipe then casts where it
// wants narrow tensors. BF16 has F32's exponents and loses nothing in this way:
// under a BF16 recipe it stays as the user wrote it.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Passes.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {
#define GEN_PASS_DEF_WIDENVALUES
#include "scalify/Scaling/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static Value convert(OpBuilder &builder, Value value, Type type) {
  auto element = cast<ShapedType>(type).getElementType();
  return stablehlo::ConvertOp::create(builder, value.getLoc(), value, element);
}

static void widenConstant(stablehlo::ConstantOp constant) {
  auto values = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!values)
    return;
  constant.setValueAttr(values.mapValues(
      Float32Type::get(constant.getContext()), [](const APFloat &value) {
        APFloat wide = value;
        bool loses;
        wide.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                     &loses);
        return wide.bitcastToAPInt();
      }));
}

namespace {
class Widener {
public:
  /// `saved` is the recipe's format for what the backward keeps.
  Widener(func::FuncOp func, Type saved)
      : func(func), builder(func), keepsBF16(saved.isBF16()) {}
  unsigned run();

private:
  RankedTensorType getWide(Type type) const;
  void widenOp(Operation *op);
  void keepBits(stablehlo::BitcastConvertOp op);

  func::FuncOp func;
  OpBuilder builder;
  bool keepsBF16;
  unsigned numWidened = 0;
};
} // namespace

/// Returns the F32 type of a tensor that becomes wide, or null.
RankedTensorType Widener::getWide(Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !(tensor.getElementType().isF16() ||
                   (tensor.getElementType().isBF16() && !keepsBF16)))
    return {};
  return tensor.clone(Float32Type::get(type.getContext()));
}

/// Narrows the operand of a bitcast again: its bits are those of that type.
void Widener::keepBits(stablehlo::BitcastConvertOp op) {
  if (getWide(op.getOperand().getType()) == nullptr)
    return;
  builder.setInsertionPoint(op);
  op.setOperand(convert(builder, op.getOperand(), op.getOperand().getType()));
}

void Widener::widenOp(Operation *op) {
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (BlockArgument arg : block.getArguments())
        if (Type wide = getWide(arg.getType()))
          arg.setType(wide);
  auto bits = dyn_cast<stablehlo::BitcastConvertOp>(op);
  for (OpResult result : op->getResults()) {
    Type wide = getWide(result.getType());
    if (!wide)
      continue;
    ++numWidened;
    if (bits) {
      builder.setInsertionPointAfter(op);
      Value converted = convert(builder, result, wide);
      result.replaceAllUsesExcept(converted, converted.getDefiningOp());
      continue;
    }
    if (auto constant = dyn_cast<stablehlo::ConstantOp>(op))
      widenConstant(constant);
    result.setType(wide);
  }
}

unsigned Widener::run() {
  Block &entry = func.getBody().front();
  SmallVector<Operation *> ops;
  func.getBody().walk([&](Operation *op) { ops.push_back(op); });
  // Bitcasts first, while operands still have their narrow types.
  for (Operation *op : ops)
    if (auto bits = dyn_cast<stablehlo::BitcastConvertOp>(op))
      keepBits(bits);
  builder.setInsertionPointToStart(&entry);
  for (BlockArgument arg : entry.getArguments())
    if (Type wide = getWide(arg.getType())) {
      Value converted = convert(builder, arg, wide);
      arg.replaceAllUsesExcept(converted, converted.getDefiningOp());
    }
  for (Operation *op : ops)
    widenOp(op);
  Operation *terminator = entry.getTerminator();
  builder.setInsertionPoint(terminator);
  for (auto [operand, type] :
       llvm::zip(terminator->getOpOperands(), func.getResultTypes()))
    if (operand.get().getType() != type)
      operand.set(convert(builder, operand.get(), type));
  func.walk([](stablehlo::ConvertOp op) {
    if (op.getOperand().getType() == op.getType()) {
      op.replaceAllUsesWith(op.getOperand());
      op.erase();
    }
  });
  return numWidened;
}

namespace {
struct WidenValuesPass : scalify::impl::WidenValuesBase<WidenValuesPass> {
  void runOnOperation() override {
    Type saved = RecipeAttr::of(getOperation()).getStorage().saved;
    if (!saved)
      return;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal())
        numWidened += Widener(func, saved).run();
  }
};
} // namespace
