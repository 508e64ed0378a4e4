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

#include "scalify/Dialect/Plan/PlanDialect.h.inc"
#include "scalify/Dialect/Plan/PlanEnums.h.inc"
#define GET_OP_CLASSES
#include "scalify/Dialect/Plan/PlanOps.h.inc"

namespace scalify::plan {

/// The phase of the step that a command belongs to, where that is known.
inline constexpr llvm::StringLiteral kCommandPhaseAttr = "plan.phase";

/// In an entry of a program's `plan.args`: what the argument is to the step, as
/// "param" or "batch".
inline constexpr llvm::StringLiteral kRoleKey = "role";

/// The task of a pipeline that an op or command belongs to: "F2.1" and "B2.1"
/// are the forward and the backward of chunk 2 for micro-batch 1, "U0" what
/// stage 0 does when its backwards are done. What has none is done by every
/// stage that needs it.
inline constexpr llvm::StringLiteral kTaskAttr = "plan.task";

/// The stage that has an argument; every stage has one without.
inline constexpr llvm::StringLiteral kOwnerAttr = "plan.owner";

/// Of a module whose ops have tasks: `stages`, `virtual`, `microbatches`, and
/// the `ranks` that each stage has; of the program of one stage `stage`, and
/// who has the `args` and `results` of the whole step.
inline constexpr llvm::StringLiteral kPipelineAttr = "plan.pipeline";

/// The byte of an argument or result from which on a `plan.argument` or
/// `plan.result` is a part of it.
inline constexpr llvm::StringLiteral kOffsetAttr = "plan.offset";

/// Of a gather that the step does a second time, which one it is, so that the
/// two are not merged as equal.
inline constexpr llvm::StringLiteral kGatheredAgainAttr = "plan.gathered_again";

/// Of a module: the most bytes that gathers of its step add to memory at one
/// time, were each done once.
inline constexpr llvm::StringLiteral kGatheredBytesAttr = "plan.gathered_bytes";

/// Bytes of one element in memory: i1 takes a whole byte.
int64_t elementBytes(mlir::Type type);

/// Bytes of a buffer of static shape.
int64_t bufferBytes(mlir::Value buffer);

/// Elements of a row that share a scale under Scaling::Vectors and ::Blocks.
inline constexpr int64_t kScaleBlock = 128;

/// How many scales a matrix of `rows` rows has, each `k` elements along the
/// sum, and what is allotted to fill their last block.
int64_t countScales(Scaling scaling, int64_t rows, int64_t k);

/// Whether the epilogue reads a vector; whether it ends in a ReLU, or a GELU;
/// whether it is the gradient of one.
bool hasBias(Epilogue epilogue);
bool hasReLU(Epilogue epilogue);
bool hasGELU(Epilogue epilogue);
bool isGradient(Epilogue epilogue);

/// Bytes in which the bits of a row of n elements lie, for the gradient of a
/// ReLU.
int64_t getMaskBytes(int64_t n);

/// The elements of a bias, by what the GEMM multiplies and what it stores: as
/// cuBLASLt's manual has it, in its tables of the types of cublasLtMatmul.
mlir::Type getBiasType(mlir::Type operand, mlir::Type result);

/// Bytes that a bias lies at a multiple of; elements that rows of what a GELU
/// reads do.
inline constexpr int64_t kBiasAlignment = 16, kAuxAlignment = 8;

/// First and last command that touches a buffer, as positions in the program,
/// and the last that may run beside one of those that do: beyond it the memory
/// is free. Without streams that is `last`.
struct LiveRange {
  int64_t first = -1;
  int64_t last = -1;
  int64_t held = -1;
  /// The command at `last` starts when all others are done.
  bool isLastAlone = true;
};

/// The buffer whose memory a buffer's is, or is a part of.
mlir::Value getWhole(mlir::Value buffer);

/// Live ranges of the temporaries of a program, by position of the command;
/// parts count for their whole.
llvm::DenseMap<mlir::Value, LiveRange> computeLiveRanges(ProgramOp program);

/// What the entries of an attention's `sizes` are.
enum AttentionSize : uint8_t {
  Batch,
  Heads,
  KeyHeads,
  Queries,
  Keys,
  Channels,
  NumAttentionSizes
};

/// Operands of an attention before its statistics, which are the last operand
/// of a gradient and the last result of a forward: q, k, v, and of a gradient
/// the result and its gradient.
inline constexpr unsigned kForwardReads = 3, kGradientReads = 5;

/// Whether a matrix of an attention, counted over reads and writes without
/// statistics, has the rows and heads of k; else those of q.
bool isKeySide(unsigned matrix, bool isGradient);

/// True if `kernel` may write `out` into the memory of `in`.
bool isInPlacePair(KernelOp kernel, mlir::Value out, mlir::Value in);

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLAN_H
