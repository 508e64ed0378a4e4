// The BLAS library, loaded at run time.
//
// Not linked, because OpenBLAS chooses its kernels in a constructor, by a table
// of CPU models that 0.3.21 has up to 2022: on a CPU it does not know it falls
// back to SSE3 code, a fifth of the speed. We tell it by CPUID instead, and the
// only way to tell it is the environment at the moment it is loaded.
#ifndef SCALIFY_RUNTIME_BLAS_BLAS_H
#define SCALIFY_RUNTIME_BLAS_BLAS_H

#include <string>

namespace scalify::rt {

/// C = alpha * op(A) * op(B) + beta * C, row major, on the calling thread.
struct Blas {
  using Sgemm = void (*)(int layout, int transA, int transB, int m, int n,
                         int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c,
                         int ldc);
  Sgemm sgemm = nullptr;
  /// "OpenBLAS 0.3.21 ... SkylakeX ...", for reports.
  std::string description;

  static constexpr int rowMajor = 101, noTrans = 111, trans = 112;

  /// The library; loads it at the first call and throws Error if it cannot.
  static const Blas &get();
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_BLAS_H
