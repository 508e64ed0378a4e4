//===- PlanGemms.cpp - Verification of GEMMs ------------------------------===//
//
// GEMMs stay in bounds, and for a GPU meet the constraints of its library.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/PlanStreams.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::plan;

int64_t scalify::plan::countScales(Scaling scaling, int64_t rows, int64_t k) {
  int64_t blocks = llvm::divideCeil(k, kScaleBlock);
  switch (scaling) {
  case Scaling::Tensor:
    return 1;
  case Scaling::Rows:
    return rows;
  case Scaling::Vectors:
    return rows * blocks;
  case Scaling::Blocks:
    return llvm::divideCeil(rows, kScaleBlock) * llvm::alignTo(blocks, 4);
  }
  llvm_unreachable("unknown scaling");
}

bool scalify::plan::hasBias(Epilogue epilogue) {
  return epilogue == Epilogue::Bias || epilogue == Epilogue::BiasReLU ||
         epilogue == Epilogue::BiasGELU;
}

bool scalify::plan::hasReLU(Epilogue epilogue) {
  return epilogue == Epilogue::ReLU || epilogue == Epilogue::BiasReLU;
}

bool scalify::plan::hasGELU(Epilogue epilogue) {
  return epilogue == Epilogue::GELU || epilogue == Epilogue::BiasGELU;
}

bool scalify::plan::isGradient(Epilogue epilogue) {
  return epilogue == Epilogue::ReLUGrad || epilogue == Epilogue::GELUGrad;
}

int64_t scalify::plan::getMaskBytes(int64_t n) {
  constexpr int64_t rowBits = 128;
  return llvm::alignTo(n, rowBits) / 8;
}

Type scalify::plan::getBiasType(Type operand, Type result) {
  if (!hasFP8Elements(operand) || result.isF16())
    return result;
  return BFloat16Type::get(operand.getContext());
}

static LogicalResult verifyMatrix(GemmOp op, unsigned which, Value buffer,
                                  int64_t rows, int64_t cols,
                                  ArrayRef<int64_t> strides) {
  if (strides.size() != 2)
    return op.emitOpError("needs two strides for each matrix");
  int64_t last = op.getOffsets()[which] + (rows - 1) * strides[0] +
                 (cols - 1) * strides[1];
  for (auto [i, extent] : llvm::enumerate(op.getBatch()))
    last += (extent - 1) * op.getBatchStrides()[3 * i + which];
  auto type = cast<MemRefType>(buffer.getType());
  if (last >= type.getNumElements())
    return op.emitOpError("touches element ")
           << last << " of operand " << which << ", which has "
           << type.getNumElements();
  return success();
}

static bool isFP8(Value buffer) { return hasFP8Elements(buffer.getType()); }

/// Elements of FP8 in 16 bytes.
static constexpr int64_t kFP8Alignment = 16;

// Hopper reads FP8 operands along the reduction dimension, 16 bytes at a time.
static LogicalResult verifyFP8(GemmOp op, unsigned which, int64_t sumStride,
                               int64_t freeStride, int64_t free) {
  bool isAligned = op.getOffsets()[which] % kFP8Alignment == 0 &&
                   (free == 1 || freeStride % kFP8Alignment == 0);
  for (size_t i = 0; i < op.getBatch().size(); ++i)
    isAligned &= op.getBatchStrides()[3 * i + which] % kFP8Alignment == 0;
  if (sumStride != 1 || op.getK() % kFP8Alignment || !isAligned)
    return op.emitOpError("has FP8 operand ")
           << which
           << ", which must lie along the sum, in multiples of 16 elements";
  return success();
}

// Hopper writes 16 bytes at a time too.
static LogicalResult verifyFP8Result(GemmOp op) {
  constexpr int64_t bytes = 16;
  Type type = cast<MemRefType>(op.getC().getType()).getElementType();
  bool isRowMajor = op.getCStrides()[1] == 1;
  auto inner = static_cast<int64_t>(isRowMajor ? op.getN() : op.getM());
  auto outer = static_cast<int64_t>(isRowMajor ? op.getM() : op.getN());
  int64_t step = outer == 1 ? 0 : op.getCStrides()[isRowMajor ? 0 : 1];
  bool isAligned = true;
  for (int64_t count : {inner, step, op.getOffsets()[2]})
    isAligned &= count * elementBytes(type) % bytes == 0;
  for (size_t i = 0; i < op.getBatch().size(); ++i)
    isAligned &=
        op.getBatchStrides()[3 * i + 2] * elementBytes(type) % bytes == 0;
  if (!isAligned)
    return op.emitOpError("has FP8 operands, and a result whose rows are no "
                          "multiples of 16 bytes");
  return success();
}

