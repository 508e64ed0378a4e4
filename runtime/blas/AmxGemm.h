// Products of BF16 on AMX, by kernels of our own (docs/rationale/cpu-gemm.md
// compares them with libraries).
#ifndef SCALIFY_RUNTIME_BLAS_AMXGEMM_H
#define SCALIFY_RUNTIME_BLAS_AMXGEMM_H

#include "blas/NarrowGemm.h"

namespace scalify::rt {

/// Returns a product whose bits no cut into tiles changes: each element sums
/// steps of 32 elements of K in their order; within a step AMX sums even and
/// odd ones apart. Throws an Error unless amx::isUsable().
std::unique_ptr<NarrowGemm> makeAmxGemm(const GemmShape &shape, Tiles tiles,
                                        int threads);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_AMXGEMM_H
