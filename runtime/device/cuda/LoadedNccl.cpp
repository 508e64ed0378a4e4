// Fills NCCL's table from this machine's library.
#include "device/cuda/Library.h"
#include "device/cuda/Nccl.h"
#include "support/Error.h"

#include <dlfcn.h>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
template <typename Signature>
void bind(std::function<Signature> &entry, void *library, const char *symbol) {
  void *address = dlsym(library, symbol);
  if (!address)
    unsupported(std::string("NCCL has no ") + symbol +
                ": it is older than 2.18; update it" + wayOut);
  entry = reinterpret_cast<Signature *>(address);
}
} // namespace

std::shared_ptr<Nccl> cuda::loadNccl() {
  void *library = openLibrary(
      {"libnccl.so.2"},
      std::string("GPUs exchange by NCCL: install 2.18 or newer (PyPI's "
                  "nvidia-nccl-cu12 or -cu13), or name its folder in ") +
          foldersVariable);
  auto loaded = std::make_shared<Nccl>();
#define SCALIFY_BIND(name, ...) bind(loaded->name, library, #name);
  SCALIFY_NCCL_ENTRIES(SCALIFY_BIND)
#undef SCALIFY_BIND
  return loaded;
}
