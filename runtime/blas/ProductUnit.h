// The units of a processor that multiply BF16.
#ifndef SCALIFY_RUNTIME_BLAS_PRODUCTUNIT_H
#define SCALIFY_RUNTIME_BLAS_PRODUCTUNIT_H

namespace scalify::rt {

/// Where products of BF16 run, from the slowest to the fastest.
enum class ProductUnit { F32, AVX512BF16, AMX };

/// Returns the unit's name in SCALIFY_CPU_ISA: f32, avx512_bf16 or amx.
const char *name(ProductUnit unit);

/// Returns the fastest unit that the processor, the operating system, the
/// environment's SCALIFY_CPU_ISA and, for AVX512-BF16, the library allow. A
/// processor whose vectors of BF16 are slower than F32 takes them only if
/// SCALIFY_CPU_ISA names them. Asks for AMX or loads the library at the first
/// call; throws an Error if SCALIFY_CPU_ISA names no unit.
ProductUnit productUnit();

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_PRODUCTUNIT_H
