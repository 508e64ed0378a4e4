// The BLAS library, loaded at run time.
//
// Not linked, because OpenBLAS chooses its kernels in a constructor, from a
// table of CPU models that in 0.3.21 ends in 2022. On an unknown CPU it falls
// back to SSE3 code, at a fifth of the speed. The runtime chooses by CPUID
// instead, and passes the choice by the environment at load, the only way that
// OpenBLAS has.
#ifndef SCALIFY_RUNTIME_BLAS_BLAS_H
#define SCALIFY_RUNTIME_BLAS_BLAS_H

#include <string>

namespace scalify::rt {

/// Computes C = alpha * op(A) * op(B) + beta * C, row major, on the calling
/// thread.
struct Blas {
  using Sgemm = void (*)(int layout, int transA, int transB, int m, int n,
                         int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c,
                         int ldc);
  Sgemm sgemm = nullptr;
  /// "OpenBLAS 0.3.21 ... SkylakeX ...", for reports.
  std::string description;

  void *library = nullptr;

  static constexpr int rowMajor = 101, noTrans = 111, trans = 112;

  /// Returns the address of one of the library's functions. Throws an Error if
  /// it has none of that name.
  void *find(const char *symbol) const;

  /// Returns the library. Loads it at the first call; throws an Error on
  /// failure.
  static const Blas &get();
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_BLAS_H
