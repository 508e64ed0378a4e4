//===- WidenIntegers.cpp - Integers of 2 and 4 bits in bytes --------------===//
//
// Memory and vectors hold whole bytes. An integer below 8 bits becomes one of 8
// bits with the same value; an op that may leave its range wraps the result, as
// arithmetic modulo 2^bits does, or saturates it, as a conversion of floats
// does.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_WIDENINTEGERSPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Returns the bits of an integer type below a byte, else 0.
static unsigned getNarrowBits(Type type) {
  if (!isa<RankedTensorType>(type))
    return 0;
  auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(type));
  return integer && integer.getWidth() > 1 && integer.getWidth() < 8
             ? integer.getWidth()
             : 0;
}

static Type getWide(Type type) {
  if (!getNarrowBits(type))
    return type;
  auto tensor = cast<RankedTensorType>(type);
  auto element = cast<IntegerType>(tensor.getElementType());
  return tensor.clone(
      IntegerType::get(type.getContext(), 8, element.getSignedness()));
}

namespace {
/// An op with the narrow types that it had.
struct Narrow {
  Operation *op;
  SmallVector<Type> operands, results;
};

struct WidenIntegers : scalify::impl::WidenIntegersPassBase<WidenIntegers> {
  void runOnOperation() override;
};
} // namespace

static Value filled(ImplicitLocOpBuilder &b, Value like, unsigned number) {
  return buildConstant(b, like.getType(), APInt(8, number));
}

static Value masked(ImplicitLocOpBuilder &b, Value value, unsigned bits) {
  return AndOp::create(b, value, filled(b, value, (1u << bits) - 1));
}

/// Builds the number in the narrow type that equals `value` modulo 2^bits.
static Value wrapped(ImplicitLocOpBuilder &b, Value value, unsigned bits) {
  if (hasUnsignedElements(value.getType()))
    return masked(b, value, bits);
  Value spare = filled(b, value, 8 - bits);
  return ShiftRightArithmeticOp::create(b, ShiftLeftOp::create(b, value, spare),
                                        spare);
}

/// Builds the number of a type of `bits` bits that is nearest to `value`.
static Value clamped(ImplicitLocOpBuilder &b, Value value, unsigned bits) {
  bool isUnsigned = hasUnsignedElements(value.getType());
  APInt low =
      isUnsigned ? APInt::getZero(8) : APInt::getSignedMinValue(bits).sext(8);
  APInt top = isUnsigned ? APInt::getMaxValue(bits).zext(8)
                         : APInt::getSignedMaxValue(bits).sext(8);
  Type type = value.getType();
  return ClampOp::create(b, type, buildConstant(b, type, low), value,
                         buildConstant(b, type, top));
}

/// True if an op converts floats, which saturates in XLA, as to wider integers.
static bool convertsFloats(const Narrow &narrow) {
  return isa<ConvertOp>(narrow.op) &&
         isa<FloatType>(getElementTypeOrSelf(narrow.operands[0]));
}

/// True if a result of numbers in range may be out of range.
static bool leavesRange(Operation *op) {
  return isa<AbsOp, AddOp, BitcastConvertOp, ClzOp, ConvertOp, ConvolutionOp,
             DivOp, DotGeneralOp, IotaOp, MulOp, NegOp, NotOp,
             PopulationCountOp, PowOp, ShiftLeftOp, ShiftRightLogicalOp,
             SubtractOp>(op);
}

static LogicalResult widenConstant(stablehlo::ConstantOp op, Type narrow) {
  auto value = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!value)
    return op.emitOpError("of ")
           << narrow << " has elements in the form " << op.getValue()
           << "; write them as dense<...>";
  bool isUnsigned = hasUnsignedElements(narrow);
  Type element = getElementTypeOrSelf(getWide(narrow));
  op.setValueAttr(
      cast<ElementsAttr>(value.mapValues(element, [&](const APInt &number) {
        return isUnsigned ? number.zext(8) : number.sext(8);
      })));
  return success();
}

/// Mends an op whose values are wide now.
static LogicalResult widen(const Narrow &narrow) {
  Operation *op = narrow.op;
  if (auto constant = dyn_cast<stablehlo::ConstantOp>(op))
    return widenConstant(constant, narrow.results[0]);
  unsigned from =
      narrow.operands.empty() ? 0 : getNarrowBits(narrow.operands[0]);
  unsigned to = narrow.results.empty() ? 0 : getNarrowBits(narrow.results[0]);
  if (isa<BitcastConvertOp>(op) && from != to)
    return op->emitOpError("between ")
           << narrow.operands[0] << " and " << narrow.results[0]
           << " has no lowering: integers below 8 bits take a byte each";
  // These read the bits, which a sign fills.
  if (isa<ClzOp, PopulationCountOp, ShiftRightLogicalOp>(op) && from) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    op->setOperand(0, masked(b, op->getOperand(0), from));
  }
  bool extendsTopBit = isa<ShiftRightArithmeticOp>(op) && from &&
                       hasUnsignedElements(narrow.operands[0]);
  if (extendsTopBit) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    Value value = op->getOperand(0), spare = filled(b, value, 8 - from);
    op->setOperand(0, ShiftRightArithmeticOp::create(
                          b, ShiftLeftOp::create(b, value, spare), spare));
  }
  if (!to || !(leavesRange(op) || extendsTopBit))
    return success();
  ImplicitLocOpBuilder b(op->getLoc(), op->getContext());
  b.setInsertionPointAfter(op);
  Value result = op->getResult(0), value = result;
  SmallVector<OpOperand *> uses = llvm::map_to_vector(
      result.getUses(), [](OpOperand &use) { return &use; });
  if (isa<ClzOp>(op))
    value = SubtractOp::create(b, value, filled(b, value, 8 - to));
  value =
      convertsFloats(narrow) ? clamped(b, value, to) : wrapped(b, value, to);
  for (OpOperand *use : uses)
    use->set(value);
  return success();
}

void WidenIntegers::runOnOperation() {
  SmallVector<Narrow> ops;
  getOperation().walk([&](Operation *op) {
    if (llvm::any_of(op->getOperandTypes(), getNarrowBits) ||
        llvm::any_of(op->getResultTypes(), getNarrowBits))
      ops.push_back({op, llvm::to_vector(op->getOperandTypes()),
                     llvm::to_vector(op->getResultTypes())});
  });
  auto setTypes = [](ValueRange values) {
    for (Value value : values)
      value.setType(getWide(value.getType()));
  };
  getOperation().walk([&](Operation *op) {
    setTypes(op->getResults());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        setTypes(block.getArguments());
  });
  for (const Narrow &narrow : ops)
    if (failed(widen(narrow)))
      return signalPassFailure();
  numWidened += ops.size();
}
