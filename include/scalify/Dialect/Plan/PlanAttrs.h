//===- PlanAttrs.h - Names of plan.* attributes -----------------*- C++ -*-===//
//
// Decisions that passes leave on ops and commands. PlanAttrs.cpp verifies their
// places and kinds.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_PLAN_PLANATTRS_H
#define SCALIFY_DIALECT_PLAN_PLANATTRS_H

#include "llvm/ADT/StringRef.h"

namespace scalify::plan {

// On a program.

/// Of each argument a dictionary: names, scales, roles, and what it is donated
/// to; of each result the attributes that main had.
inline constexpr llvm::StringLiteral kArgsAttr = "plan.args";
inline constexpr llvm::StringLiteral kResultsAttr = "plan.results";

/// The types of arguments and results. Buffers are flat and may be parts.
inline constexpr llvm::StringLiteral kArgTypesAttr = "plan.arg_types";
inline constexpr llvm::StringLiteral kResultTypesAttr = "plan.result_types";

/// In an entry of `plan.args`: the argument's role in the step, as "param" or
/// "batch".
inline constexpr llvm::StringLiteral kRoleKey = "role";

/// On a module whose ops have tasks: `stages`, `virtual`, `microbatches`, and
/// the `ranks` of each stage. In the program of one stage also `stage`, and the
/// owners of the whole step's `args` and `results`.
inline constexpr llvm::StringLiteral kPipelineAttr = "plan.pipeline";

/// On a module: the peak bytes that all-gathers of the step would add to memory
/// if each ran once.
inline constexpr llvm::StringLiteral kGatheredBytesAttr = "plan.gathered_bytes";

// On the ops of a step, before the plan.

/// On a value that is written to memory, whatever could read it in place.
inline constexpr llvm::StringLiteral kMaterialiseAttr = "plan.materialise";

/// On a concatenation: its pieces are contiguous in memory, and their producers
/// write them there.
inline constexpr llvm::StringLiteral kStackAttr = "plan.stack";

/// On a cast or its inverse: the index of its scale among the scales, an i64.
inline constexpr llvm::StringLiteral kScaleEntryAttr = "plan.scale_entry";

/// On the multiply of a dot's result by the scale of an operand.
inline constexpr llvm::StringLiteral kOperandScaleAttr = "plan.operand_scale";

/// On a `scalify.dequantize` whose scales a GEMM reads: their layout.
inline constexpr llvm::StringLiteral kScalingAttr = "plan.scaling";

/// The number of an all-gather that the step repeats, so that it is not merged
/// with an equal one.
inline constexpr llvm::StringLiteral kGatheredAgainAttr = "plan.gathered_again";

/// The pipeline task of an op or command: "F2.1" and "B2.1" are the forward and
/// the backward of chunk 2 for micro-batch 1, "U0" is the work of stage 0 after
/// its backwards. Every stage that needs an op without a task runs it.
inline constexpr llvm::StringLiteral kTaskAttr = "plan.task";

/// The stage that owns an argument; without it every stage has the argument.
inline constexpr llvm::StringLiteral kOwnerAttr = "plan.owner";

// On commands and buffers.

/// The phase of the step that a command belongs to, if known.
inline constexpr llvm::StringLiteral kCommandPhaseAttr = "plan.phase";

/// The stream of a command, 0 without it.
inline constexpr llvm::StringLiteral kStreamAttr = "plan.stream";

/// On the commands of a group: the number of tiles, and that of the group,
/// which is unique in the program.
inline constexpr llvm::StringLiteral kTilesAttr = "plan.tiles";

/// On a kernel: of each cast that it counts its name, location, format and
/// number of elements.
inline constexpr llvm::StringLiteral kCastsAttr = "plan.casts";

/// On a kernel that runs on a GPU, and on its function: the threads of a block.
inline constexpr llvm::StringLiteral kThreadsAttr = "plan.threads";

/// The byte of an argument or result at which a `plan.argument` or
/// `plan.result` that is a part of it begins.
inline constexpr llvm::StringLiteral kOffsetAttr = "plan.offset";

/// On a host call: the shapes of the callee's operands and results, one array
/// for each of the call's reads and writes. They may differ from the buffer's
/// shape where a reshape shares the buffer.
inline constexpr llvm::StringLiteral kShapesAttr = "plan.shapes";

// On ops of a kernel's body.

/// On a cast whose constant scale has an exact reciprocal: it multiplies.
inline constexpr llvm::StringLiteral kExactReciprocalAttr =
    "plan.exact_reciprocal";

/// On a cast whose operand has the scale already.
inline constexpr llvm::StringLiteral kScaledAttr = "plan.scaled";

/// On a cast whose values another cast counts.
inline constexpr llvm::StringLiteral kUncountedCastAttr = "plan.uncounted";

// On the function of a kernel.

/// The numbers of buffers that it reads and writes, and the pairs of those that
/// are one.
inline constexpr llvm::StringLiteral kReadsAttr = "plan.reads";
inline constexpr llvm::StringLiteral kWritesAttr = "plan.writes";
inline constexpr llvm::StringLiteral kInPlaceAttr = "plan.inplace";

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLANATTRS_H
