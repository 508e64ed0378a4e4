// A reader and a writer of the safetensors format: eight bytes with the
// header's length, a JSON header, then the tensors' bytes without gaps.
#ifndef SCALIFY_RUNTIME_TOOLS_SAFETENSORS_H
#define SCALIFY_RUNTIME_TOOLS_SAFETENSORS_H

#include "support/Types.h"

#include <map>
#include <string>
#include <vector>

namespace scalify::rt {

/// A tensor in a file that was read.
struct FileTensor {
  TensorType type;
  const char *data = nullptr;
};

class SafetensorsFile {
public:
  /// Reads the whole file. Throws a std::runtime_error that names the defect.
  explicit SafetensorsFile(const std::string &path);
  SafetensorsFile(const SafetensorsFile &) = delete;
  SafetensorsFile &operator=(const SafetensorsFile &) = delete;

  /// Returns the tensor of that name, or null.
  const FileTensor *find(const std::string &name) const;
  const std::map<std::string, FileTensor> &all() const { return tensors; }

private:
  std::vector<char> bytes;
  std::map<std::string, FileTensor> tensors;
};

/// A tensor to write.
struct NamedTensor {
  std::string name;
  TensorType type;
  const void *data = nullptr;
};

/// Writes a file beside `path` and renames it, so that a reader never sees a
/// partial file. Throws a std::runtime_error on failure.
void writeSafetensors(const std::string &path,
                      std::vector<NamedTensor> tensors);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_TOOLS_SAFETENSORS_H
