//===- NarrowOperands.cpp - Narrow data behind the operands of dots -------===//

#include "NarrowOperands.h"

#include "Expansions.h"
#include "ScaleEntries.h"

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"

using namespace mlir;
using namespace scalify;

static NarrowOperand withFreeDims(NarrowOperand operand) {
  for (int64_t d = 0; d < typeOf(operand.value).getRank(); ++d)
    if (!llvm::is_contained(operand.batch, d) &&
        !llvm::is_contained(operand.sum, d))
      operand.free.push_back(d);
  return operand;
}

/// True if the op pads with zeros, which every format has.
static bool padsWithZeros(Operation *op) {
  auto pad = dyn_cast<stablehlo::PadOp>(op);
  auto constant =
      pad ? pad.getPaddingValue().getDefiningOp<stablehlo::ConstantOp>()
          : stablehlo::ConstantOp();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue())
                        : SplatElementsAttr();
  return splat && isa<FloatType>(splat.getElementType()) &&
         splat.getSplatValue<APFloat>().isPosZero();
}

bool scalify::isDataView(Operation *op) {
  using namespace stablehlo;
  return op && (isa<BroadcastInDimOp, ReshapeOp, ReverseOp, SliceOp,
                    TransposeOp, plan::WindowsOp>(op) ||
                padsWithZeros(op));
}

static NarrowOperand findNarrow(Value value) {
  NarrowOperand operand;
  operand.value = operand.data = value;
  while (isDataView(operand.data.getDefiningOp()))
    operand.data = operand.data.getDefiningOp()->getOperand(0);
  if (auto wide = operand.data.getDefiningOp<DequantizeOp>()) {
    if (typeOf(wide.getScale()).getRank() != 0)
      operand.byBlocks = wide;
    operand.entry = wide->getAttr(plan::kScaleEntryAttr);
    operand.scale = wide.getScale();
    operand.data = wide.getOperand(0);
    operand.isWidened = true;
  } else if (auto wide = operand.data.getDefiningOp<stablehlo::ConvertOp>();
             wide && elementOf(operand.data).isF32()) {
    operand.data = wide.getOperand();
    operand.isWidened = true;
  }
  return operand;
}

NarrowOperand scalify::getNarrowLhs(stablehlo::DotGeneralOp op) {
  NarrowOperand operand = findNarrow(op.getLhs());
  auto numbers = op.getDotDimensionNumbers();
  llvm::append_range(operand.batch, numbers.getLhsBatchingDimensions());
  llvm::append_range(operand.sum, numbers.getLhsContractingDimensions());
  return withFreeDims(operand);
}

NarrowOperand scalify::getNarrowRhs(stablehlo::DotGeneralOp op) {
  NarrowOperand operand = findNarrow(op.getRhs());
  auto numbers = op.getDotDimensionNumbers();
  llvm::append_range(operand.batch, numbers.getRhsBatchingDimensions());
  llvm::append_range(operand.sum, numbers.getRhsContractingDimensions());
  return withFreeDims(operand);
}

int64_t scalify::extentOf(const NarrowOperand &operand,
                          ArrayRef<int64_t> dims) {
  int64_t extent = 1;
  for (int64_t d : dims)
    extent *= typeOf(operand.value).getDimSize(d);
  return extent;
}

bool scalify::isFilled(const NarrowOperand &operand) {
  return extentOf(operand, operand.sum) % kFP8Alignment != 0;
}

bool scalify::hasSumInnermost(const StridedView &view,
                              const NarrowOperand &operand) {
  if (view.offset % kFP8Alignment)
    return false;
  SmallVector<Dim> sums;
  for (int64_t d : operand.sum)
    sums.push_back(view.dims[d]);
  std::optional<Dim> sum = collapse(sums);
  if (!sum || sum->stride != 1)
    return false;
  return llvm::all_of(llvm::enumerate(view.dims), [&](auto entry) {
    Dim dim = entry.value();
    return llvm::is_contained(operand.sum, int64_t(entry.index())) ||
           dim.size == 1 || dim.stride % kFP8Alignment == 0;
  });
}

Value scalify::padRows(Value value, OpBuilder &b) {
  auto type = typeOf(value);
  SmallVector<int64_t> none(type.getRank(), 0), high(none);
  high.back() = -type.getShape().back() & (kFP8Alignment - 1);
  ImplicitLocOpBuilder at(value.getLoc(), b);
  Value zero = zeroOf(at, type.getElementType());
  return stablehlo::PadOp::create(b, value.getLoc(), value, zero, none, high,
                                  none);
}

bool scalify::isWhole(const StridedView &lies, ArrayRef<int64_t> order) {
  SmallVector<Dim> dims;
  for (int64_t d : order)
    dims.push_back(lies.dims[d]);
  std::optional<Dim> all = collapse(dims);
  return lies.offset == 0 && all && all->stride == 1 &&
         all->size == typeOf(lies.base).getNumElements();
}
