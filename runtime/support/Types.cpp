#include "support/Types.h"

using namespace scalify::rt;

namespace {
struct DTypeInfo {
  const char *name;
  int64_t width;
};
// In the order of the enumeration.
constexpr DTypeInfo infos[] = {
    {"i1", 1},
    {"i8", 1},
    {"i16", 2},
    {"i32", 4},
    {"i64", 8},
    {"ui8", 1},
    {"ui16", 2},
    {"ui32", 4},
    {"ui64", 8},
    {"f8E4M3FN", 1},
    {"f8E5M2", 1},
    {"bf16", 2},
    {"f16", 2},
    {"f32", 4},
    {"f64", 8},
    {"complex<f32>", 8},
    {"complex<f64>", 16},
    {"i2", 1},
    {"i4", 1},
    {"ui2", 1},
    {"ui4", 1},
};
} // namespace

int64_t scalify::rt::byteWidth(DType type) {
  return infos[static_cast<size_t>(type)].width;
}

const char *scalify::rt::name(DType type) {
  return infos[static_cast<size_t>(type)].name;
}

std::optional<DType> scalify::rt::parseDType(const std::string &name) {
  for (size_t i = 0; i < sizeof(infos) / sizeof(infos[0]); ++i)
    if (name == infos[i].name)
      return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<TensorType>
scalify::rt::makeTensorType(DType dtype, std::vector<int64_t> shape) {
  TensorType type;
  type.dtype = dtype;
  for (int64_t extent : shape)
    if (extent < 0 ||
        __builtin_mul_overflow(type.elements, extent, &type.elements))
      return std::nullopt;
  if (__builtin_mul_overflow(type.elements, byteWidth(dtype), &type.bytes) ||
      type.bytes > (int64_t(1) << 62))
    return std::nullopt;
  type.shape = std::move(shape);
  return type;
}

std::string scalify::rt::toString(const TensorType &type) {
  std::string text = name(type.dtype);
  text += '[';
  for (size_t i = 0; i < type.shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(type.shape[i]);
  return text + ']';
}
