//===- BindSlices.cpp - Slices as buffers of kernels ----------------------===//
//
// A slice in a kernel's body is an offset in its code, so layers scanned over
// stacks would have a kernel each. The kernel gets the address of a contiguous
// slice as a buffer instead, and equal layers share code.
//
//===----------------------------------------------------------------------===//

#include "StridedView.h"

#include "scalify/Fusion/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace scalify {
#define GEN_PASS_DEF_BINDSLICES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// The alignment of the runtime's buffers, in bytes.
static constexpr int64_t kAlignment = 64;
/// The limit on a kernel's slices of one buffer: each is a pointer, and a
/// kernel with more is not one of equal layers.
static constexpr size_t kMaxSlices = 8;

/// Slices by their first byte.
using Slices = llvm::MapVector<int64_t, SmallVector<stablehlo::SliceOp>>;

namespace {
struct BindSlicesPass : scalify::impl::BindSlicesBase<BindSlicesPass> {
  void runOnOperation() override;

private:
  void bind(plan::KernelOp kernel);
  Value viewOf(Value buffer, int64_t byte, MemRefType type);

  llvm::DenseMap<std::tuple<Value, int64_t, Type>, Value> views;
};
} // namespace

/// Returns the first byte of a slice in its buffer if the slice is contiguous
/// and aligned as the runtime requires.
static std::optional<int64_t> findRun(stablehlo::SliceOp slice) {
  StridedView view = StridedView::of(slice.getResult());
  auto type = slice.getType();
  std::optional<Dim> run = collapse(view.dims);
  if (!isa<BlockArgument>(view.base) || !run ||
      run->size != type.getNumElements() || (run->size > 1 && run->stride != 1))
    return std::nullopt;
  int64_t byte = view.offset * plan::elementBytes(type.getElementType());
  auto whole = cast<RankedTensorType>(view.base.getType());
  // One element, such as a scale among many, needs only its own alignment.
  bool isAligned = run->size == 1 || byte % kAlignment == 0;
  if (!isAligned || run->size == whole.getNumElements())
    return std::nullopt;
  return byte;
}

/// Returns the slices by which a kernel reads a buffer; empty if it reads the
/// buffer in any other way.
static Slices findSlices(BlockArgument argument) {
  Slices slices;
  SmallVector<Value> seen{argument};
  while (!seen.empty()) {
    Value value = seen.pop_back_val();
    for (Operation *user : value.getUsers()) {
      if (isa<stablehlo::ReshapeOp>(user)) {
        seen.push_back(user->getResult(0));
        continue;
      }
      auto slice = dyn_cast<stablehlo::SliceOp>(user);
      std::optional<int64_t> byte =
          slice ? findRun(slice) : std::optional<int64_t>();
      if (!byte)
        return {};
      auto &same = slices[*byte];
      same.push_back(slice);
      if (same.front().getType().getNumElements() !=
          slice.getType().getNumElements())
        return {};
    }
  }
  return slices.size() <= kMaxSlices ? slices : Slices();
}

Value BindSlicesPass::viewOf(Value buffer, int64_t byte, MemRefType type) {
  Operation *op = buffer.getDefiningOp();
  if (auto temp = dyn_cast<plan::TempOp>(op); temp && temp.getWhole()) {
    byte += static_cast<int64_t>(temp.getStart().value_or(0));
    buffer = temp.getWhole();
  }
  Value &view = views[{buffer, byte, type}];
  if (view)
    return view;
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  IntegerAttr place = b.getI64IntegerAttr(byte);
  if (auto argument = dyn_cast<plan::ArgumentOp>(op)) {
    auto part = plan::ArgumentOp::create(b, op->getLoc(), type,
                                         argument.getIndexAttr());
    part->setAttr(plan::kOffsetAttr, place);
    return view = part;
  }
  if (auto result = dyn_cast<plan::ResultOp>(op)) {
    auto part = plan::ResultOp::create(
        b, op->getLoc(), type, result.getIndexAttr(), result.getAliasArgAttr());
    part->setAttr(plan::kOffsetAttr, place);
    return view = part;
  }
  return view = plan::TempOp::create(b, op->getLoc(), type, buffer, place,
                                     IntegerAttr(), IntegerAttr());
}

static bool isDivisible(Value buffer) {
  Operation *op = buffer.getDefiningOp();
  return isa<plan::TempOp>(op) || (isa<plan::ArgumentOp, plan::ResultOp>(op) &&
                                   !op->hasAttr(plan::kOffsetAttr));
}

/// Renumbers the reads of in-place pairs after the read at `gone` was erased.
static void renumber(plan::KernelOp kernel, int64_t gone) {
  if (auto pairs = kernel.getInplace()) {
    SmallVector<int64_t> shifted(*pairs);
    for (size_t i = 1; i < shifted.size(); i += 2)
      shifted[i] -= shifted[i] > gone;
    kernel.setInplace(shifted);
  }
}

/// Replaces slices of one place, whatever their shapes, by `part`.
static void replace(ArrayRef<stablehlo::SliceOp> slices, Value part) {
  for (stablehlo::SliceOp slice : slices) {
    Value value = part;
    if (OpBuilder b(slice); slice.getType() != part.getType())
      value = stablehlo::ReshapeOp::create(b, slice.getLoc(), slice.getType(),
                                           part);
    slice.getResult().replaceAllUsesWith(value);
    slice.erase();
  }
}

void BindSlicesPass::bind(plan::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  for (unsigned i = body.getNumArguments(); i-- > 0;) {
    Value buffer = kernel.getReads()[i];
    Slices slices;
    if (isDivisible(buffer) && !llvm::is_contained(kernel.getWrites(), buffer))
      slices = findSlices(body.getArgument(i));
    if (slices.empty())
      continue;
    for (auto &[byte, same] : slices) {
      RankedTensorType type = same.front().getType();
      auto memory = MemRefType::get(type.getShape(), type.getElementType());
      kernel.getReadsMutable().append(viewOf(buffer, byte, memory));
      replace(same, body.addArgument(type, same.front().getLoc()));
      ++numSlices;
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isa<stablehlo::ReshapeOp>(op) && op.use_empty())
        op.erase();
    body.eraseArgument(i);
    kernel.getReadsMutable().erase(i);
    renumber(kernel, i);
  }
}

void BindSlicesPass::runOnOperation() {
  views.clear();
  getOperation().walk([&](plan::KernelOp kernel) { bind(kernel); });
}
