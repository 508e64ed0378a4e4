//===- Targets.h - Capabilities and costs of targets ------------*- C++ -*-===//
//
// The table of devices that programs are compiled for: their capabilities, and
// the constants of the passes' cost models. The module names its device, as
// #scalify.target<"sm_90a">; without the attribute it is for a CPU.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_SCALIFY_TARGETS_H
#define SCALIFY_DIALECT_SCALIFY_TARGETS_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace scalify {

/// NVIDIA's targets; so far Hopper (H100, H200).
inline constexpr llvm::StringLiteral kHopper = "sm_90a";
inline constexpr llvm::StringLiteral kCPU = "cpu";

/// FLOP rates that products reach, by the format of their operands.
struct ProductRates {
  double f32, bits16, bits8;
  double of(mlir::Type element) const;
};

/// Times in nanoseconds, rates per nanosecond.
struct TargetInfo {
  llvm::StringLiteral chip;
  bool isGPU;
  /// One library call multiplies a whole batch dimension.
  bool callsTakeBatch;
  /// The minimum time of a kernel, also in a graph.
  double launch;
  /// The overhead of a library call.
  double call;
  /// The time in which one stream waits for another.
  double event;
  /// Bytes that copies move.
  double bandwidth;
  /// Multiprocessors, and the rows and columns of the tile that each multiplies
  /// at a time.
  double processors;
  int64_t tile;
  ProductRates flops;
};

/// Returns all targets.
llvm::ArrayRef<TargetInfo> getTargets();
/// Returns null if there is no target of that name.
const TargetInfo *findTarget(llvm::StringRef chip);
/// False for a name of no device.
bool isGPUTarget(llvm::StringRef chip);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_TARGETS_H
