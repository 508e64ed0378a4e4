//===- PreparePlan.cpp - Legalisation for kernels and GEMMs ---------------===//

#include "Expansions.h"
#include "NearUses.h"
#include "ScaleEntries.h"
#include "TargetOps.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

namespace scalify {
#define GEN_PASS_DEF_PREPAREPLAN
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

// A sum of at least this many elements to few elements is worth several tasks.
static constexpr int64_t kTwoStageElements = 32768;
static constexpr int64_t kStageColumns = 4096;
// A sum across rows has one thread per vector of results. A GPU hides the
// latency of reads with 500 threads or more per multiprocessor.
static constexpr int64_t kGridResults = int64_t(1) << 19;
static constexpr int64_t kFewestSummands = 16;

namespace {
struct PreparePlanPass : scalify::impl::PreparePlanBase<PreparePlanPass> {
  using PreparePlanBase::PreparePlanBase;
  void runOnOperation() override;

private:
  LogicalResult check(Operation *op);
  void widenDot(stablehlo::DotGeneralOp op);
  void widenResult(stablehlo::DotGeneralOp op);
  Value widened(Value value, stablehlo::DotGeneralOp dot);
  void expandDot(stablehlo::DotGeneralOp op);
  void splitReduce(stablehlo::ReduceOp op);
  void splitAcross(stablehlo::ReduceOp op, ArrayRef<int64_t> dims);

