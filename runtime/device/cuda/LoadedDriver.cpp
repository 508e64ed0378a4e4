// Fills the driver's table from this machine's libraries.
#include "device/cuda/Driver.h"
#include "device/cuda/Library.h"
#include "support/Error.h"

#include <dlfcn.h>
#include <mutex>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
template <typename Signature>
void bind(std::function<Signature> &entry, void *library, const char *symbol,
          const char *owner) {
  void *address = dlsym(library, symbol);
  if (!address)
    unsupported(std::string(owner) + " has no " + symbol +
                ": it is older than CUDA 12.0; update it" + wayOut);
  entry = reinterpret_cast<Signature *>(address);
}

struct LoadedDriver : Driver {
  LoadedDriver() {
    void *driver = openLibrary({"libcuda.so.1"}, "install NVIDIA's driver");
    void *blas = openLibrary(
        {"libcublasLt.so.13", "libcublasLt.so.12"},
        std::string("install cuBLAS of CUDA 12 or 13, or name its "
                    "folder in ") +
            foldersVariable +
            " (PyPI's wheels: the folder 'nvidia' of site-packages)");
#define SCALIFY_BIND(name, ...) bind(name, driver, #name, "NVIDIA's driver");
    SCALIFY_CUDA_ENTRIES(SCALIFY_BIND)
#undef SCALIFY_BIND
#define SCALIFY_BIND(name, ...) bind(name, blas, #name, "cuBLASLt");
    SCALIFY_CUBLASLT_ENTRIES(SCALIFY_BIND)
#undef SCALIFY_BIND
  }

  std::unique_ptr<AttentionLibrary> openAttention() override {
    return loadCudnn();
  }

  std::shared_ptr<Nccl> openNccl() override { return loadNccl(); }
};
} // namespace

std::shared_ptr<Driver> cuda::loadDriver() {
  // Not a static with an initialiser: after an exception the next call tries
  // again, so a program may set the variable and load once more.
  static std::mutex mutex;
  static std::shared_ptr<Driver> loaded;
  std::lock_guard<std::mutex> lock(mutex);
  if (!loaded)
    loaded = std::make_shared<LoadedDriver>();
  return loaded;
}
