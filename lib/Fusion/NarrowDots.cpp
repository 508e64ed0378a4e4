//===- NarrowDots.cpp - Dots on the narrow data of their operands ---------===//
//
// For machines whose GEMMs read FP8, BF16 and F16: the dot reads the narrow
// data, and its result is multiplied by the scales. Hopper multiplies FP8 only
// if both operands have the contracting dimension innermost and strides that
// are multiples of 16 bytes; for others a transposed copy is stored.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"
#include "NarrowOperands.h"
#include "NearUses.h"
#include "OpCosts.h"
#include "ScaleEntries.h"
#include "ScaleGrids.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_NARROWDOTS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

using Operand = NarrowOperand;

namespace {
/// The many scales of operands, which are no factors of the product.
struct Scalings {
  ScaleGrid lhsGrid, rhsGrid;
  plan::Scaling lhs, rhs;
};

struct NarrowDotsPass : scalify::impl::NarrowDotsBase<NarrowDotsPass> {
  void runOnOperation() override;

private:
  void narrow(stablehlo::DotGeneralOp op);
  void narrowBlocks(stablehlo::DotGeneralOp op, Operand lhs, Operand rhs,
                    Type element);
  void runAsBF16(stablehlo::DotGeneralOp op, const Operand &lhs,
                 const Operand &rhs, StringRef why);
  std::optional<Scalings> getScalings(const Operand &lhs, const Operand &rhs,
                                      OpBuilder &b);
  void replace(stablehlo::DotGeneralOp op, const Operand &lhs,
               const Operand &rhs, Type element);
  void replaceScaled(stablehlo::DotGeneralOp op, const Operand &lhs,
                     const Operand &rhs, const Scalings &scalings);
  Value buildDot(stablehlo::DotGeneralOp op, const Operand &lhs,
                 const Operand &rhs, Type element);
  Value converted(const Operand &operand, Type element);
  Value view(const Operand &operand, Type element, OpBuilder &b);
  Value innermost(const Operand &operand, Value narrow);
  void sharePaddedData();
  Value scaleOf(const Operand &operand, OpBuilder &b);
  Value scaled(Value data, const ScaleGrid &grid, plan::Scaling scaling,
               OpBuilder &b);

  ProductFormats products;
  /// Data in another format, by source and format.
  llvm::MapVector<std::pair<Value, Type>, Value> converts;
  /// Copies of data or scales, by source and layout.
  llvm::DenseMap<std::pair<Value, Attribute>, Value> copies;
  /// Data, and the tensor that holds them in padded rows.
  SmallVector<std::pair<Value, Value>> fills;
};
} // namespace

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Returns the format in which both operands are multiplied; none if one is
/// wide, or no format that the target multiplies holds both exactly. E4M3 and
/// E5M2 are exact in BF16 and in F16.
static Type getCommonType(Type a, Type b, const ProductFormats &products) {
  auto is16 = [](Type type) { return type.isBF16() || type.isF16(); };
  Type common;
  if (hasFP8Elements(a) && hasFP8Elements(b))
    common = products.fp8 ? a : Type(BFloat16Type::get(a.getContext()));
  else if (is16(a) && (a == b || hasFP8Elements(b)))
    common = a;
  else if (is16(b) && hasFP8Elements(a))
    common = b;
  return common && products.has(common) ? common : Type();
}

/// Returns why FP8 data cannot be multiplied as FP8, or "". M is any number; K
/// is padded if one of our kernels writes the operands.
static std::string whyNotFP8(const Operand &a, const Operand &b) {
  if (isa<Float8E5M2Type>(elementOf(a.data)) &&
      isa<Float8E5M2Type>(elementOf(b.data)))
    return "the hardware's library has no product of two E5M2 operands";
  int64_t k = extentOf(a, a.sum), n = extentOf(b, b.free);
  bool isGiven = isa<BlockArgument>(a.data) || isa<BlockArgument>(b.data);
  if (k % kFP8Alignment && isGiven)
    return ("K = " + Twine(k) + " is no multiple of " + Twine(kFP8Alignment) +
            ", and an operand is an argument")
        .str();
  if (n % kRowAlignment)
    return ("N = " + Twine(n) + " is no multiple of " + Twine(kRowAlignment))
        .str();
  return "";
}

