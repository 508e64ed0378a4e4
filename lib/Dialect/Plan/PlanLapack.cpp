//===- PlanLapack.cpp - Calls of LAPACK in a plan -------------------------===//

#include "scalify/Dialect/Plan/PlanLapack.h"

#include "blas/LapackShape.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::plan;

/// A batch is cut into at most this many tasks, if their work spaces have no
/// more bytes than that together.
static constexpr int64_t kMostTasks = 16;
static constexpr int64_t kMostWorkBytes = int64_t(1) << 25;

template <typename Op> static rt::LapackShape shapeOf(Op op) {
  ArrayRef<int64_t> sizes = op.getSizes();
  rt::LapackShape shape;
  shape.routine = *rt::parseLapackRoutine(op.getRoutine().str());
  shape.batch = sizes[0];
  shape.m = sizes[1];
  shape.n = sizes[2];
  shape.k = sizes[3];
  shape.letters = op.getLetters().str();
  shape.isComplex = op.getIsComplex();
  return shape;
}

template <typename Op>
static LogicalResult verifyOperand(Op op, Type type,
                                   const rt::LapackOperand &operand,
                                   Type element) {
  auto shaped = cast<ShapedType>(type);
  Type wanted =
      operand.isInteger ? Type(IntegerType::get(op.getContext(), 32)) : element;
  if (shaped.getElementType() != wanted || !shaped.hasStaticShape() ||
      shaped.getNumElements() != op.getSizes()[0] * operand.elements())
    return op.emitOpError("has an operand of type ")
           << type << ", not " << op.getSizes()[0] << " times " << operand.rows
           << " x " << operand.cols << " of " << wanted;
  return success();
}

/// Checks the values of operands, two for one of complex numbers.
template <typename Op>
static LogicalResult verifyOperands(Op op, ValueRange values,
                                    ArrayRef<rt::LapackOperand> operands,
                                    Type element) {
  for (const rt::LapackOperand &operand : operands)
    for (int64_t part = 0; part < operand.parts(); ++part) {
      if (failed(verifyOperand(op, values.front().getType(), operand, element)))
        return failure();
      values = values.drop_front();
    }
  return success();
}

static size_t countParts(ArrayRef<rt::LapackOperand> operands) {
  size_t count = 0;
  for (const rt::LapackOperand &operand : operands)
    count += operand.parts();
  return count;
}

template <typename Op>
static FailureOr<rt::LapackSignature> verifyCall(Op op, ValueRange reads,
                                                 ValueRange writes) {
  if (!rt::parseLapackRoutine(op.getRoutine().str()))
    return op.emitOpError("calls '")
           << op.getRoutine() << "', which the runtime does not";
  if (op.getSizes().size() != 4)
    return op.emitOpError("needs the sizes batch, m, n and k");
  rt::LapackSignature signature;
  std::string problem = rt::makeLapackSignature(shapeOf(op), signature);
  if (!problem.empty())
    return op.emitOpError(problem);
  size_t numReads = countParts(signature.reads);
  size_t numWrites = countParts(signature.writes);
  if (reads.size() != numReads || writes.size() != numWrites)
    return op.emitOpError("needs ")
           << numReads << " operands and " << numWrites << " results";
  Type element = getElementTypeOrSelf(reads[0].getType());
  if (!element.isF32() && !element.isF64())
    return op.emitOpError("computes in f32 or f64, not ") << element;
  if (failed(verifyOperands(op, reads, signature.reads, element)) ||
      failed(verifyOperands(op, writes, signature.writes, element)))
    return failure();
  return signature;
}

LogicalResult FactorizeOp::verify() {
  return verifyCall(*this, getInputs(), getOutputs());
}

LogicalResult LapackOp::verify() {
  FailureOr<rt::LapackSignature> signature =
      verifyCall(*this, getReads(), getWrites());
  if (failed(signature))
    return failure();
  auto work = cast<MemRefType>(getWork().getType());
  if (work.getElementType() != getElementTypeOrSelf(getReads()[0].getType()) ||
      !work.hasStaticShape())
    return emitOpError("has a work space of type ")
           << work << ", not of the matrices' type";
  if (getSizes()[0] > 0 && work.getNumElements() < signature->floats())
    return emitOpError("has a work space of type ")
           << work << ", and needs " << signature->floats() << " elements";
  return success();
}

RankedTensorType scalify::plan::getWorkType(FactorizeOp op) {
  rt::LapackShape shape = shapeOf(op);
  rt::LapackSignature signature;
  rt::makeLapackSignature(shape, signature);
  Type element = getElementTypeOrSelf(op.getInputs()[0].getType());
  int64_t floats = std::max<int64_t>(signature.floats(), 1);
  int64_t bytes = floats * (element.getIntOrFloatBitWidth() / 8);
  int64_t tasks = std::clamp<int64_t>(kMostWorkBytes / bytes, 1, kMostTasks);
  tasks = std::min(tasks, std::max<int64_t>(shape.batch, 1));
  return RankedTensorType::get({tasks * floats}, element);
}
