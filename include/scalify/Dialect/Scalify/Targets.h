//===- Targets.h - Targets: capabilities, costs, emission -------*- C++ -*-===//
//
// A target is a device that programs are compiled for. Its folder of lib/Target
// implements the class below, and lib/Target/AllTargets.cpp registers it. The
// module names its target, as #scalify.target<"sm_90a">; without the attribute
// it is for a CPU.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_SCALIFY_TARGETS_H
#define SCALIFY_DIALECT_SCALIFY_TARGETS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace scalify {

/// The target of a module without the attribute.
inline constexpr llvm::StringLiteral kCPU = "cpu";

/// FLOP rates that products reach, by the format of their operands.
struct ProductRates {
  double f32, bits16, bits8;
  double of(mlir::Type element) const;
};

/// The formats of two operands that a target multiplies as they are in memory,
/// besides F32.
struct ProductFormats {
  bool bf16, f16, fp8;
  /// False for F32 too, and for types that are no such format.
  bool has(mlir::Type element) const;
};

/// The dense rates of a GPU's data sheet, per nanosecond. They are the bounds
/// of a profile; the cost models have the rates that programs reach.
struct PeakRates {
  /// The driver's name of the device; "" for no data sheet.
  llvm::StringLiteral device = "";
  double bandwidth = 0, f32 = 0, tf32 = 0, bits16 = 0, bits8 = 0;
};

/// Times in nanoseconds, rates per nanosecond.
struct TargetInfo {
  /// The name in the attribute, in options and in manifests, and other names
  /// that options may have.
  llvm::StringLiteral name;
  llvm::ArrayRef<llvm::StringLiteral> aliases;
  /// For people, in lists of targets.
  llvm::StringLiteral description;
  /// The device of the runtime: "cpu" or "cuda".
  llvm::StringLiteral device;
  bool isGPU;
  /// Of a GPU: the architecture of the machine code, and the compute capability
  /// that it needs, ten times the major version plus the minor one.
  llvm::StringLiteral chip;
  int64_t capability;
  /// The target whose costs choose formats: a step has the same formats on a
  /// CPU as on this GPU.
  llvm::StringLiteral formats;
  /// One library call multiplies a whole batch dimension.
  bool callsTakeBatch;
  /// Bytes that a rank contributes to a bucket of collectives: about nine times
  /// a message's latency times the link rate, which reaches nine tenths of that
  /// rate.
  int64_t bucketBytes;
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
  ProductFormats products;
  ProductRates flops;
  PeakRates peaks;
};

/// The options of artefacts that a target may read.
struct ArtefactOptions {
  /// For the manifest: the recipe that the module was compiled with.
  std::string recipe = "none";
  /// Bytes of a separate section that only readers of reports use; empty for
  /// none.
  std::string report;
  /// Of a CPU. Never "native": the same input gives the same bytes on every
  /// machine.
  std::string mcpu = "x86-64-v3";
  /// Of a GPU: NVIDIA's assembler; if empty, it is looked up on the search path
  /// and in the CUDA toolkit; if "none", kernels stay PTX.
  std::string ptxas;
};

class Target {
public:
  explicit Target(const TargetInfo &info) : info(info) {}
  Target(const Target &) = delete;
  Target &operator=(const Target &) = delete;
  virtual ~Target() = default;

  const TargetInfo &getInfo() const { return info; }

  /// Adds the passes that lower a module of kernel functions to the dialects of
  /// machine code.
  virtual void buildLowering(mlir::OpPassManager &kernels) const = 0;

  /// Returns the artefact of a module with a `plan.program @step` and the
  /// lowered `module @kernels`. Errors are emitted as diagnostics.
  virtual mlir::FailureOr<std::string>
  emitArtefact(mlir::ModuleOp module, const ArtefactOptions &options) const = 0;

private:
  const TargetInfo &info;
};

/// Adds a target, which must outlive all compilations.
void registerTarget(const Target &target);
/// Returns all targets, in the order of their registration.
llvm::ArrayRef<const Target *> getTargets();
/// Returns all names joined by `, `, for diagnostics.
std::string getTargetNames();
/// Returns the target of that name or alias; null if there is none.
const Target *findTarget(llvm::StringRef name);
/// False for a name of no device.
bool isGPUTarget(llvm::StringRef name);

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_TARGETS_H
