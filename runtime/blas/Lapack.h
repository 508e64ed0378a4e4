// Calls of OpenBLAS's LAPACK on row-major matrices.
//
// LAPACK's matrices are column major, so a call copies its operands, and its
// results back. A matrix is computed by one thread, so that its bits do not
// depend on the number of threads.
#ifndef SCALIFY_RUNTIME_BLAS_LAPACK_H
#define SCALIFY_RUNTIME_BLAS_LAPACK_H

#include "blas/LapackShape.h"

namespace scalify::rt {

/// A batch of calls of one routine.
struct LapackCall {
  LapackShape shape;
  LapackSignature signature;
  bool isDouble = false;
  /// Consecutive parts of the batch, each with its own work space.
  int64_t tasks = 0;
  /// The function of the library; null until it is found.
  void *function = nullptr;

  int64_t floatBytes() const { return signature.floats() * (isDouble ? 8 : 4); }
};

/// Returns the library's function. Throws an Error if it has none.
void *findLapackRoutine(const LapackShape &shape, bool isDouble);

/// Computes the matrices of one task. `buffers` are those that are read, those
/// that are written, and the work space, with two in a row for the parts of
/// complex numbers; `integers` has room for the task's.
void runLapackTask(const LapackCall &call, void *const *buffers,
                   int32_t *integers, int64_t task);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_LAPACK_H
