// Files of tensors from anyone: an error, or tensors that lie in the file and
// are the same once written and read again. The input is the file.
#include "JsonMutator.h"
#include "tools/scalify-run/Safetensors.h"

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

using namespace scalify::rt;
using Json = nlohmann::json;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {
constexpr size_t lengthBytes = 8;

void require(bool isTrue) {
  if (!isTrue)
    std::abort();
}

/// A folder in memory, removed at the end.
struct Folder {
  Folder() {
    char name[] = "/dev/shm/safetensors-fuzz-XXXXXX";
    require(::mkdtemp(name));
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

bool isSame(const SafetensorsFile &a, const SafetensorsFile &b) {
  if (a.all().size() != b.all().size())
    return false;
  for (const auto &[name, tensor] : a.all()) {
    const FileTensor *other = b.find(name);
    // Reads every byte: the sanitizer sees those outside of the file.
    if (!other || !(other->type == tensor.type) ||
        (tensor.type.bytes &&
         std::memcmp(tensor.data, other->data, size_t(tensor.type.bytes)) != 0))
      return false;
  }
  return true;
}

/// Tensors may overlap in a file, so that one of a few bytes may name many.
bool isLarge(const SafetensorsFile &file) {
  int64_t bytes = 0;
  for (const auto &[name, tensor] : file.all())
    bytes += tensor.type.bytes;
  return bytes > 1 << 20;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Folder folder;
  static const int input = ::memfd_create("input", MFD_CLOEXEC);
  static const std::string given = "/proc/self/fd/" + std::to_string(input),
                           again = folder.path / "again";
  require(::ftruncate(input, 0) == 0 &&
          ::pwrite(input, data, size, 0) == ssize_t(size));
  try {
    SafetensorsFile file(given);
    if (isLarge(file))
      return 0;
    std::vector<NamedTensor> tensors;
    for (const auto &[name, tensor] : file.all())
      tensors.push_back({name, tensor.type, tensor.data});
    writeSafetensors(again, tensors);
    require(isSame(file, SafetensorsFile(again)));
  } catch (const std::runtime_error &) {
    // Refused with a text.
  }
  return 0;
}

/// Mutates the header as JSON, and corrects its length; else mutates bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  uint64_t length = 0;
  if (size >= lengthBytes)
    std::memcpy(&length, data, lengthBytes);
  if (size < lengthBytes || length > size - lengthBytes || seed % 16 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  const uint8_t *header = data + lengthBytes, *end = header + length;
  Json json = Json::parse(header, end, nullptr, false);
  if (json.is_discarded())
    return LLVMFuzzerMutate(data, size, maxSize);
  scalify::fuzz::mutate(json, seed);
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string rest(end, static_cast<const uint8_t *>(data + size));
  if (lengthBytes + text.size() + rest.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  length = text.size();
  std::memcpy(data, &length, lengthBytes);
  std::memcpy(data + lengthBytes, text.data(), text.size());
  std::memcpy(data + lengthBytes + text.size(), rest.data(), rest.size());
  return lengthBytes + text.size() + rest.size();
}
