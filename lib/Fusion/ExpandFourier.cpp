//===- ExpandFourier.cpp - Fourier transforms as products -----------------===//
//
// Import has split complex tensors, so that a transform lies between
// `stablehlo.complex` and `real` or `imag`.
//
//===----------------------------------------------------------------------===//

#include "FourierTransforms.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDFOURIER
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

namespace {
struct ExpandFourierPass : scalify::impl::ExpandFourierBase<ExpandFourierPass> {
  void runOnOperation() override;
  bool expand(FftOp op);
};
} // namespace

/// Returns the parts of a transform's operand; nothing for a complex tensor
/// that no op joined.
static std::optional<ComplexParts> getParts(Value operand) {
  auto type = dyn_cast<RankedTensorType>(operand.getType());
  if (!type || !type.hasStaticShape())
    return std::nullopt;
  if (!isa<ComplexType>(type.getElementType()))
    return ComplexParts{operand, Value()};
  auto joined = operand.getDefiningOp<ComplexOp>();
  if (!joined)
    return std::nullopt;
  return ComplexParts{joined.getLhs(), joined.getRhs()};
}

bool ExpandFourierPass::expand(FftOp op) {
  std::optional<ComplexParts> parts = getParts(op.getOperand());
  bool isRead = llvm::all_of(op->getUsers(), [](Operation *user) {
    return isa<RealOp, ImagOp>(user);
  });
  bool isReal = op.getFftType() == FftType::IRFFT;
  if (!parts || !(isReal || isRead) || !hasTransform(op))
    return false;
  Operation *before = op->getPrevNode();
  ImplicitLocOpBuilder b(op.getLoc(), op);
  ComplexParts found = buildTransform(b, op, *parts);
  copyPhaseToInserted(op, before);
  if (isReal)
    op.getResult().replaceAllUsesWith(found.re);
  for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
    user->getResult(0).replaceAllUsesWith(isa<RealOp>(user) ? found.re
                                                            : found.im);
    user->erase();
  }
  Operation *joined = op.getOperand().getDefiningOp();
  op.erase();
  if (isa_and_nonnull<ComplexOp>(joined) && joined->use_empty())
    joined->erase();
  return true;
}

void ExpandFourierPass::runOnOperation() {
  SmallVector<FftOp> ops;
  getOperation().walk([&](FftOp op) { ops.push_back(op); });
  for (FftOp op : ops)
    numExpanded += expand(op);
}