  bool isGPU = false;
  llvm::MapVector<Value, Value> wideOf; // of operands of dots
};
} // namespace

LogicalResult PreparePlanPass::check(Operation *op) {
  auto refuse = [&]() -> InFlightDiagnostic {
    return op->emitOpError("not in the ")
           << (isGPU ? "GPU" : "CPU") << " target: ";
  };
  // For a host call, XLA or a callback already runs the op; only its operands
  // and results are unsupported.
  StringRef wayOut =
      isa<plan::InvokeOp>(op)
          ? "; arguments and results of the step and of callbacks cannot have "
            "it: pass the parts of complex numbers, or use scalify.transform"
      : isGPU ? "; scalify.transform leaves it to XLA"
              : "; scalify.transform leaves it to XLA, and "
                "scalify.jit(fallback=\"xla\") has XLA run it within the step";
  for (Type type :
       llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return refuse() << "value of type " << type
                      << "; only tensors of static shape are supported";
    Type element = tensor.getElementType();
    if (isa<ComplexType>(element) ||
        (isa<FloatType>(element) && !isComputed(element)))
      return refuse() << "element type " << element << wayOut;
  }
  if (isa<stablehlo::ReduceOp>(op) &&
      llvm::any_of(op->getOperandTypes(), hasFP8Elements))
    return refuse() << "a reduction of FP8 data; convert them to F32, which is "
                       "exact, and the result back";
  using namespace stablehlo;
  bool isKnown =
      isElementwiseOp(op) ||
      isa<BroadcastInDimOp, ConcatenateOp, stablehlo::ConstantOp, DotGeneralOp,
          DynamicSliceOp, DynamicUpdateSliceOp, GatherOp, IotaOp,
          OptimizationBarrierOp, PadOp, ReduceOp, ReshapeOp, ReverseOp,
          ScatterOp, SliceOp, TransposeOp, QuantizeOp, DequantizeOp,
          RandomBitsOp, PartitionIdOp, plan::CommunicateOp, plan::FactorizeOp,
          plan::InvokeOp, plan::IterateOp, plan::MatmulOp, plan::UndefinedOp,
          plan::WindowsOp, func::ReturnOp>(op);
  if (isKnown)
    return success();
  if (auto call = dyn_cast<CustomCallOp>(op))
    return refuse() << "no lowering for a call of '" << call.getCallTargetName()
                    << "'" << wayOut;
  return refuse() << "no lowering for this op" << wayOut;
}

//===----------------------------------------------------------------------===//
// Dots
//===----------------------------------------------------------------------===//

static Value convertTo(OpBuilder &b, Location loc, Value value, Type element) {
  auto type = typeOf(value).clone(element);
  return stablehlo::ConvertOp::create(b, loc, type, value);
}

// Returns the operand in f32. The conversion goes before the transposes and
// reshapes that lead to it, so that those can become strides of the GEMM, and
// is shared by all dots that read the same value.
Value PreparePlanPass::widened(Value value, stablehlo::DotGeneralOp dot) {
  Operation *def = value.getDefiningOp();
  OpBuilder b(dot);
  Type f32 = b.getF32Type();
  if (isa_and_nonnull<stablehlo::TransposeOp, stablehlo::ReshapeOp>(def)) {
    IRMapping map;
    map.map(def->getOperand(0), widened(def->getOperand(0), dot));
    Operation *view = b.clone(*def, map);
    view->getResult(0).setType(typeOf(value).clone(f32));
    return view->getResult(0);
  }
  Value &wide = wideOf[value];
  if (!wide) {
    b.setInsertionPointAfterValue(value);
    wide = convertTo(b, dot.getLoc(), value, f32);
  }
  return wide;
}

// True if the target multiplies the operands as they are.
static bool readsOperands(stablehlo::DotGeneralOp op,
                          const ProductFormats &products) {
  Type element = getElementTypeOrSelf(op.getLhs().getType());
  return element == getElementTypeOrSelf(op.getRhs().getType()) &&
         !hasFP8Elements(element) && (element.isF32() || products.has(element));
}

// Makes a dot with a narrow result one with an f32 result that is rounded once.
void PreparePlanPass::widenResult(stablehlo::DotGeneralOp op) {
  OpBuilder b(op);
  Type f32 = b.getF32Type();
  Type narrow = typeOf(op.getResult()).getElementType();
  // After the transposes, so that those can become strides of the GEMM.
  Value wide = op.getResult();
  wide.setType(typeOf(wide).clone(f32));
  while (wide.hasOneUse() && isa<stablehlo::TransposeOp, stablehlo::ReshapeOp>(
                                 *wide.user_begin())) {
    wide = (*wide.user_begin())->getResult(0);
    wide.setType(typeOf(wide).clone(f32));
  }
  b.setInsertionPointAfterValue(wide);
  Value back = convertTo(b, op.getLoc(), wide, narrow);
  wide.replaceAllUsesExcept(back, back.getDefiningOp());
}

// Brings a dot to types that the target multiplies. Narrow operands are widened
// to f32 exactly. On a GPU the library rounds to the operands' format itself.
void PreparePlanPass::widenDot(stablehlo::DotGeneralOp op) {
  const TargetInfo &target = TargetAttr::of(op);
  Type element = getElementTypeOrSelf(op.getLhs().getType());
  Type result = typeOf(op.getResult()).getElementType();
  bool isRead = readsOperands(op, target.products);
  if (!isRead)
    for (OpOperand &operand : op->getOpOperands())
      if (!typeOf(operand.get()).getElementType().isF32())
        operand.set(widened(operand.get(), op));
  bool isWritten = result.isF32() || (isRead && isGPU && result == element);
  if (!isWritten)
    widenResult(op);
  if (!isRead || !isWritten)
    ++numWidenedDots;
}

// Replaces a dot of empty operands by zeros: a plan has no command for it.
static void replaceEmptyDot(stablehlo::DotGeneralOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  RankedTensorType type = typeOf(op.getResult());
  op.replaceAllUsesWith(spreadOver(b, zeroOf(b, type.getElementType()), type));
  op.erase();
}

// Expands integer and f64 dots, which are rare and small, to a sum of products.
void PreparePlanPass::expandDot(stablehlo::DotGeneralOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto numbers = op.getDotDimensionNumbers();
  RankedTensorType type = typeOf(op.getResult());
  Type element = type.getElementType();
  Value lhs = convertTo(b, loc, op.getLhs(), element);
  Value rhs = convertTo(b, loc, op.getRhs(), element);
  ArrayRef<int64_t> lb = numbers.getLhsBatchingDimensions();
  ArrayRef<int64_t> rb = numbers.getRhsBatchingDimensions();
  ArrayRef<int64_t> lc = numbers.getLhsContractingDimensions();
  ArrayRef<int64_t> rc = numbers.getRhsContractingDimensions();
  // Result dimensions, then the contracting ones.
  SmallVector<int64_t> shape(type.getShape()), reduced;
  for (int64_t d : lc) {
    reduced.push_back(shape.size());
    shape.push_back(typeOf(lhs).getDimSize(d));
  }
  int64_t next = lb.size();
  auto spread = [&](Value value, ArrayRef<int64_t> batch,
                    ArrayRef<int64_t> sum) {
    SmallVector<int64_t> dims(typeOf(value).getRank(), -1);
    for (auto [i, d] : llvm::enumerate(batch))
      dims[d] = i;
    for (auto [i, d] : llvm::enumerate(sum))
      dims[d] = type.getRank() + i;
    for (int64_t &d : dims)
      if (d < 0)
        d = next++;
    return stablehlo::BroadcastInDimOp::create(
               b, loc, RankedTensorType::get(shape, element), value, dims)
        .getResult();
  };
  Value l = spread(lhs, lb, lc), r = spread(rhs, rb, rc);
  Value product = stablehlo::MulOp::create(b, loc, l.getType(), l, r);
  Value zero = stablehlo::buildZero(b, loc, element);
  Value sum =
      stablehlo::buildReduce<stablehlo::AddOp>(b, loc, product, zero, reduced);
  op.getResult().replaceAllUsesWith(sum);
  op.erase();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static stablehlo::ReduceOp reduceOver(OpBuilder &b, stablehlo::ReduceOp like,
                                      Value input, ArrayRef<int64_t> dims) {
  RankedTensorType type = typeOf(input);
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (!llvm::is_contained(dims, d))
      shape.push_back(type.getDimSize(d));
  IRMapping map;
  map.map(like.getInputs()[0], input);
  auto clone = cast<stablehlo::ReduceOp>(b.clone(*like, map));
  clone.setDimensions(dims);
  clone.getResult(0).setType(type.clone(shape));
  return clone;
}

/// Returns the row length with which a kernel that computes the value iterates:
/// the largest product of trailing dimensions up to kStageColumns; none if
/// there are few rows.
static std::optional<int64_t> getRowLength(RankedTensorType type) {
  int64_t length = 1;
  for (int64_t extent : llvm::reverse(type.getShape())) {
    if (length > 1 && length * extent > kStageColumns)
      break;
    length *= extent;
  }
  return type.getNumElements() / length >= 16 ? std::optional(length)
                                              : std::nullopt;
}

/// Returns how many of the `total` elements of a result one task reduces. If
/// the order is free, because it changes no bit or because a GPU sums by
/// threads anyway, these are rows, so that the kernel that computes the values
/// can also reduce them, and no other kernel reads them.
static int64_t getStageColumns(stablehlo::ReduceOp op, int64_t total,
                               bool isOnGPU) {
  RankedTensorType type = typeOf(op.getInputs()[0]);
  if ((isOnGPU || stablehlo::isOrderFree(op)) &&
      !op->hasAttr(stablehlo::kInOrderAttr) && total == type.getNumElements())
    if (std::optional<int64_t> length = getRowLength(type))
      return *length;
  int64_t columns = total;
  while (columns % 2 == 0 && columns > kStageColumns)
    columns /= 2;
  return columns;
}

/// Replaces a sum of narrow values by a sum in F32 that is rounded once.
static stablehlo::ReduceOp widenSum(stablehlo::ReduceOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Type f32 = b.getF32Type();
  RankedTensorType type = typeOf(op.getResult(0));
  Value input = convertTo(b, op.getLoc(), op.getInputs()[0], f32);
  auto wide = stablehlo::ReduceOp::create(
      b, TypeRange{type.clone(f32)}, ValueRange{input},
      ValueRange{zeroOf(b, f32)}, op.getDimensions());
  stablehlo::buildReducer<stablehlo::AddOp>(b, op.getLoc(), wide.getBody(),
                                            f32);
  Value back =
      convertTo(b, op.getLoc(), wide.getResult(0), type.getElementType());
  op.getResult(0).replaceAllUsesWith(back);
  op.erase();
  return wide;
}

/// If there are too few results for a GPU's threads, splits a sum across rows
/// into partial sums, the results of a first kernel, and their sum. `dims` are
/// the reduced dimensions, ascending.
void PreparePlanPass::splitAcross(stablehlo::ReduceOp op,
                                  ArrayRef<int64_t> dims) {
  RankedTensorType type = typeOf(op.getInputs()[0]);
  int64_t results = typeOf(op.getResult(0)).getNumElements();
  if (!isGPU || results == 0 || op->hasAttr(stablehlo::kInOrderAttr))
    return;
  const int64_t summands = type.getNumElements() / results;
  const int64_t wanted =
      std::min(kGridResults / results, summands / kFewestSummands);
  // Take whole leading dimensions as long as they fit, then a divisor of one.
  int64_t parts = 1;
  size_t whole = 0;
  while (whole + 1 < dims.size() &&
         parts * type.getDimSize(dims[whole]) <= wanted)
    parts *= type.getDimSize(dims[whole++]);
  const int64_t split = dims[whole], extent = type.getDimSize(split);
  int64_t divisor = std::min(extent, wanted / parts);
  while (divisor > 1 && extent % divisor != 0)
    --divisor;
  if (parts * divisor < 4)
    return;
  Type element = type.getElementType();
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32 &&
      !stablehlo::isOrderFree(op)) {
    if (!stablehlo::isSum(op.getBody()))
      return;
    op = widenSum(op);
    type = typeOf(op.getInputs()[0]);
  }
  SmallVector<int64_t> shape(type.getShape());
  shape[split] = divisor;
  shape.insert(shape.begin() + split + 1, extent / divisor);
  SmallVector<int64_t> first{split + 1};
  for (int64_t dim : dims.drop_front(whole + 1))
    first.push_back(dim + 1);
  OpBuilder b(op);
  Value view = stablehlo::ReshapeOp::create(b, op.getLoc(), type.clone(shape),
                                            op.getInputs()[0]);
  stablehlo::ReduceOp inner = reduceOver(b, op, view, first);
  stablehlo::ReduceOp outer =
      reduceOver(b, op, inner.getResult(0), dims.take_front(whole + 1));
  op.getResult(0).replaceAllUsesWith(outer.getResult(0));
  op.erase();
  ++numSplitReduces;
}

void PreparePlanPass::splitReduce(stablehlo::ReduceOp op) {
  // Both stages add the initial value.
  if (!stablehlo::hasNeutralInit(op))
    return;
  OpBuilder b(op);
  Value input = op.getInputs()[0];
  RankedTensorType type = typeOf(input);
  SmallVector<int64_t> dims(op.getDimensions());
  llvm::sort(dims);
  // Trailing dimensions first, then the others.
  SmallVector<int64_t> trailing, others;
  int64_t end = type.getRank();
  for (int64_t d : llvm::reverse(dims)) {
    if (d == end - 1) {
      trailing.insert(trailing.begin(), d);
      end = d;
    } else {
      others.insert(others.begin(), d);
    }
  }
  if (!trailing.empty() && !others.empty()) {
    stablehlo::ReduceOp inner = reduceOver(b, op, input, trailing);
    stablehlo::ReduceOp outer = reduceOver(b, op, inner.getResult(0), others);
    op.getResult(0).replaceAllUsesWith(outer.getResult(0));
    op.erase();
    ++numSplitReduces;
    splitReduce(inner);
    splitReduce(outer);
    return;
  }
  if (trailing.empty() && !others.empty())
    return splitAcross(op, others);
  int64_t results = typeOf(op.getResult(0)).getNumElements();
  int64_t total = type.getNumElements();
  if (others.empty() && results < 16 && total >= kTwoStageElements) {
    int64_t columns = getStageColumns(op, total / results, isGPU);
    int64_t parts = total / results / columns;
    if (parts == 1)
      return;
    SmallVector<int64_t> shape(typeOf(op.getResult(0)).getShape());
    int64_t kept = shape.size();
    shape.append({parts, columns});
    Value view =
        stablehlo::ReshapeOp::create(b, op.getLoc(), type.clone(shape), input);
    stablehlo::ReduceOp inner = reduceOver(b, op, view, {kept + 1});
    stablehlo::ReduceOp outer = reduceOver(b, op, inner.getResult(0), {kept});
    op.getResult(0).replaceAllUsesWith(outer.getResult(0));
    op.erase();
    ++numSplitReduces;
  }
}

void PreparePlanPass::runOnOperation() {
  wideOf.clear();
  isGPU = TargetAttr::of(getOperation()).isGPU;
  shareScales(getOperation());
  Block &block = getOperation().getBody().front();
  // A complex value is left because of an op that has no expansion, so errors
  // name that one before those that make and split the value.
  auto isGlue =
      llvm::IsaPred<stablehlo::ComplexOp, stablehlo::RealOp, stablehlo::ImagOp>;
  for (bool glue : {false, true})
    for (Operation &op : block)
      if (isGlue(&op) == glue && failed(check(&op)))
        return signalPassFailure();
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (stablehlo::isPlainBarrier(&op)) {
      op.replaceAllUsesWith(op.getOperands());
      op.erase();
    } else if (auto dot = dyn_cast<stablehlo::DotGeneralOp>(op)) {
      if (typeOf(dot.getLhs()).getNumElements() == 0 ||
          typeOf(dot.getRhs()).getNumElements() == 0) {
        replaceEmptyDot(dot);
        continue;
      }
      auto isFloat = [](Value v) {
        Type element = typeOf(v).getElementType();
        return isa<FloatType>(element) && !element.isF64();
      };
      if (!llvm::all_of(dot->getOperands(), isFloat) ||
          !isFloat(dot.getResult()))
        expandDot(dot);
      else
        widenDot(dot);
    }
  }
  for (auto reduce :
       llvm::make_early_inc_range(block.getOps<stablehlo::ReduceOp>()))
    splitReduce(reduce);
  UseDistances distances;
  distances.otherPhase = phaseDistance;
  NearUses near(block, distances);
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isa<DequantizeOp>(op))
      numRemade += near.rematerialise(&op);
  for (auto [value, wide] : wideOf)
    numRemade += near.rematerialise(wide.getDefiningOp());
  wideOf.clear();
}
