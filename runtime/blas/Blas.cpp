#include "blas/Blas.h"
#include "loader/CpuFeatures.h"
#include "support/Error.h"

#include <cstdlib>
#include <dlfcn.h>
#include <optional>

using namespace scalify::rt;

namespace {
/// Sets an environment variable for the life of the object.
class ScopedVariable {
public:
  ScopedVariable(const char *name, const char *value) : name(name) {
    if (const char *old = std::getenv(name))
      previous = old;
    setenv(name, value, 1);
  }
  ~ScopedVariable() {
    if (previous)
      setenv(name, previous->c_str(), 1);
    else
      unsetenv(name);
  }
  ScopedVariable(const ScopedVariable &) = delete;
  ScopedVariable &operator=(const ScopedVariable &) = delete;

private:
  const char *name;
  std::optional<std::string> previous;
};

/// Returns OpenBLAS's name of its best sgemm on this CPU. All later AVX-512
/// cores use SkylakeX's, all AVX2 cores Haswell's.
const char *coreType() {
  if (const char *chosen = std::getenv("OPENBLAS_CORETYPE"))
    return chosen;
  int level = hostLevel();
  return level >= 4 ? "SkylakeX" : level == 3 ? "Haswell" : "Nehalem";
}

void *openLibrary() {
  int flags = RTLD_NOW | RTLD_LOCAL;
#if defined(RTLD_DEEPBIND) && !defined(SCALIFY_SANITIZED)
  // Our calls must not bind to another BLAS with global symbols in the process.
  flags |= RTLD_DEEPBIND;
#endif
  // The threaded build, although one thread is used: only that build may be
  // called from several threads at once.
  for (const char *path : {SCALIFY_OPENBLAS_PATH, "libopenblasp.so.0",
                           "libopenblas.so.0", "libopenblas.so"})
    if (void *handle = dlopen(path, flags))
      return handle;
  const char *reason = dlerror();
  unsupported(std::string("cannot load OpenBLAS, which multiplies matrices: ") +
              (reason ? reason : "unknown error") +
              "; install the package libopenblas0-pthread");
}

template <typename Fn> Fn findIn(const Blas &blas, const char *symbol) {
  return reinterpret_cast<Fn>(blas.find(symbol));
}

Blas loadBlas() {
  Blas blas;
  {
    std::string core = coreType();
    ScopedVariable coreVariable("OPENBLAS_CORETYPE", core.c_str());
    ScopedVariable threadsVariable("OPENBLAS_NUM_THREADS", "1");
    blas.library = openLibrary();
  }
  blas.sgemm = findIn<Blas::Sgemm>(blas, "cblas_sgemm");
  findIn<void (*)(int)>(blas, "openblas_set_num_threads")(1);
  blas.description = findIn<char *(*)()>(blas, "openblas_get_config")();
  return blas;
}
} // namespace

void *Blas::find(const char *symbol) const {
  void *address = dlsym(library, symbol);
  if (!address)
    unsupported(std::string("the OpenBLAS library has no function '") + symbol +
                "'");
  return address;
}

const Blas &Blas::get() {
  // Never unloaded: the library has threads and buffers of its own.
  static const Blas blas = loadBlas();
  return blas;
}
