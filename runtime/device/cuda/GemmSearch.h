// Which of cuBLASLt's candidates for a product is the fastest, measured, where
// SCALIFY_GEMM_SEARCH asks for it: the heuristic's first is within a few
// percent for most shapes, and worth a search for those that a run spends days
// on. What was found is kept on disk.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_GEMMSEARCH_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_GEMMSEARCH_H

#include "device/cuda/Session.h"

#include <map>

namespace scalify::rt::cuda {

/// How many candidates SCALIFY_GEMM_SEARCH asks for; 1 without it.
int candidatesAsked();

/// Algorithms by what they are for, in scalify/gemm.json of the user's cache.
/// A file that cannot be read or written is as good as none.
class AlgorithmCache {
public:
  AlgorithmCache();
  /// The place of the kept algorithm among the candidates, or -1: what
  /// cuBLASLt does not offer now is not used.
  int find(const std::string &key,
           const std::vector<HeuristicResult> &candidates) const;
  void keep(const std::string &key, const MatmulAlgo &algo);

private:
  std::string path; // empty: nowhere
  std::map<std::string, std::vector<uint64_t>> known;
};

/// Milliseconds of the fastest of a few runs of what `issue` puts on the
/// stream.
double timeOf(const Session &session, StreamHandle stream,
              const std::function<void()> &issue);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_GEMMSEARCH_H
