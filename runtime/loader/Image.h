// An artefact's bytes in memory: header checked, sections page aligned.
#ifndef SCALIFY_RUNTIME_LOADER_IMAGE_H
#define SCALIFY_RUNTIME_LOADER_IMAGE_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace scalify::rt {

/// Owns a private, page-aligned copy of an artefact. Not a mapping of the file,
/// since a compiler may rewrite the path while a step runs: then a mapping
/// would change or fault.
class Image {
public:
  static Image fromFile(const std::string &path);
  static Image fromMemory(const void *data, size_t size);
  ~Image();
  Image(Image &&other) noexcept;
  Image(const Image &) = delete;
  Image &operator=(const Image &) = delete;

  const std::string &manifest() const { return manifestText; }
  const uint8_t *data() const { return bytes; }
  size_t size() const { return length; }

private:
  explicit Image(size_t size);
  /// Checks magic, lengths and checksum, and reads the manifest's text.
  void open();

  uint8_t *bytes = nullptr;
  size_t length = 0;
  std::string manifestText;
};

/// FNV-1a, 64 bit; continues the hash of preceding bytes.
constexpr uint64_t fnvBasis = 0xcbf29ce484222325u;
uint64_t fnv1a(const void *data, size_t size, uint64_t hash = fnvBasis);

constexpr size_t headerSize = 32;
constexpr char magic[] = "SCALIFY1";

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_IMAGE_H
