// oneDNN, loaded at run time, for products of BF16 on AVX512-BF16. AMX has
// kernels of our own (AmxGemm.h); without either unit or the library the
// runtime widens the operands to F32 (NarrowGemm.h).
//
// Not linked, so that a machine without the unit needs no library.
#ifndef SCALIFY_RUNTIME_BLAS_DNNL_H
#define SCALIFY_RUNTIME_BLAS_DNNL_H

#include <oneapi/dnnl/dnnl.h>

namespace scalify::rt {

/// The functions of oneDNN that products use, by their names in its C API.
struct Dnnl {
  decltype(&dnnl_matmul_desc_init) matmulDescInit;
  decltype(&dnnl_memory_desc_init_by_strides) memoryDescInit;
  decltype(&dnnl_primitive_attr_create) attrCreate;
  decltype(&dnnl_primitive_attr_destroy) attrDestroy;
  decltype(&dnnl_primitive_attr_set_output_scales) attrSetScales;
  decltype(&dnnl_primitive_attr_set_post_ops) attrSetPostOps;
  decltype(&dnnl_primitive_attr_set_scratchpad_mode) attrSetScratchpad;
  decltype(&dnnl_post_ops_create) postOpsCreate;
  decltype(&dnnl_post_ops_destroy) postOpsDestroy;
  decltype(&dnnl_post_ops_append_sum) postOpsAppendSum;
  decltype(&dnnl_primitive_desc_create) descCreate;
  decltype(&dnnl_primitive_desc_destroy) descDestroy;
  decltype(&dnnl_primitive_desc_query) descQuery;
  decltype(&dnnl_primitive_desc_query_md) descQueryMd;
  decltype(&dnnl_memory_desc_get_size) memoryDescGetSize;
  decltype(&dnnl_primitive_create) create;
  decltype(&dnnl_primitive_destroy) destroy;
  decltype(&dnnl_primitive_execute) execute;
  decltype(&dnnl_memory_create) memoryCreate;
  decltype(&dnnl_memory_destroy) memoryDestroy;
  decltype(&dnnl_set_max_cpu_isa) setMaxCpuIsa;
  decltype(&dnnl_get_effective_cpu_isa) getEffectiveCpuIsa;
  decltype(&dnnl_engine_create) engineCreate;
  decltype(&dnnl_stream_create) streamCreate;
  int (*ompGetMaxThreads)();
  void (*ompSetNumThreads)(int);

  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;

  /// Returns the library, or null after a warning.
  static const Dnnl *find();
  /// Returns the library that find() has found.
  static const Dnnl &get();

  /// Throws an Error that names the call if `status` is a failure.
  static void check(dnnl_status_t status, const char *call);
};

/// While one lives, oneDNN runs on the calling thread alone. Its threads are
/// OpenMP's, whose number is set for the calling thread and then restored, for
/// other users of OpenMP in the process.
class OneThread {
public:
  OneThread() : dnnl(Dnnl::get()), threads(dnnl.ompGetMaxThreads()) {
    dnnl.ompSetNumThreads(1);
  }
  ~OneThread() { dnnl.ompSetNumThreads(threads); }
  OneThread(const OneThread &) = delete;
  OneThread &operator=(const OneThread &) = delete;

private:
  const Dnnl &dnnl;
  int threads;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_DNNL_H
