#include "blas/Dnnl.h"
#include "blas/ProductUnit.h"
#include "loader/CpuFeatures.h"
#include "support/Error.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <string>

using namespace scalify::rt;

namespace {
constexpr ProductUnit kUnits[] = {ProductUnit::F32, ProductUnit::AVX512BF16,
                                  ProductUnit::AMX};

ProductUnit readCap() {
  const char *text = std::getenv("SCALIFY_CPU_ISA");
  if (!text || !*text)
    return ProductUnit::AMX;
  for (ProductUnit unit : kUnits)
    if (std::string(text) == name(unit))
      return unit;
  badArgument(
      std::string("SCALIFY_CPU_ISA is '") + text +
      "'; it is one of f32, avx512_bf16 and amx, and caps the unit that "
      "multiplies BF16");
}

/// The part of the library that is in use, or why none is.
struct Loaded {
  ProductUnit unit = ProductUnit::F32;
  std::optional<Dnnl> library;
};

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

void warnOfMissing(const std::string &why) {
  std::fprintf(
      stderr,
      "scalify: products of BF16 and FP8 run in F32, at half the speed "
      "or less: %s; install the package libdnnl2\n",
      why.c_str());
}

Loaded load() {
  Loaded loaded;
  ProductUnit cap = readCap();
  if (cap == ProductUnit::F32 || !hasBF16Unit())
    return loaded;
  void *handle = openLibrary();
  if (!handle) {
    const char *reason = dlerror();
    warnOfMissing(std::string("cannot load oneDNN: ") +
                  (reason ? reason : "unknown error"));
    return loaded;
  }
  Dnnl dnnl;
  if (const char *missing = findAll(handle, dnnl)) {
    warnOfMissing(std::string("oneDNN has no function '") + missing + "'");
    return loaded;
  }
  // Refused if the process has already used the library. The library itself
  // asks the operating system for AMX's registers.
  if (cap == ProductUnit::AVX512BF16)
    dnnl.setMaxCpuIsa(dnnl_cpu_isa_avx512_core_bf16);
  int isa = dnnl.getEffectiveCpuIsa();
  auto covers = [isa](int wanted) { return (isa & wanted) == wanted; };
  if (!covers(dnnl_cpu_isa_avx512_core_bf16))
    return loaded; // capped by ONEDNN_MAX_CPU_ISA
  loaded.unit = covers(dnnl_cpu_isa_avx512_core_amx) ? ProductUnit::AMX
                                                     : ProductUnit::AVX512BF16;
  Dnnl::check(dnnl.engineCreate(&dnnl.engine, dnnl_cpu, 0), "engine_create");
  Dnnl::check(
      dnnl.streamCreate(&dnnl.stream, dnnl.engine, dnnl_stream_default_flags),
      "stream_create");
  loaded.library = dnnl;
  return loaded;
}

const Loaded &getLoaded() {
  // Never unloaded, like OpenBLAS.
  static const Loaded loaded = load();
  return loaded;
}
} // namespace

const char *scalify::rt::name(ProductUnit unit) {
  switch (unit) {
  case ProductUnit::F32:
    return "f32";
  case ProductUnit::AVX512BF16:
    return "avx512_bf16";
  case ProductUnit::AMX:
    return "amx";
  }
  return "";
}

ProductUnit scalify::rt::productUnit() { return getLoaded().unit; }

const Dnnl &Dnnl::get() { return *getLoaded().library; }

void Dnnl::check(dnnl_status_t status, const char *call) {
  if (status != dnnl_success)
    unsupported(std::string("oneDNN's ") + call + " failed with status " +
                std::to_string(int(status)) +
                "; SCALIFY_CPU_ISA=f32 multiplies without it");
}
