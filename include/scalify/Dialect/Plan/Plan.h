//===- Plan.h - The plan dialect --------------------------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_PLAN_PLAN_H
#define SCALIFY_DIALECT_PLAN_PLAN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"

#include "scalify/Dialect/Plan/PlanDialect.h.inc"
#include "scalify/Dialect/Plan/PlanEnums.h.inc"

namespace scalify::plan {
/// True for a memref that can be a buffer: see the dialect's description.
bool isBufferType(mlir::Type type);
} // namespace scalify::plan

#define GET_OP_CLASSES
#include "scalify/Dialect/Plan/PlanOps.h.inc"

namespace scalify::plan {

/// Returns the bytes of one element in memory: i1 takes a whole byte.
int64_t elementBytes(mlir::Type type);

/// Returns the bytes of a buffer of static shape.
int64_t bufferBytes(mlir::Value buffer);

/// Elements of a row that share a scale under Scaling::Vectors and ::Blocks.
inline constexpr int64_t kScaleBlock = 128;

/// Returns the number of scales of a matrix with `rows` rows of `k` elements
/// along the reduction dimension, with the padding of the last block.
int64_t countScales(Scaling scaling, int64_t rows, int64_t k);

/// True if the epilogue reads a bias; if it ends in a ReLU, or a GELU; if it is
/// the gradient of one.
bool hasBias(Epilogue epilogue);
bool hasReLU(Epilogue epilogue);
bool hasGELU(Epilogue epilogue);
bool isGradient(Epilogue epilogue);

/// Returns the bytes of the ReLU mask of a row of n elements, which the
/// gradient reads.
int64_t getMaskBytes(int64_t n);

/// Returns the element type of a bias by the GEMM's operand and result types,
/// from the type tables of cublasLtMatmul in cuBLASLt's manual.
mlir::Type getBiasType(mlir::Type operand, mlir::Type result);

/// Alignment of a bias in bytes, and of the rows of a GELU's saved input in
/// elements.
inline constexpr int64_t kBiasAlignment = 16, kAuxAlignment = 8;

/// The numbers of a slice of a loop: operand, start, step and last place.
inline constexpr size_t kSliceNumbers = 4;

/// The positions of the first and the last command that touch a buffer, and of
/// the last command that may run concurrently with one of them. After `held`
/// the memory is free; without streams `held` is `last`.
struct LiveRange {
  int64_t first = -1;
  int64_t last = -1;
  int64_t held = -1;
  /// All other commands on the buffer are done when the one at `last` starts.
  bool isLastAlone = true;
};

/// True if the op names memory, and is no command.
bool isBuffer(mlir::Operation *op);

/// Returns the temporary that a buffer is a part of, or the buffer itself.
mlir::Value getWhole(mlir::Value buffer);

/// Returns the live ranges of a program's temporaries, by position of the
/// command. Uses of a part count for its whole.
llvm::DenseMap<mlir::Value, LiveRange> computeLiveRanges(ProgramOp program);

/// Indices of the entries of an attention's `sizes`.
enum AttentionSize : uint8_t {
  Batch,
  Heads,
  KeyHeads,
  Queries,
  Keys,
  Channels,
  NumAttentionSizes
};

/// Number of an attention's operands before its statistics: q, k, v, and for a
/// gradient also the result and its gradient. Statistics are the last operand
/// of a gradient and the last result of a forward.
inline constexpr unsigned kForwardReads = 3, kGradientReads = 5;

/// True if a matrix of an attention has the rows and heads of k, not of q.
/// Matrices are counted over reads and writes without statistics.
bool isKeySide(unsigned matrix, bool isGradient);

/// True if `kernel` may write `out` into the memory of `in`.
bool isInPlacePair(KernelOp kernel, mlir::Value out, mlir::Value in);

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLAN_H