// Checks the scale layouts of cuBLASLt for Hopper from CUDA 12.9 on.
static LogicalResult verifyScalings(GemmOp op) {
  Scaling a = op.getAScaling(), b = op.getBScaling();
  if (a == Scaling::Tensor && b == Scaling::Tensor)
    return success();
  auto isOf128 = [](Scaling scaling) {
    return scaling == Scaling::Vectors || scaling == Scaling::Blocks;
  };
  bool isPair = (a == Scaling::Rows && b == Scaling::Rows) ||
                (isOf128(a) && isOf128(b) &&
                 (a == Scaling::Vectors || b == Scaling::Vectors));
  if (!isPair)
    return op.emitOpError("has scales by ")
           << stringifyScaling(a) << " x " << stringifyScaling(b)
           << ", which the library does not multiply";
  if (op.getScales().empty())
    return op.emitOpError("has a layout of scales, but no scales");
  if (!op.getBatch().empty())
    return op.emitOpError("has a batch, and more than one scale an operand");
  if (isOf128(a) && (op.getM() % 4 || op.getN() % 4))
    return op.emitOpError("has scales by blocks, and rows that are no multiple "
                          "of 4");
  return success();
}

static LogicalResult verifyScales(GemmOp op) {
  if (failed(verifyScalings(op)))
    return failure();
  if (op.getScales().empty())
    return success();
  if (op.getScales().size() != 2 || !isFP8(op.getA()))
    return op.emitOpError("takes two scales, those of its FP8 operands");
  auto k = static_cast<int64_t>(op.getK());
  int64_t wanted[] = {
      countScales(op.getAScaling(), static_cast<int64_t>(op.getM()), k),
      countScales(op.getBScaling(), static_cast<int64_t>(op.getN()), k)};
  for (auto [scale, count] : llvm::zip_equal(op.getScales(), wanted)) {
    auto type = cast<MemRefType>(scale.getType());
    if (!type.getElementType().isF32() || type.getNumElements() != count)
      return op.emitOpError("has scales of type ")
             << type << ", not " << count << " of F32";
  }
  return success();
}

static LogicalResult verifyBias(GemmOp op) {
  auto type = cast<MemRefType>(op.getBias().getType());
  auto elementOf = [](Value buffer) {
    return cast<MemRefType>(buffer.getType()).getElementType();
  };
  Type wanted = getBiasType(elementOf(op.getA()), elementOf(op.getC()));
  if (type.getElementType() != wanted)
    return op.emitOpError("has a bias of ")
           << type.getElementType() << ", and the library adds one of "
           << wanted;
  int64_t first = op.getOffsets()[3];
  int64_t end = first + static_cast<int64_t>(op.getN());
  if (end > type.getNumElements())
    return op.emitOpError("reads element ")
           << end - 1 << " of a bias of " << type.getNumElements();
  if (first * elementBytes(wanted) % kBiasAlignment)
    return op.emitOpError("has a bias that lies at no multiple of ")
           << kBiasAlignment << " bytes";
  return success();
}

/// A mask has one bit per element, in rows that the library aligns.
static LogicalResult verifyMask(GemmOp op, Value mask) {
  auto type = cast<MemRefType>(mask.getType());
  int64_t bytes = static_cast<int64_t>(op.getM()) *
                  getMaskBytes(static_cast<int64_t>(op.getN()));
  if (!type.getElementType().isUnsignedInteger(8) ||
      type.getNumElements() != bytes)
    return op.emitOpError("has a mask of type ")
           << type << ", not " << bytes << " bytes";
  if (!op.getBatch().empty())
    return op.emitOpError("has a batch, which a ReLU's mask does not support");
  if (isFP8(op.getA()))
    return op.emitOpError("has FP8 operands, which a ReLU's mask does not "
                          "support");
  return success();
}

/// A GELU's saved input has the layout of the result.
static LogicalResult verifyGELUInput(GemmOp op, Value buffer) {
  if (buffer.getType() != op.getC().getType() || op.getOffsets()[2] != 0)
    return op.emitOpError("has a GELU's input in another layout than its "
                          "result");
  bool isAligned = op.getM() == 1 || op.getCStrides()[0] % kAuxAlignment == 0;
  for (size_t i = 2; i < op.getBatchStrides().size(); i += 3)
    isAligned &= op.getBatchStrides()[i] % kAuxAlignment == 0;
  if (!isAligned)
    return op.emitOpError("has a GELU's input in rows of no multiple of ")
           << kAuxAlignment << " elements";
  return success();
}

static bool isOneF32(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  return type.getElementType().isF32() && type.getNumElements() == 1;
}

