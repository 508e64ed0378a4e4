//===- Targets.h - Capabilities and costs of targets ------------*- C++ -*-===//
//
// One table of the devices that programs are compiled for: what they can do,
// and the constants of the models by which passes decide. The module says which
// it is for, as #scalify.target<"sm_90a">; one that says nothing is for a CPU.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_SCALIFY_TARGETS_H
#define SCALIFY_DIALECT_SCALIFY_TARGETS_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace scalify {

/// The targets of NVIDIA; so far Hopper (H100, H200).
inline constexpr llvm::StringLiteral kHopper = "sm_90a";
inline constexpr llvm::StringLiteral kCPU = "cpu";

/// FLOP that products reach, by their operands' format.
struct ProductRates {
  double f32, bits16, bits8;
  double of(mlir::Type element) const;
};

/// Times in nanoseconds, rates by the nanosecond.
struct TargetInfo {
  llvm::StringLiteral chip;
  bool isGPU;
  /// One call of the library multiplies a whole batch dimension.
  bool callsTakeBatch;
  /// A kernel takes this at least, also in a graph.
  double launch;
  /// A call of the library, beside its work.
  double call;
  /// One stream waits for another.
  double event;
  /// Bytes that copies reach.
  double bandwidth;
  /// Multiprocessors, and the rows and columns of the tile that each multiplies
  /// at a time.
  double processors;
  int64_t tile;
  ProductRates flops;
};

/// All of them.
llvm::ArrayRef<TargetInfo> getTargets();
/// Null if there is none of the name.
const TargetInfo *findTarget(llvm::StringRef chip);
/// False for a name that no device has.
bool isGPUTarget(llvm::StringRef chip);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_TARGETS_H
