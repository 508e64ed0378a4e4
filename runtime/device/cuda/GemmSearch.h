// Measures the fastest of cuBLASLt's candidates for a product, if
// SCALIFY_GEMM_SEARCH asks for it. The heuristic's first candidate is within a
// few percent for most shapes; a search pays off for shapes of long runs.
// Results are kept on disk.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_GEMMSEARCH_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_GEMMSEARCH_H

#include "device/cuda/Session.h"

#include <map>

namespace scalify::rt::cuda {

/// Returns the number of candidates in SCALIFY_GEMM_SEARCH; 1 without it.
int getNumCandidates();

/// Algorithms by product, in scalify/gemm.json of the user's cache. An
/// unreadable or unwritable file counts as an empty one.
class AlgorithmCache {
public:
  AlgorithmCache();
  /// Returns the index of the kept algorithm among the candidates, or -1: an
  /// algorithm that cuBLASLt does not offer now is not used.
  int find(const std::string &key,
           const std::vector<HeuristicResult> &candidates) const;
  void keep(const std::string &key, const MatmulAlgo &algo);

private:
  std::string path; // empty: no cache
  std::map<std::string, std::vector<uint64_t>> known;
};

/// Returns the milliseconds of the fastest of a few runs of the work that
/// `issue` puts on the stream.
double measureTime(const Session &session, StreamHandle stream,
                   const std::function<void()> &issue);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_GEMMSEARCH_H
