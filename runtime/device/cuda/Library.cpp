#include "device/cuda/Library.h"
#include "support/Error.h"

#include <cstdlib>
#include <dlfcn.h>
#include <sstream>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
/// Returns the folders to search: those that the user named, and the library
/// folders of PyPI's wheels below the folder `nvidia` of site-packages.
std::vector<std::string> folders() {
  std::vector<std::string> found;
  const char *named = std::getenv(foldersVariable);
  std::stringstream list(named ? named : "");
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty())
      for (const char *inner : {"", "/lib", "/cublas/lib", "/cu13/lib",
                                "/cudnn/lib", "/cuda_runtime/lib", "/nccl/lib"})
        found.push_back(folder + inner + "/");
  found.emplace_back(); // the dynamic linker's search path
  return found;
}
} // namespace

void *cuda::openLibrary(const std::vector<const char *> &names,
                        const std::string &advice) {
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
