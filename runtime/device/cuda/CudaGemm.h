// Products by cuBLASLt: descriptors are created at load; a step only issues.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_CUDAGEMM_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_CUDAGEMM_H

#include "device/cuda/GemmSearch.h"
#include "device/cuda/LtContract.h"
#include "device/cuda/Session.h"

namespace scalify::rt::cuda {

/// A product in cuBLASLt's column-major view. cuBLASLt takes one batch
/// dimension; `outer` are the others, over which issue() loops.
struct LtPlan {
  LtProblem problem;
  /// Operands a and b of the command are B and A of cuBLASLt's.
  bool isSwapped = false;
  std::vector<BatchDim> outer; // strides in bytes of the command's operands
  int64_t products() const;
};

/// Throws an Error with the way out if the command cannot be planned.
LtPlan planLt(const Command &command);

/// cuBLASLt's handle and its workspace.
class LtContext {
public:
  LtContext(const Session &session, StreamHandle stream);
  const Session &session() const { return *owner; }
  BlasHandle handle() const { return blas.get(); }
  void *workspace() const { return pointer(workspaceMemory.get()); }
  /// The address of one f32 1.0: the scale of an FP8 operand without one.
  const void *one() const { return pointer(oneMemory.get()); }

  const StreamHandle stream;
  const int asked; // candidates for each product
  /// Null unless there is a search.
  const std::unique_ptr<AlgorithmCache> cache;

  /// 32 MiB, as NVIDIA's manual advises for Hopper.
  static constexpr size_t workspaceBytes = size_t(32) << 20;

private:
  const Session *owner;
  DeviceBlock workspaceMemory, oneMemory;
  Owned<BlasHandle> blas;
};

/// The product of a command, ready to be issued.
class CudaGemm {
public:
  CudaGemm(LtContext &context, const Command &command);
  void issue(const LtContext &context, const Command &command,
             void *const *buffers, StreamHandle stream) const;

private:
  /// Throws an Error if the library is too old for the command's scales.
  void requireModes(const Command &command) const;
  Owned<MatmulDesc> makeDesc(const LtProblem &problem) const;
  Owned<MatrixLayout> makeLayout(const LtSide &side) const;
  Owned<MatmulPreference> makePreference(const Command &command) const;
  std::vector<HeuristicResult>
  candidates(const LtContext &context, const Command &command, int asked) const;
  /// Takes cuBLASLt's first algorithm or, if a search is requested, the
  /// fastest.
  void choose(LtContext &context, const Command &command);
  /// Returns the bytes of each of the command's buffers that one product needs.
  std::vector<size_t> bytesToMeasure(const Command &command) const;
  MatmulAlgo measure(const LtContext &context, const Command &command,
                     const std::vector<HeuristicResult> &found);
  void set(DescAttribute what, const void *value, size_t size) const;
  void setScales(const void *a, const void *b) const;
  void setBias(const void *bias) const;
  void setAux(const void *aux) const;
  /// For a result of FP8, if the command has a scale or amax.
  void setResult(const Command &command, const void *scale,
                 const void *amax) const;
  /// Returns an address with the alignment of the bias in every step, by which
  /// the heuristic chooses algorithms.
  const void *getBiasAlignedAddress(const LtContext &context,
                                    const Command &command) const;
  void issueOne(const LtContext &context, const Command &command,
                const std::array<char *, 3> &at, StreamHandle stream) const;

  const Session *session;
  LtPlan plan;
  Owned<MatmulDesc> desc;
  Owned<MatrixLayout> layouts[4]; // of A, B, D, and C
  MatmulAlgo algo = {};
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_CUDAGEMM_H
