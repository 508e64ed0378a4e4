#include "loader/Image.h"
#include "support/Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace scalify::rt;

namespace {
/// Reads a little-endian word, whatever the host's byte order and alignment.
uint64_t readWord(const uint8_t *at) {
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i)
    word = word << 8 | at[i];
  return word;
}

std::string ioText(const char *what, const std::string &path) {
  return std::string("cannot ") + what + " artefact '" + path +
         "': " + std::strerror(errno);
}

struct File {
  int fd;
  ~File() {
    if (fd >= 0)
      close(fd);
  }
};
} // namespace

uint64_t scalify::rt::fnv1a(const void *data, size_t size, uint64_t hash) {
  const uint8_t *bytes = static_cast<const uint8_t *>(data);
  for (size_t i = 0; i < size; ++i)
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

Image::Image(size_t size) : length(size) {
  if (size < headerSize)
    badArtefact("artefact is truncated: " + std::to_string(size) +
                " bytes, the header alone takes 32");
  void *map = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    throw Error(SCALIFY_RT_INTERNAL, "cannot allocate " + std::to_string(size) +
                                         " bytes for the artefact");
  bytes = static_cast<uint8_t *>(map);
}

Image::Image(Image &&other) noexcept
    : bytes(std::exchange(other.bytes, nullptr)), length(other.length),
      manifestText(std::move(other.manifestText)) {}

Image::~Image() {
  if (bytes)
    munmap(bytes, length);
}

Image Image::fromFile(const std::string &path) {
  File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat info;
  if (file.fd < 0 || fstat(file.fd, &info) != 0)
    throw Error(SCALIFY_RT_IO, ioText("open", path));
  if (!S_ISREG(info.st_mode))
    throw Error(SCALIFY_RT_IO,
                "cannot open artefact '" + path + "': not a regular file");
  Image image(static_cast<size_t>(info.st_size));
  for (size_t at = 0; at < image.length;) {
    ssize_t got = read(file.fd, image.bytes + at, image.length - at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      throw Error(SCALIFY_RT_IO, ioText("read", path));
    if (got == 0)
      badArtefact("artefact '" + path + "' shrank while it was read");
    at += static_cast<size_t>(got);
  }
  image.open();
  return image;
}

Image Image::fromMemory(const void *data, size_t size) {
  Image image(size);
  std::memcpy(image.bytes, data, size);
  image.open();
  return image;
}

void Image::open() {
  if (std::memcmp(bytes, magic, 8) != 0)
    badArtefact("not a Scalify artefact: the file does not start with "
                "'SCALIFY1'");
  uint64_t manifestLength = readWord(bytes + 8);
  uint64_t fileLength = readWord(bytes + 16);
  uint64_t checksum = readWord(bytes + 24);
  if (fileLength != length)
    badArtefact((fileLength > length ? "artefact is truncated: it should have "
                                     : "artefact has bytes too many: it should "
                                       "have ") +
                std::to_string(fileLength) + " bytes and has " +
                std::to_string(length));
  if (manifestLength > length - headerSize)
    badArtefact("artefact header claims a manifest of " +
                std::to_string(manifestLength) + " bytes in a file of " +
                std::to_string(length));
  if (fnv1a(bytes + headerSize, length - headerSize) != checksum)
    badArtefact("artefact is damaged: its checksum does not match; compile "
                "it again or copy it again");
  manifestText.assign(reinterpret_cast<const char *>(bytes) + headerSize,
                      manifestLength);
  // The checksum does not cover the header: a wrong length is detected here or
  // as malformed JSON.
  if (manifestText.find('\0') != std::string::npos)
    badArtefact("artefact header claims a manifest of " +
                std::to_string(manifestLength) +
                " bytes, more than its text has");
  if (mprotect(bytes, length, PROT_READ) != 0)
    throw Error(SCALIFY_RT_INTERNAL, "cannot protect the artefact's memory");
}
