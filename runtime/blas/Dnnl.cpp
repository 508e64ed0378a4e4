#include "blas/Dnnl.h"
#include "support/Error.h"

#include <cstdio>
#include <dlfcn.h>
#include <optional>
#include <string>

using namespace scalify::rt;

namespace {
void *openLibrary() {
  // Its own version alone: structures of the C API differ between versions.
  for (const char *path : {SCALIFY_DNNL_PATH, "libdnnl.so.2"})
    if (void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL))
      return handle;
  return nullptr;
}

/// Looks up all functions; returns the name of one that is missing, or null.
const char *findAll(void *handle, Dnnl &dnnl) {
  const char *missing = nullptr;
  auto find = [&](auto &function, const char *symbol) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(
        dlsym(handle, symbol));
    if (!function)
      missing = symbol;
  };
  find(dnnl.matmulDescInit, "dnnl_matmul_desc_init");
  find(dnnl.memoryDescInit, "dnnl_memory_desc_init_by_strides");
  find(dnnl.attrCreate, "dnnl_primitive_attr_create");
  find(dnnl.attrDestroy, "dnnl_primitive_attr_destroy");
  find(dnnl.attrSetScales, "dnnl_primitive_attr_set_output_scales");
  find(dnnl.attrSetPostOps, "dnnl_primitive_attr_set_post_ops");
  find(dnnl.attrSetScratchpad, "dnnl_primitive_attr_set_scratchpad_mode");
  find(dnnl.postOpsCreate, "dnnl_post_ops_create");
  find(dnnl.postOpsDestroy, "dnnl_post_ops_destroy");
  find(dnnl.postOpsAppendSum, "dnnl_post_ops_append_sum");
  find(dnnl.descCreate, "dnnl_primitive_desc_create");
  find(dnnl.descDestroy, "dnnl_primitive_desc_destroy");
  find(dnnl.descQuery, "dnnl_primitive_desc_query");
  find(dnnl.descQueryMd, "dnnl_primitive_desc_query_md");
  find(dnnl.memoryDescGetSize, "dnnl_memory_desc_get_size");
  find(dnnl.create, "dnnl_primitive_create");
  find(dnnl.destroy, "dnnl_primitive_destroy");
  find(dnnl.execute, "dnnl_primitive_execute");
  find(dnnl.memoryCreate, "dnnl_memory_create");
  find(dnnl.memoryDestroy, "dnnl_memory_destroy");
  find(dnnl.setMaxCpuIsa, "dnnl_set_max_cpu_isa");
  find(dnnl.getEffectiveCpuIsa, "dnnl_get_effective_cpu_isa");
  find(dnnl.engineCreate, "dnnl_engine_create");
  find(dnnl.streamCreate, "dnnl_stream_create");
  // Of the OpenMP library that oneDNN itself uses.
  find(dnnl.ompGetMaxThreads, "omp_get_max_threads");
  find(dnnl.ompSetNumThreads, "omp_set_num_threads");
  return missing;
}

void warnOfF32(const std::string &why) {
  std::fprintf(
      stderr,
      "scalify: products of BF16 and FP8 run in F32, at half the speed "
      "or less: %s\n",
      why.c_str());
}

std::optional<Dnnl> load() {
  void *handle = openLibrary();
  if (!handle) {
    const char *reason = dlerror();
    warnOfF32(std::string("cannot load oneDNN: ") +
              (reason ? reason : "unknown error") +
              "; install the package libdnnl2");
    return {};
  }
  Dnnl dnnl;
  if (const char *missing = findAll(handle, dnnl)) {
    warnOfF32(std::string("oneDNN has no function '") + missing +
              "'; install the package libdnnl2");
    return {};
  }
  // AMX has kernels of our own, and other bits. Refused if another user of the
  // library in this process was first.
  constexpr int wanted = dnnl_cpu_isa_avx512_core_bf16,
                beyond = dnnl_cpu_isa_avx512_core_amx;
  dnnl.setMaxCpuIsa(dnnl_cpu_isa_avx512_core_bf16);
  int isa = dnnl.getEffectiveCpuIsa();
  if ((isa & wanted) != wanted || (isa & beyond) == beyond) {
    warnOfF32("oneDNN, used before in this process, does not run on "
              "AVX512-BF16 alone");
    return {};
  }
  Dnnl::check(dnnl.engineCreate(&dnnl.engine, dnnl_cpu, 0), "engine_create");
  Dnnl::check(
      dnnl.streamCreate(&dnnl.stream, dnnl.engine, dnnl_stream_default_flags),
      "stream_create");
  return dnnl;
}
} // namespace

const Dnnl *Dnnl::find() {
  // Never unloaded, like OpenBLAS.
  static const std::optional<Dnnl> loaded = load();
  return loaded ? &*loaded : nullptr;
}

const Dnnl &Dnnl::get() { return *find(); }

void Dnnl::check(dnnl_status_t status, const char *call) {
  if (status != dnnl_success)
    unsupported(std::string("oneDNN's ") + call + " failed with status " +
                std::to_string(int(status)) +
                "; SCALIFY_CPU_ISA=f32 multiplies without it");
}
