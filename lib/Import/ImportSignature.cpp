//===- ImportSignature.cpp - Arguments and results of whole bytes ---------===//
//
// The plan's memory holds real numbers of whole bytes. So an argument or result
// of complex numbers is a tensor with a last dimension of two, the real and the
// imaginary part, as every library stores complex numbers; one of 2 or 4 bits
// is a tensor of 8 bits, as NumPy stores them. The program's own type stays in
// an attribute, which the artefact names to the caller.
//
//===----------------------------------------------------------------------===//

#include "ArgumentInfo.h"
#include "scalify/Dialect/Scalify/ElementAttr.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Import/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_IMPORTSIGNATUREPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Returns the type that holds a value of `type` in memory, if it is another.
static RankedTensorType getStored(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return {};
  Type element = tensor.getElementType();
  if (auto complex = dyn_cast<ComplexType>(element)) {
    auto shape = llvm::to_vector(tensor.getShape());
    shape.push_back(2);
    return RankedTensorType::get(shape, complex.getElementType());
  }
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() == 1 || integer.getWidth() >= 8)
    return {};
  return tensor.clone(
      IntegerType::get(type.getContext(), 8, integer.getSignedness()));
}

static Value load(ImplicitLocOpBuilder &b, Value stored,
                  RankedTensorType type) {
  auto complex = dyn_cast<ComplexType>(type.getElementType());
  if (!complex)
    return ConvertOp::create(b, type, stored);
  auto part = [&](int64_t index) -> Value {
    Value slice = SliceOp::create(b, stored, typeOf(stored).getRank() - 1,
                                  index, index + 1);
    return ReshapeOp::create(b, type.clone(complex.getElementType()), slice);
  };
  return ComplexOp::create(b, part(0), part(1));
}

static Value store(ImplicitLocOpBuilder &b, Value value,
                   RankedTensorType stored) {
  if (!isa<ComplexType>(getElementTypeOrSelf(value)))
    return ConvertOp::create(b, stored, value);
  auto shape = llvm::to_vector(stored.getShape());
  shape.back() = 1;
  auto part = [&](Value real) -> Value {
    return ReshapeOp::create(b, stored.clone(shape), real);
  };
  return ConcatenateOp::create(b,
                               ValueRange{part(RealOp::create(b, value)),
                                          part(ImagOp::create(b, value))},
                               static_cast<int64_t>(shape.size()) - 1);
}

namespace {
struct ImportSignature
    : scalify::impl::ImportSignaturePassBase<ImportSignature> {
  void runOnOperation() override;
};
} // namespace

void ImportSignature::runOnOperation() {
  FailureOr<func::FuncOp> main = import::getMain(getOperation());
  if (failed(main))
    return signalPassFailure();
  Block &body = main->getBody().front();
  Operation *end = body.getTerminator();
  for (BlockArgument argument : body.getArguments()) {
    RankedTensorType stored = getStored(argument.getType());
    if (!stored)
      continue;
    auto type = typeOf(argument);
    main->setArgAttr(argument.getArgNumber(), kElementAttr,
                     TypeAttr::get(type.getElementType()));
    argument.setType(stored);
    auto b = ImplicitLocOpBuilder::atBlockBegin(argument.getLoc(), &body);
    SmallVector<OpOperand *> uses = llvm::map_to_vector(
        argument.getUses(), [](OpOperand &use) { return &use; });
    Value value = load(b, argument, type);
    for (OpOperand *use : uses)
      use->set(value);
  }
  for (OpOperand &result : end->getOpOperands()) {
    RankedTensorType stored = getStored(result.get().getType());
    if (!stored)
      continue;
    main->setResultAttr(
        result.getOperandNumber(), kElementAttr,
        TypeAttr::get(getElementTypeOrSelf(result.get().getType())));
    ImplicitLocOpBuilder b(result.get().getLoc(), end);
    result.set(store(b, result.get(), stored));
  }
  updateFunctionType(*main);
}
