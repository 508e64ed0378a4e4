// Conversions between f32 and the narrow formats, on the host.
//
// Rounding is to nearest, ties to even. FP8 saturates: finite values beyond the
// largest become it, with their sign, and infinities become NaN. F16 and BF16
// overflow to infinity as in IEEE 754. NaN stays NaN and keeps its sign.
// Subnormals of every format are exact.
#ifndef SCALIFY_RUNTIME_SUPPORT_FLOATFORMATS_H
#define SCALIFY_RUNTIME_SUPPORT_FLOATFORMATS_H

#include "support/Types.h"

namespace scalify::rt {

uint8_t f32ToF8E4M3FN(float value);
uint8_t f32ToF8E5M2(float value);
uint16_t f32ToF16(float value);
uint16_t f32ToBF16(float value);

float f8E4M3FNToF32(uint8_t code);
float f8E5M2ToF32(uint8_t code);
float f16ToF32(uint16_t code);
float bf16ToF32(uint16_t code);

inline bool isFP8(DType type) {
  return type == DType::F8E4M3FN || type == DType::F8E5M2;
}

/// True for the float types of at most 32 bits, which the conversions below
/// accept.
bool isNarrowFloat(DType type);

/// Converts `count` elements of `src` to `type` at `dst`.
void convertFromF32(DType type, const float *src, void *dst, int64_t count);

/// Converts `count` elements of `type` at `src` to f32.
void convertToF32(DType type, const void *src, float *dst, int64_t count);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_FLOATFORMATS_H
