//===- PlanCommands.cpp - Commands of library calls -----------------------===//

#include "CommandParts.h"
#include "PlanWriter.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/Plan/PlanLapack.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;

void PlanWriter::writeGemm(plan::MatmulOp op) {
  SmallVector<Value> scales;
  for (Value scale : op.getScales())
    scales.push_back(bufferOf(scale));
  auto gemm = plan::GemmOp::create(
      b, op.getLoc(), "dot", bufferOf(op.getA()), bufferOf(op.getB()),
      bufferOf(op.getC()), scales,
      op.getBias() ? bufferOf(op.getBias()) : Value(),
      op.getAux() ? bufferOf(op.getAux()) : Value(),
      op.getSaved() ? bufferOf(op.getSaved()) : Value(),
      op.getInto() ? bufferOf(op.getInto()) : Value(), op.getM(), op.getN(),
      op.getK(), op.getAStrides(), op.getBStrides(), op.getCStrides(),
      op.getOffsets(), op.getBatch(), op.getBatchStrides(), op.getAlpha(),
      op.getFastAccumulation(), op.getTf32(), op.getAScaling(),
      op.getBScaling(), op.getEpilogue());
  copyPhase(*clusters.of(op), op, gemm);
}

void PlanWriter::writeAttention(plan::AttendOp op) {
  auto buffersOf = [&](ValueRange values) {
    return llvm::map_to_vector(values,
                               [&](Value value) { return bufferOf(value); });
  };
  auto attention = plan::AttentionOp::create(
      b, op.getLoc(), op.getGradient() ? "attention_grad" : "attention",
      buffersOf(op.getOperands()), buffersOf(op.getResults()), op.getSizes(),
      op.getWindows(), op.getScale(), op.getCausal(), op.getGradient());
  copyPhase(*clusters.of(op), op, attention);
}

void PlanWriter::writeCollective(plan::CommunicateOp op) {
  auto collective = plan::CollectiveOp::create(
      b, op.getLoc(), op.getKind(), op.getJoin(), bufferOf(op.getSource()),
      bufferOf(op.getDestination()), op.getGroups());
  if (Attribute again = op->getAttr(plan::kGatheredAgainAttr))
    collective->setAttr(plan::kGatheredAgainAttr, again);
  copyPhase(*clusters.of(op), op, collective);
}

void PlanWriter::writeLapack(plan::FactorizeOp op) {
  auto one = [&](Value value) { return bufferOf(value); };
  SmallVector<Value> reads = llvm::map_to_vector(op.getInputs(), one);
  SmallVector<Value> writes = llvm::map_to_vector(op.getOutputs(), one);
  RankedTensorType work = plan::getWorkType(op);
  auto lapack =
      plan::LapackOp::create(b, op.getLoc(), op.getRoutine(), reads, writes,
                             newTemp(op.getLoc(), work), op.getSizes(),
                             op.getLetters(), op.getIsComplex());
  copyPhase(*clusters.of(op), op, lapack);
}

void PlanWriter::writeHostCall(plan::InvokeOp op) {
  auto one = [&](Value value) { return value ? bufferOf(value) : Value(); };
  SmallVector<Value> reads = llvm::map_to_vector(op.getInputs(), one);
  SmallVector<Value> writes = llvm::map_to_vector(op.getOutputs(), one);
  Value done = op.getAfter() ? writes.pop_back_val() : Value();
  SmallVector<Attribute> shapes;
  auto addShapes = [&](ValueRange values) {
    for (Value value : values)
      shapes.push_back(b.getDenseI64ArrayAttr(typeOf(value).getShape()));
  };
  addShapes(op.getInputs());
  addShapes(op.getOutputs().take_front(writes.size()));
  auto call = plan::HostCallOp::create(
      b, op.getLoc(), op.getName(), reads, writes, one(op.getWhen()),
      one(op.getAfter()), done, op.getCallbackAttr(), op.getProgramAttr());
  call->setAttr(plan::kShapesAttr, b.getArrayAttr(shapes));
  copyPhase(*clusters.of(op), op, call);
}

/// A loop overwrites its carries.
void PlanWriter::writeLoop(plan::IterateOp op) {
  SmallVector<Value> carries, reads;
  for (auto [first, last] : llvm::zip(op.getCarries(), op.getResults()))
    carries.push_back(takeOver(op, first, last));
  for (Value read : op.getReads())
    reads.push_back(bufferOf(read));
  auto loop = plan::LoopOp::create(b, op.getLoc(), op.getCalleeAttr(), carries,
                                   reads, /*arena=*/Value(), op.getTripsAttr(),
                                   op.getConditionAttr(), op.getSlicesAttr());
  copyPhase(*clusters.of(op), op, loop);
}

void PlanWriter::writeCall(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](plan::MatmulOp matmul) { writeGemm(matmul); })
      .Case([&](plan::AttendOp attend) { writeAttention(attend); })
      .Case([&](plan::CommunicateOp exchange) { writeCollective(exchange); })
      .Case([&](plan::FactorizeOp factorize) { writeLapack(factorize); })
      .Case([&](plan::InvokeOp invoke) { writeHostCall(invoke); })
      .Case([&](plan::IterateOp iterate) { writeLoop(iterate); });
}
