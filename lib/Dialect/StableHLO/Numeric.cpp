//===- Numeric.cpp - Random numbers, transforms, solvers ------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::stablehlo;

LogicalResult RngBitGeneratorOp::verify() {
  auto state = cast<RankedTensorType>(getInitialState().getType());
  // rng_bit_generator_c1
  if (!detail::areCompatibleTypes(TypeRange{state},
                                  TypeRange{getOutputState().getType()}))
    return emitOpError() << "needs a next state of type " << state
                         << " but got " << getOutputState().getType();
  return success();
}

LogicalResult RngOp::verify() {
  auto shape = cast<RankedTensorType>(getShape().getType());
  auto result = cast<RankedTensorType>(getType());
  // rng_c1 to c3
  Type scalar = RankedTensorType::get({}, result.getElementType());
  if (getA().getType() != scalar || getB().getType() != scalar)
    return emitOpError() << "needs parameters of type " << scalar << " but got "
                         << getA().getType() << " and " << getB().getType();
  // rng_c4
  if (shape.getRank() != 1 ||
      !sizesAgree(shape.getDimSize(0), result.getRank()))
    return emitOpError() << "needs " << result.getRank()
                         << " entries of shape but got " << shape;
  return success();
}

LogicalResult FftOp::verify() {
  auto operand = cast<RankedTensorType>(getOperand().getType());
  auto result = cast<RankedTensorType>(getType());
  ArrayRef<int64_t> length = getFftLength();
  int64_t rank = operand.getRank(), count = length.size();
  // fft_c1, fft_c3
  if (count < 1 || count > 3 || count > rank)
    return emitOpError() << "needs 1 to 3 lengths, at most one per dimension, "
                            "but got "
                         << count << " for " << operand;
  // fft_c2
  bool fromReal = getFftType() == FftType::RFFT;
  bool toReal = getFftType() == FftType::IRFFT;
  if (fromReal == isa<ComplexType>(operand.getElementType()) ||
      toReal == isa<ComplexType>(result.getElementType()))
    return emitOpError() << "cannot take " << stringifyFftType(getFftType())
                         << " from " << operand << " to " << result;
  // fft_c4, fft_c5
  SmallVector<int64_t> from(operand.getShape()), to(from);
  SmallVector<int64_t> expected(from);
  for (auto [i, size] : llvm::enumerate(length)) {
    expected[rank - count + i] = size;
    to[rank - count + i] = size;
  }
  int64_t half = length.back() == 0 ? 0 : length.back() / 2 + 1;
  if (fromReal)
    to.back() = half;
  if (toReal)
    expected.back() = half;
  if (failed(verifyCompatibleShape(expected, operand.getShape())) ||
      failed(verifyCompatibleShape(to, result.getShape())))
    return emitOpError() << "has lengths that do not fit " << operand << " and "
                         << result;
  return success();
}

/// Checks that the last two dimensions make square matrices.
static LogicalResult checkSquare(Operation *op, RankedTensorType type) {
  int64_t rank = type.getRank();
  if (rank < 2 ||
      !sizesAgree(type.getDimSize(rank - 1), type.getDimSize(rank - 2)))
    return op->emitOpError() << "needs square matrices but got " << type;
  return success();
}

LogicalResult CholeskyOp::verify() {
  // cholesky_c2, cholesky_c3
  return checkSquare(*this, cast<RankedTensorType>(getA().getType()));
}

LogicalResult TriangularSolveOp::verify() {
  auto a = cast<RankedTensorType>(getA().getType());
  auto b = cast<RankedTensorType>(getB().getType());
  // triangular_solve_c2, triangular_solve_c3
  if (failed(checkSquare(*this, a)))
    return failure();
  int64_t rank = a.getRank();
  int64_t side = rank - (getLeftSide() ? 2 : 1);
  if (b.getRank() != rank ||
      failed(verifyCompatibleShape(a.getShape().drop_back(2),
                                   b.getShape().drop_back(2))) ||
      !sizesAgree(a.getDimSize(rank - 1), b.getDimSize(side)))
    return emitOpError() << "cannot solve with " << a << " for " << b;
  // triangular_solve_c4
  if (!detail::areCompatibleTypes(TypeRange{b}, TypeRange{getType()}))
    return emitOpError() << "needs a result of type " << b << " but got "
                         << getType();
  if (getTransposeA() == Transpose::TRANSPOSE_INVALID)
    return emitOpError("needs a valid transpose_a");
  return success();
}

//===----------------------------------------------------------------------===//
// Batch normalisation
//===----------------------------------------------------------------------===//

/// Checks that statistics have one element per feature of `operand`.
static LogicalResult checkStatistics(Operation *op, Value operand,
                                     int64_t feature, ValueRange statistics) {
  auto type = cast<RankedTensorType>(operand.getType());
  if (failed(checkDims(op->getLoc(), op->getName().getStringRef(),
                       "feature_index", feature, type.getRank())))
    return failure();
  for (Type other : statistics.getTypes()) {
    auto statistic = cast<RankedTensorType>(other);
    if (statistic.getRank() != 1 ||
        !sizesAgree(statistic.getDimSize(0), type.getDimSize(feature)))
      return op->emitOpError() << "needs one element per feature of " << type
                               << " but got " << statistic;
  }
  return success();
}

/// Checks that a result has the operand's type.
static LogicalResult checkNormalised(Operation *op, Value operand,
                                     Value result) {
  if (scalify::stablehlo::detail::areCompatibleTypes(
          TypeRange{operand.getType()}, TypeRange{result.getType()}))
    return success();
  return op->emitOpError() << "needs a result of type " << operand.getType()
                           << " but got " << result.getType();
}

LogicalResult BatchNormTrainingOp::verify() {
  // batch_norm_training_c1 to c7
  if (failed(checkStatistics(
          *this, getOperand(), getFeatureIndex(),
          {getScale(), getOffset(), getBatchMean(), getBatchVar()})))
    return failure();
  return checkNormalised(*this, getOperand(), getOutput());
}

LogicalResult BatchNormInferenceOp::verify() {
  // batch_norm_inference_c1 to c7
  if (failed(
          checkStatistics(*this, getOperand(), getFeatureIndex(),
                          {getScale(), getOffset(), getMean(), getVariance()})))
    return failure();
  return checkNormalised(*this, getOperand(), getResult());
}

LogicalResult BatchNormGradOp::verify() {
  // batch_norm_grad_c1 to c5
  if (failed(checkStatistics(*this, getOperand(), getFeatureIndex(),
                             {getScale(), getMean(), getVariance(),
                              getGradScale(), getGradOffset()})))
    return failure();
  if (failed(checkNormalised(*this, getOperand(), getGradOutput())))
    return failure();
  return checkNormalised(*this, getOperand(), getGradOperand());
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Numeric.cpp.inc"
