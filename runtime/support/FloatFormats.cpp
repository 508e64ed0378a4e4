#include "support/FloatFormats.h"
#include "support/Error.h"

#include <cstring>

using namespace scalify::rt;

namespace {
uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// A format with fewer exponent and mantissa bits than f32. `Largest` is the
/// code of the largest finite value. Higher codes are NaN, except for
/// `Infinite`, which is `QuietNan` in a format without an infinity.
template <typename Code, int Exponent, int Mantissa, Code Largest,
          Code Infinite, Code QuietNan, bool Saturates>
struct Narrow {
  static constexpr int bias = (1 << (Exponent - 1)) - 1;
  static constexpr int shift = 23 - Mantissa;
  static constexpr uint32_t sign = 1u << (Exponent + Mantissa);

  static Code encode(float value) {
    uint32_t bits = bitsOf(value);
    uint32_t magnitude = bits & 0x7fffffffu;
    Code signBit = bits >> 31 ? Code(sign) : Code(0);
    if (magnitude > 0x7f800000u || (Saturates && magnitude == 0x7f800000u))
      return signBit | QuietNan;
    uint32_t code;
    if (magnitude < uint32_t(127 + 1 - bias) << 23) {
      // Below the smallest normal: adding a number whose last bit is worth one
      // subnormal step rounds to the step.
      constexpr uint32_t magic = uint32_t(127 + 1 - bias - Mantissa + 23) << 23;
      code = bitsOf(fromBits(magnitude) + fromBits(magic)) - magic;
    } else {
      uint32_t odd = magnitude >> shift & 1;
      uint32_t half = (1u << (shift - 1)) - 1;
      code = ((magnitude + half + odd) >> shift) -
             (uint32_t(127 - bias) << Mantissa);
    }
    constexpr Code over = Saturates ? Largest : Infinite;
    return signBit | (code > Largest ? over : Code(code));
  }

  static float decode(Code code) {
    uint32_t magnitude = code & (sign - 1);
    uint32_t signBit = (code & sign) ? 0x80000000u : 0;
    if (magnitude > Largest) {
      bool isInfinite = Infinite != QuietNan && magnitude == Infinite;
      return fromBits(signBit | (isInfinite ? 0x7f800000u : 0x7fc00000u));
    }
    if (magnitude >> Mantissa)
      return fromBits(signBit |
                      ((magnitude << shift) + (uint32_t(127 - bias) << 23)));
    // A subnormal is exactly its code times one step.
    float step = fromBits(uint32_t(127 + 1 - bias - Mantissa) << 23);
    return fromBits(signBit | bitsOf(float(magnitude) * step));
  }
};

using E4M3FN = Narrow<uint8_t, 4, 3, 0x7e, 0x7f, 0x7f, true>;
using E5M2 = Narrow<uint8_t, 5, 2, 0x7b, 0x7c, 0x7e, true>;
using Half = Narrow<uint16_t, 5, 10, 0x7bff, 0x7c00, 0x7e00, false>;

float same(float value) { return value; }

template <typename Src, typename Dst>
void each(const void *src, void *dst, int64_t count, Dst (*fn)(Src)) {
  const Src *from = static_cast<const Src *>(src);
  Dst *to = static_cast<Dst *>(dst);
  for (int64_t i = 0; i < count; ++i)
    to[i] = fn(from[i]);
}

/// Calls `use` with the conversions from f32 to the type and back.
template <typename Use> void withConversions(DType type, Use use) {
  switch (type) {
  case DType::F8E4M3FN:
    return use(f32ToF8E4M3FN, f8E4M3FNToF32);
  case DType::F8E5M2:
    return use(f32ToF8E5M2, f8E5M2ToF32);
  case DType::BF16:
    return use(f32ToBF16, bf16ToF32);
  case DType::F16:
    return use(f32ToF16, f16ToF32);
  case DType::F32:
    return use(same, same);
  default:
    badArgument(std::string("cannot convert between f32 and ") + name(type));
  }
}
} // namespace

uint8_t scalify::rt::f32ToF8E4M3FN(float value) {
  return E4M3FN::encode(value);
}
uint8_t scalify::rt::f32ToF8E5M2(float value) { return E5M2::encode(value); }
uint16_t scalify::rt::f32ToF16(float value) { return Half::encode(value); }

uint16_t scalify::rt::f32ToBF16(float value) {
  uint32_t bits = bitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t(bits >> 16 & 0x8000u) | 0x7fc0u;
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

float scalify::rt::f8E4M3FNToF32(uint8_t code) { return E4M3FN::decode(code); }
float scalify::rt::f8E5M2ToF32(uint8_t code) { return E5M2::decode(code); }
float scalify::rt::f16ToF32(uint16_t code) { return Half::decode(code); }
float scalify::rt::bf16ToF32(uint16_t code) {
  return fromBits(uint32_t(code) << 16);
}

bool scalify::rt::isNarrowFloat(DType type) {
  return isFP8(type) || type == DType::BF16 || type == DType::F16 ||
         type == DType::F32;
}

void scalify::rt::convertFromF32(DType type, const float *src, void *dst,
                                 int64_t count) {
  withConversions(type,
                  [&](auto encode, auto) { each(src, dst, count, encode); });
}

void scalify::rt::convertToF32(DType type, const void *src, float *dst,
                               int64_t count) {
  withConversions(type,
                  [&](auto, auto decode) { each(src, dst, count, decode); });
}
