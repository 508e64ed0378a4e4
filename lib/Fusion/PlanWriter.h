//===- PlanWriter.h - Builder of a plan's program ---------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_PLANWRITER_H
#define SCALIFY_LIB_FUSION_PLANWRITER_H

#include "Clusters.h"

namespace scalify {

/// Builds the program of one function.
class PlanWriter {
public:
  PlanWriter(mlir::func::FuncOp main, Clusters &clusters)
      : main(main), clusters(clusters), b(main.getContext()),
        buffersEnd(main.getContext()) {}

  llvm::LogicalResult write();
  unsigned numKernels = 0;

private:
  void writeArguments();
  void findReaders();
  void bindResults();
  bool mayAlias(mlir::Value value, int64_t argument);
  void writeCopies();
  bool isCopiedFirst(unsigned result);
  void writeFirstCopies();
  llvm::LogicalResult writeKernel(Cluster &cluster);
  void writeGemm(plan::MatmulOp op);
  void writeAttention(plan::AttendOp op);
  void writeCollective(plan::CommunicateOp op);
  void writeLapack(plan::FactorizeOp op);
  void writeHostCall(plan::InvokeOp op);
  void writeLoop(plan::IterateOp op);
  /// Writes the command of a library call.
  void writeCall(mlir::Operation *op);
  void bindPieces(stablehlo::ConcatenateOp stack);
  mlir::Value takeOver(mlir::Operation *op, mlir::Value input,
                       mlir::Value result);
  llvm::SmallVector<int64_t> donatedPairs(llvm::ArrayRef<mlir::Value> inputs,
                                          llvm::ArrayRef<mlir::Value> outputs);
  mlir::Value bufferOf(mlir::Value value);
  mlir::Value constantBuffer(mlir::ElementsAttr value);
  mlir::Value scaleBuffer(int64_t entry);
  template <typename Op, typename... Args>
  mlir::Value newBuffer(mlir::Location loc, mlir::RankedTensorType type,
                        Args... args) {
    auto memory = mlir::MemRefType::get(type.getShape(), type.getElementType());
    return Op::create(buffersEnd, loc, memory, args...);
  }

  mlir::Value newTemp(mlir::Location loc, mlir::RankedTensorType type) {
    return newBuffer<plan::TempOp>(loc, type, mlir::Value(),
                                   mlir::IntegerAttr(), mlir::IntegerAttr(),
                                   mlir::IntegerAttr());
  }

  mlir::func::FuncOp main;
  Clusters &clusters;
  llvm::SmallVector<Cluster *> order;
  mlir::OpBuilder b, buffersEnd;
  plan::ProgramOp program;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
  llvm::DenseMap<int64_t, mlir::Value> scaleBuffers; // by entry
  llvm::DenseMap<mlir::Value, int64_t>
      resultOf; // value -> result it is written to
  llvm::DenseMap<mlir::Operation *,
                 llvm::SmallVector<std::pair<mlir::Value, mlir::Value>>>
      piecesToCopy; // of a stack: source, destination
  llvm::SmallVector<mlir::Value> resultBuffers;
  llvm::DenseMap<int64_t, int64_t> aliases;             // result -> argument
  llvm::SmallVector<llvm::DenseSet<Cluster *>> readers; // of each argument
};
} // namespace scalify

#endif // SCALIFY_LIB_FUSION_PLANWRITER_H
