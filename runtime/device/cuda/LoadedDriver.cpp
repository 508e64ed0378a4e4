// The table filled from the libraries on this machine.
#include "device/cuda/Driver.h"
#include "support/Error.h"

#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <sstream>
#include <vector>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
constexpr const char *foldersVariable = "SCALIFY_CUDA_LIBRARIES";
constexpr const char *wayOut =
    "; to see what a step would do without a GPU, load it with device 'null'";

/// The folders that the user named, and where PyPI's wheels keep their
/// libraries under the folder `nvidia` of site-packages.
std::vector<std::string> folders() {
  std::vector<std::string> found;
  const char *named = std::getenv(foldersVariable);
  std::stringstream list(named ? named : "");
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty())
      for (const char *inner : {"", "/lib", "/cublas/lib", "/cu13/lib"})
        found.push_back(folder + inner + "/");
  found.emplace_back(); // where the dynamic linker looks
  return found;
}

/// Opens the first of `names` that there is. Libraries are never closed: the
/// driver keeps threads of its own.
void *open(const std::vector<const char *> &names, const std::string &advice) {
  std::string reason;
  for (const std::string &folder : folders())
    for (const char *name : names) {
      if (void *library =
              dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL))
        return library;
      const char *text = dlerror();
      reason = text ? text : "unknown error of the dynamic linker";
    }
  unsupported("device 'cuda' needs " + std::string(names.front()) + ": " +
              reason + "; " + advice + wayOut);
}

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
    void *driver = open({"libcuda.so.1"}, "install NVIDIA's driver");
    void *blas =
        open({"libcublasLt.so.13", "libcublasLt.so.12"},
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
};
} // namespace

std::shared_ptr<Driver> cuda::loadDriver() {
  // Not a static initialised by a call: one that throws is tried again, so a
  // program may set the variable and load once more.
  static std::mutex mutex;
  static std::shared_ptr<Driver> loaded;
  std::lock_guard<std::mutex> lock(mutex);
  if (!loaded)
    loaded = std::make_shared<LoadedDriver>();
  return loaded;
}
