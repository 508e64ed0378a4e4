#include "loader/SharedObject.h"
#include "support/Error.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace scalify::rt;

namespace {
void writeAll(int fd, const char *data, size_t size) {
  while (size) {
    ssize_t put = write(fd, data, size);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      throw Error(SCALIFY_RT_INTERNAL,
                  std::string("cannot write kernels to memory: ") +
                      std::strerror(errno));
    data += put;
    size -= static_cast<size_t>(put);
  }
}
} // namespace

SharedObject::SharedObject(const void *data, size_t size) {
  if (size < 4 || std::memcmp(data, "\177ELF", 4) != 0)
    badArtefact("the kernels section is not an ELF shared object");
  fd = memfd_create("scalify-kernels", MFD_CLOEXEC);
  if (fd < 0)
    throw Error(SCALIFY_RT_INTERNAL,
                std::string("cannot create a memory file for kernels: ") +
                    std::strerror(errno));
  try {
    writeAll(fd, static_cast<const char *>(data), size);
    load();
  } catch (...) {
    close(fd);
    throw;
  }
}

void SharedObject::load() {
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    badArtefact(std::string("cannot load the kernels: ") +
                (reason ? reason : "unknown error of the dynamic linker"));
  }
}

SharedObject::~SharedObject() {
  if (handle)
    dlclose(handle);
  if (fd >= 0)
    close(fd);
}

SharedObject::SharedObject(SharedObject &&other) noexcept
    : handle(std::exchange(other.handle, nullptr)),
      fd(std::exchange(other.fd, -1)) {}

SharedObject &SharedObject::operator=(SharedObject &&other) noexcept {
  std::swap(handle, other.handle);
  std::swap(fd, other.fd);
  return *this;
}

KernelFn SharedObject::kernel(const std::string &symbol) const {
  void *address = handle ? dlsym(handle, symbol.c_str()) : nullptr;
  if (!address)
    badArtefact("the kernels section has no symbol '" + symbol + "'");
  return reinterpret_cast<KernelFn>(address);
}