/// Returns the data in the format, converted next to their producer for all
/// dots.
Value NarrowDotsPass::converted(const Operand &operand, Type element) {
  Value value = operand.data;
  if (elementOf(value) == element)
    return value;
  Value &copy = converts[{value, element}];
  if (!copy) {
    OpBuilder b(value.getContext());
    b.setInsertionPointAfterValue(value);
    copy = stablehlo::ConvertOp::create(b, operand.value.getLoc(),
                                        typeOf(value).clone(element), value);
    if (Operation *maker = value.getDefiningOp())
      copyPhase(maker, copy.getDefiningOp());
  }
  return copy;
}

/// Rebuilds the operand's views on its data, converted to `element`, which
/// represents them exactly.
Value NarrowDotsPass::view(const Operand &operand, Type element, OpBuilder &b) {
  SmallVector<Operation *> views;
  for (Value value = operand.value; isDataView(value.getDefiningOp());
       value = value.getDefiningOp()->getOperand(0))
    views.push_back(value.getDefiningOp());
  Value value = converted(operand, element);
  for (Operation *view : llvm::reverse(views)) {
    IRMapping map;
    map.map(view->getOperand(0), value);
    Operation *copy = b.clone(*view, map);
    if (isa<stablehlo::PadOp>(copy)) {
      ImplicitLocOpBuilder at(copy->getLoc(), copy);
      copy->setOperand(1, zeroOf(at, element));
    }
    copy->getResult(0).setType(typeOf(view->getResult(0)).clone(element));
    value = copy->getResult(0);
  }
  return value;
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

/// Returns the narrow operand as (batch, free, contracting) in memory: the
/// operand itself, or a copy next to the producer of the data, one for all dots
/// that need it. Padded contracting dimensions are collapsed into one.
Value NarrowDotsPass::innermost(const Operand &operand, Value narrow) {
  SmallVector<int64_t> order(operand.batch);
  llvm::append_range(order, operand.free);
  llvm::append_range(order, operand.sum);
  OpBuilder b(narrow.getContext());
  b.setInsertionPointAfterValue(narrow);
  auto permuted = [&](Value from) {
    return stablehlo::TransposeOp::create(b, narrow.getLoc(), from, order);
  };
  StridedView lies = StridedView::of(narrow);
  if (!isFilled(operand) && lies.base == operand.data &&
      hasSumInnermost(lies, operand))
    return permuted(narrow);
  // Equal windows on equal data are one copy.
  SmallVector<int64_t> window{lies.offset};
  for (int64_t d : order)
    window.append({lies.dims[d].size, lies.dims[d].stride});
  // A padded copy also depends on which dimensions are contracted.
  if (isFilled(operand))
    window.push_back(int64_t(operand.sum.size()));
  Value &copy = copies[{lies.base, b.getDenseI64ArrayAttr(window)}];
  if (copy)
    return copy;
  b.setInsertionPointAfterValue(operand.data);
  if (auto argument = dyn_cast<BlockArgument>(operand.data))
    b.setInsertionPointToStart(argument.getOwner());
  if (!isFilled(operand)) {
    copy = permuted(view(operand, elementOf(narrow), b));
    ++numTransposed;
  } else {
    bool isPlain = lies.base == operand.data && isWhole(lies, order);
    copy = isPlain ? operand.data
                   : Value(permuted(view(operand, elementOf(narrow), b)));
    SmallVector<int64_t> shape =
        applyPermutation(typeOf(narrow).getShape(), order);
    shape.truncate(shape.size() - operand.sum.size());
    shape.push_back(extentOf(operand, operand.sum));
    copy = padRows(
        stablehlo::ReshapeOp::create(b, narrow.getLoc(), copy, shape), b);
    if (isPlain &&
        !llvm::is_contained(llvm::make_first_range(fills), operand.data))
      fills.push_back({operand.data, copy});
    ++numFilled;
  }
  copy.getDefiningOp()->setAttr(plan::kMaterialiseAttr, b.getUnitAttr());
  if (Operation *maker = operand.data.getDefiningOp())
    copyPhase(maker, copy.getDefiningOp());
  return copy;
}

/// Makes all users of padded data read the padded tensor, so that the producer
/// stores the data only once. Data that are results or pieces of stacks must
/// keep their own layout. So must rows of one element: they are also a column,
/// which a product may sum over in place.
void NarrowDotsPass::sharePaddedData() {
  for (auto [data, fill] : fills) {
    Operation *pad = fill.getDefiningOp();
    if (typeOf(pad->getOperand(0)).getShape().back() == 1 ||
        llvm::any_of(data.getUsers(),
                     llvm::IsaPred<func::ReturnOp, stablehlo::ConcatenateOp>))
      continue;
    Operation *shaped = pad->getOperand(0).getDefiningOp();
    // Later copies were inserted before it, right after the data.
    shaped->moveAfter(data.getDefiningOp());
    pad->getOperand(1).getDefiningOp()->moveAfter(shaped);
    pad->moveAfter(pad->getOperand(1).getDefiningOp());
    OpBuilder b(data.getContext());
    b.setInsertionPointAfter(pad);
    RankedTensorType type = typeOf(pad->getOperand(0));
    Value part =
        stablehlo::SliceOp::create(b, data.getLoc(), fill, type.getShape());
    part = stablehlo::ReshapeOp::create(b, data.getLoc(), data.getType(), part);
    data.replaceAllUsesExcept(part, shaped);
  }
}

//===----------------------------------------------------------------------===//
// Dots
//===----------------------------------------------------------------------===//

/// Returns the scale as a value that a GEMM or a kernel reads from memory.
Value NarrowDotsPass::scaleOf(const Operand &operand, OpBuilder &b) {
  auto constant = operand.scale
                      ? operand.scale.getDefiningOp<stablehlo::ConstantOp>()
                      : nullptr;
  if (operand.scale && !constant)
    return operand.scale;
  auto type = RankedTensorType::get({}, b.getF32Type());
  ElementsAttr value = constant
                           ? constant.getValue()
                           : ElementsAttr(DenseElementsAttr::get(type, 1.0f));
  auto stored = stablehlo::ConstantOp::create(b, operand.value.getLoc(), value);
  stored->setAttr(kInMemoryAttr, b.getUnitAttr());
  if (operand.entry)
    stored->setAttr(plan::kScaleEntryAttr, operand.entry);
  return stored;
}

static std::optional<double> getConstantScale(const Operand &operand) {
  if (!operand.scale)
    return 1.0;
  auto constant = operand.scale.getDefiningOp<stablehlo::ConstantOp>();
  if (!constant || operand.entry)
    return std::nullopt;
  return cast<DenseElementsAttr>(constant.getValue())
      .getSplatValue<APFloat>()
      .convertToFloat();
}

/// True if sums of the data themselves, before the scales, are far from the
/// ends of F32 where the sums of the values are. Scales so far from 1 are wrong
/// guesses, and then the data may be as far from it.
static bool isSafeFactor(const Operand &lhs, const Operand &rhs) {
  constexpr int kHalfOfExponents = 64;
  std::optional<double> x = getConstantScale(lhs), y = getConstantScale(rhs);
  return !x || !y || std::abs(std::log2(*x * *y)) <= kHalfOfExponents;
}

/// Returns the end of the transposes and reshapes that alone read the value. A
/// GEMM writes in the layout that they describe, as long as nothing is between.
static Value afterViews(Value value) {
  while (value.hasOneUse() &&
         isa<stablehlo::TransposeOp, stablehlo::ReshapeOp>(*value.user_begin()))
    value = (*value.user_begin())->getResult(0);
  return value;
}

static Value times(OpBuilder &b, Value value, Value scalar, bool isOperand) {
  Location loc = value.getLoc();
  auto type = typeOf(value);
  Value wide = stablehlo::BroadcastInDimOp::create(b, loc, type, scalar,
                                                   ArrayRef<int64_t>{});
  auto product = stablehlo::MulOp::create(b, loc, type, value, wide);
  if (isOperand)
    product->setAttr(plan::kOperandScaleAttr, b.getUnitAttr());
  return product;
}

static stablehlo::DotDimensionNumbersAttr
getCanonicalDims(MLIRContext *context, const Operand &a, const Operand &b) {
  auto dims = [](size_t from, size_t count) {
    return llvm::to_vector(llvm::seq<int64_t>(from, from + count));
  };
  auto batch = dims(0, a.batch.size());
  size_t sums = isFilled(a) ? 1 : a.sum.size();
  return stablehlo::DotDimensionNumbersAttr::get(
      context, batch, batch, dims(batch.size() + a.free.size(), sums),
      dims(batch.size() + b.free.size(), sums));
}

/// Builds the dot with an F32 result, on other operands.
static Value createDot(stablehlo::DotGeneralOp op, Value lhs, Value rhs,
                       stablehlo::DotDimensionNumbersAttr numbers) {
  OpBuilder b(op);
  auto dot = stablehlo::DotGeneralOp::create(
      b, op.getLoc(), typeOf(op.getResult()).clone(b.getF32Type()), lhs, rhs,
      numbers, op.getPrecisionConfigAttr(), op.getAlgorithmAttr());
  for (StringRef name : {kPhaseAttr, kAccumulationAttr})
    if (Attribute attr = op->getAttr(name))
      dot->setAttr(name, attr);
  return dot;
}

static void replaceBy(stablehlo::DotGeneralOp op, Value result) {
  OpBuilder b(op);
  if (result.getType() != op.getType())
    result = stablehlo::ConvertOp::create(b, op.getLoc(), op.getType(), result);
  op.getResult().replaceAllUsesWith(result);
  op.erase();
}

/// Builds the dot on narrow operands, with an F32 result and without scales.
Value NarrowDotsPass::buildDot(stablehlo::DotGeneralOp op, const Operand &lhs,
                               const Operand &rhs, Type element) {
  OpBuilder b(op);
  bool asFP8 = hasFP8Elements(element);
  Value l = view(lhs, asFP8 ? elementOf(lhs.data) : element, b);
  Value r = view(rhs, asFP8 ? elementOf(rhs.data) : element, b);
  auto numbers = op.getDotDimensionNumbersAttr();
  if (asFP8) {
    l = innermost(lhs, l);
    r = innermost(rhs, r);
    numbers = getCanonicalDims(op.getContext(), lhs, rhs);
  }
  ++numNarrowed;
  return createDot(op, l, r, numbers);
}

void NarrowDotsPass::replace(stablehlo::DotGeneralOp op, const Operand &lhs,
                             const Operand &rhs, Type element) {
  OpBuilder b(op);
  // Scales go before the dot, since ops fused into it may read them.
  std::optional<double> x = getConstantScale(lhs), y = getConstantScale(rhs);
  bool isStatic = x && y;
  Value lhsScale = isStatic ? Value() : scaleOf(lhs, b);
  Value rhsScale = isStatic ? Value() : scaleOf(rhs, b);
  Value result = buildDot(op, lhs, rhs, element);
  // The library reads the scales of FP8 data, and takes a constant factor.
  bool isRead = hasFP8Elements(element);
  if (!isStatic && !isRead && result.getType() == op.getType()) {
    op.replaceAllUsesWith(result);
    op.erase();
    Value last = afterViews(result);
    b.setInsertionPointAfterValue(last);
    Value product = times(b, last, lhsScale, false);
    Operation *first = product.getDefiningOp();
    product = times(b, product, rhsScale, false);
    last.replaceAllUsesExcept(product, first);
    return;
  }
  if (!isStatic) {
    result = times(b, result, lhsScale, isRead);
    result = times(b, result, rhsScale, isRead);
  } else if (*x * *y != 1) {
    Value factor = stablehlo::buildScalar(b, op.getLoc(), float(*x * *y));
    result = times(b, result, factor, false);
  }
  replaceBy(op, result);
}

void NarrowDotsPass::runAsBF16(stablehlo::DotGeneralOp op, const Operand &lhs,
                               const Operand &rhs, StringRef why) {
  if (products.fp8)
    op.emitRemark("runs as BF16, which holds its FP8 operands exactly: ")
        << why;
  replace(op, lhs, rhs, BFloat16Type::get(op.getContext()));
}

//===----------------------------------------------------------------------===//
// Many scales
//===----------------------------------------------------------------------===//

/// Returns the scale grid in the dot's dimensions, looking through transposes.
static std::optional<ScaleGrid> getBlockGrid(const Operand &operand) {
  DequantizeOp wide = operand.byBlocks;
  auto place =
      llvm::to_vector(llvm::seq<int64_t>(0, typeOf(operand.value).getRank()));
  for (Value value = operand.value; value != wide.getResult();) {
    auto turn = value.getDefiningOp<stablehlo::TransposeOp>();
    if (!turn)
      return std::nullopt;
    for (int64_t &d : place)
      d = turn.getPermutation()[d];
    value = turn.getOperand();
  }
  auto places = [&](ArrayRef<int64_t> dims) {
    return llvm::map_to_vector(dims, [&](int64_t d) { return place[d]; });
  };
  return getScaleGrid(wide.getScale(), typeOf(wide.getResult()).getShape(),
                      *wide.getBlock(), places(operand.free),
                      places(operand.sum));
}

std::optional<Scalings> NarrowDotsPass::getScalings(const Operand &lhs,
                                                    const Operand &rhs,
                                                    OpBuilder &b) {
  auto getGrid = [&](const Operand &operand) -> std::optional<ScaleGrid> {
    if (operand.byBlocks)
      return getBlockGrid(operand);
    // Kernels support an entry only as the scale of a cast.
    if (operand.entry)
      return std::nullopt;
    ScaleGrid grid;
    grid.scale = scaleOf(operand, b);
    grid.rows = grid.rowGrain = extentOf(operand, operand.free);
    grid.columns = grid.columnGrain = extentOf(operand, operand.sum);
    return grid;
  };
  std::optional<ScaleGrid> l = getGrid(lhs), r = getGrid(rhs);
  if (!l || !r)
    return std::nullopt;
  auto pair = chooseScalings(*l, *r);
  if (!pair)
    return std::nullopt;
  return Scalings{*l, *r, pair->first, pair->second};
}

/// Builds a dequantize of the data by many scales, marked for the GEMM that
/// reads data and scales.
Value NarrowDotsPass::scaled(Value data, const ScaleGrid &grid,
                             plan::Scaling scaling, OpBuilder &b) {
  SmallVector<int64_t> key(grid.order);
  key.append({grid.rows, grid.columns});
  // The padding of a row is within its last block.
  SmallVector<int64_t> matrix{grid.rows,
                              typeOf(data).getNumElements() / grid.rows};
  auto name = b.getStringAttr(plan::stringifyScaling(scaling));
  Value &scales =
      copies[{grid.scale, b.getArrayAttr({name, b.getDenseI64ArrayAttr(key)})}];
  if (!scales) {
    OpBuilder beside(data.getContext());
    beside.setInsertionPointAfterValue(grid.scale);
    scales = layOut(grid, scaling, beside);
  }
  Location loc = data.getLoc();
  Value flat = stablehlo::ReshapeOp::create(b, loc, data, matrix);
  auto wide =
      DequantizeOp::create(b, loc, typeOf(flat).clone(b.getF32Type()), flat,
                           scales, b.getDenseI64ArrayAttr(getBlock(scaling)));
  wide->setAttr(plan::kScalingAttr, name);
  return stablehlo::ReshapeOp::create(b, loc,
                                      typeOf(data).clone(b.getF32Type()), wide);
}

void NarrowDotsPass::replaceScaled(stablehlo::DotGeneralOp op,
                                   const Operand &lhs, const Operand &rhs,
                                   const Scalings &scalings) {
  OpBuilder b(op);
  Value l = innermost(lhs, view(lhs, elementOf(lhs.data), b));
  Value r = innermost(rhs, view(rhs, elementOf(rhs.data), b));
  l = scaled(l, scalings.lhsGrid, scalings.lhs, b);
  r = scaled(r, scalings.rhsGrid, scalings.rhs, b);
  ++numNarrowed;
  replaceBy(op,
            createDot(op, l, r, getCanonicalDims(op.getContext(), lhs, rhs)));
}

void NarrowDotsPass::narrowBlocks(stablehlo::DotGeneralOp op, Operand lhs,
                                  Operand rhs, Type element) {
  OpBuilder b(op);
  std::string why = hasFP8Elements(element) ? whyNotFP8(lhs, rhs)
                                            : "its operands are not both FP8";
  if (why.empty() && !lhs.batch.empty())
    why = "the library's products with many scales have no batch";
  if (why.empty()) {
    if (auto scalings = getScalings(lhs, rhs, b))
      return replaceScaled(op, lhs, rhs, *scalings);
    why = "the library has no product with scales of these blocks";
  }
  if (element.isF16()) {
    op.emitRemark("stays wide, since F16 may not hold data times scale: ")
        << why;
    return;
  }
  for (Operand *operand : {&lhs, &rhs})
    if (operand->byBlocks) {
      operand->data = operand->byBlocks.getResult();
      operand->scale = {};
    }
  runAsBF16(op, lhs, rhs, why);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

void NarrowDotsPass::narrow(stablehlo::DotGeneralOp op) {
  Operand lhs = getNarrowLhs(op), rhs = getNarrowRhs(op);
  Type element =
      getCommonType(elementOf(lhs.data), elementOf(rhs.data), products);
  if (!element || !(lhs.isWidened || rhs.isWidened))
    return;
  if (lhs.byBlocks || rhs.byBlocks)
    return narrowBlocks(op, lhs, rhs, element);
  if (!isSafeFactor(lhs, rhs)) {
    op.emitRemark("stays wide, since the factor of its scales is beyond 2^64 "
                  "or 2^-64, and sums of its data may leave F32: give the "
                  "step's arguments scales");
    return;
  }
  std::string why = hasFP8Elements(element) ? whyNotFP8(lhs, rhs) : "";
  if (!why.empty())
    return runAsBF16(op, lhs, rhs, why);
  replace(op, lhs, rhs, element);
}

void NarrowDotsPass::runOnOperation() {
  copies.clear();
  fills.clear();
  converts.clear();
  products = TargetAttr::of(getOperation()).products;
  Block &block = getOperation().getBody().front();
  for (auto dot :
       llvm::make_early_inc_range(block.getOps<stablehlo::DotGeneralOp>()))
    if (Type type = elementOf(dot.getResult());
        type.isF32() || type.isBF16() || type.isF16())
      narrow(dot);
  sharePaddedData();
  NearUses near(block, {});
  for (auto &[source, value] : converts)
    numRemade += near.rematerialise(value.getDefiningOp());
  converts.clear();
  stablehlo::eraseDeadOps(block);
  copies.clear();
}