/// Checks an FP8 c against the library's table of types.
static LogicalResult verifyNarrowResult(GemmOp op) {
  if (op.getInto() && !isFP8(op.getC()))
    return op.emitOpError("scales a result that is not FP8");
  if (!isFP8(op.getC()))
    return success();
  if (!isFP8(op.getA()))
    return op.emitOpError("has a result of FP8, and operands that are not");
  auto isE5M2 = [](Value buffer) {
    return isa<Float8E5M2Type>(
        cast<MemRefType>(buffer.getType()).getElementType());
  };
  if (isE5M2(op.getC()) && !isE5M2(op.getA()) && !isE5M2(op.getB()))
    return op.emitOpError("has a result of E5M2, and no operand of E5M2");
  if (op.getAScaling() != Scaling::Tensor ||
      op.getBScaling() != Scaling::Tensor || !op.getBatch().empty())
    return op.emitOpError("has a result of FP8, and a batch or more than one "
                          "scale an operand");
  if (op.getSaved())
    return op.emitOpError("has a result of FP8, and is a gradient");
  for (Value number : {op.getInto(), op.getAux()})
    if (number && !isOneF32(number))
      return op.emitOpError("has a result of FP8, and a scale or amax of type ")
             << number.getType() << ", not one F32";
  return success();
}

/// Checks the values that a forward GEMM keeps for a backward GEMM.
static LogicalResult verifySavedValues(GemmOp op) {
  Epilogue epilogue = op.getEpilogue();
  if (isFP8(op.getC()))
    return success(); // aux is its largest magnitude
  if (op.getAux() && !hasReLU(epilogue) && !hasGELU(epilogue))
    return op.emitOpError("has 'aux', but no ReLU or GELU");
  if (isGradient(epilogue) != static_cast<bool>(op.getSaved()))
    return op.emitOpError(op.getSaved()
                              ? "has 'saved', but no gradient of a ReLU or "
                                "GELU"
                              : "has the gradient of a ReLU or GELU, but no "
                                "'saved'");
  bool isMask = hasReLU(epilogue) || epilogue == Epilogue::ReLUGrad;
  for (Value kept : {op.getAux(), op.getSaved()})
    if (kept &&
        failed(isMask ? verifyMask(op, kept) : verifyGELUInput(op, kept)))
      return failure();
  return success();
}

// The library is column-major and adds element i of the bias to row i. Its
// contiguous columns are the rows of C.
static LogicalResult verifyEpilogue(GemmOp op) {
  Epilogue epilogue = op.getEpilogue();
  if (hasBias(epilogue) != static_cast<bool>(op.getBias()))
    return op.emitOpError(op.getBias() ? "has a bias, but no epilogue that "
                                         "adds it"
                                       : "adds a bias, but has none");
  if (failed(verifySavedValues(op)))
    return failure();
  if (epilogue == Epilogue::None)
    return success();
  if (op.getCStrides()[1] != 1)
    return op.emitOpError("has an epilogue, and rows that are not contiguous");
  if (op.getAScaling() != Scaling::Tensor ||
      op.getBScaling() != Scaling::Tensor)
    return op.emitOpError(
        "has an epilogue, and more than one scale an operand");
  if (isFP8(op.getA()) && !op.getBatch().empty())
    return op.emitOpError("has an epilogue, and a batch of FP8 products");
  auto elementOf = [](Value buffer) {
    return cast<MemRefType>(buffer.getType()).getElementType();
  };
  Type result = elementOf(op.getC());
  if (!isFP8(op.getA()) && !result.isF32() && result != elementOf(op.getA()))
    return op.emitOpError("has an epilogue, and rounds to ")
           << result << " a product of " << elementOf(op.getA());
  return op.getBias() ? verifyBias(op) : success();
}

LogicalResult GemmOp::verify() {
  if (getOffsets().size() != (getBias() ? 4 : 3))
    return emitOpError("needs three offsets, and one more for a bias");
  if (getBatchStrides().size() != 3 * getBatch().size())
    return emitOpError("needs three strides for each batch dimension");
  if (!std::isfinite(static_cast<float>(getAlpha().convertToDouble())))
    return emitOpError("has an alpha that F32 cannot hold: ") << getAlphaAttr();
  if (failed(verifyMatrix(*this, 0, getA(), getM(), getK(), getAStrides())) ||
      failed(verifyMatrix(*this, 1, getB(), getK(), getN(), getBStrides())) ||
      failed(verifyScales(*this)))
    return failure();
  auto isF32 = [](Value buffer) {
    return cast<MemRefType>(buffer.getType()).getElementType().isF32();
  };
  if (getTf32() && !(isF32(getA()) && isF32(getB())))
    return emitOpError("has 'tf32' and an operand that is not F32");
  if (isFP8(getA()) != isFP8(getB()))
    return emitOpError("has one FP8 operand: both are or none");
  if (isFP8(getA()) &&
      (failed(
           verifyFP8(*this, 0, getAStrides()[1], getAStrides()[0], getM())) ||
       failed(verifyFP8(*this, 1, getBStrides()[0], getBStrides()[1], getN()))))
    return failure();
  if (failed(verifyNarrowResult(*this)) ||
      failed(verifyMatrix(*this, 2, getC(), getM(), getN(), getCStrides())) ||
      failed(verifyEpilogue(*this)))
    return failure();
  return isFP8(getA()) ? verifyFP8Result(*this) : success();
}
