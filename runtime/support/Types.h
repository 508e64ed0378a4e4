// Element types and dense tensor shapes.
#ifndef SCALIFY_RUNTIME_SUPPORT_TYPES_H
#define SCALIFY_RUNTIME_SUPPORT_TYPES_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace scalify::rt {

enum class DType : uint8_t {
  I1,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  F8E4M3FN,
  F8E5M2,
  BF16,
  F16,
  F32,
  F64,
  // Types of arguments and results only; commands work on the parts of complex
  // numbers, and on bytes.
  C64,
  C128,
  I2,
  I4,
  U2,
  U4,
};

/// Bytes of one element; one of fewer bits takes one byte.
int64_t byteWidth(DType type);

/// Returns the type's name in the manifest, which is MLIR's: "f32", "ui8",
/// "f8E4M3FN".
const char *name(DType type);

/// Returns the type of that name, or nullopt.
std::optional<DType> parseDType(const std::string &name);

/// The type of a dense row-major tensor. makeTensorType() checks `bytes`
/// against overflow, so later arithmetic on it is safe.
struct TensorType {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  int64_t elements = 1;
  int64_t bytes = 4;

  bool operator==(const TensorType &other) const {
    return dtype == other.dtype && shape == other.shape;
  }
};

/// Returns nullopt if an extent is negative or the size exceeds 2^62 bytes.
std::optional<TensorType> makeTensorType(DType dtype,
                                         std::vector<int64_t> shape);

/// "f32[2,3]".
std::string toString(const TensorType &type);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_TYPES_H
