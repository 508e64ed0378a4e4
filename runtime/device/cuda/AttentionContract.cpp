#include "device/cuda/AttentionContract.h"

#include <cstdio>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
/// Kernels move matrices by loads and TMA of 16 bytes. cuDNN's frontend
/// requires this alignment of pointers and strides; its backend does not check
/// it.
constexpr int64_t vectorBytes = 16;
/// A forward's heads may have 256 channels, a gradient's 128 in every version
/// since 9.0; one bound serves both.
constexpr int64_t maxChannels = 128;

std::string number(int64_t value) { return std::to_string(value); }
} // namespace

const char *cuda::bufferName(const AttentionShape &shape, size_t buffer) {
  constexpr const char *forward[] = {"q", "k", "v", "o", "stats"};
  constexpr const char *gradient[] = {"q",     "k",  "v",  "o", "do",
                                      "stats", "dq", "dk", "dv"};
  return shape.isGradient ? gradient[buffer] : forward[buffer];
}

std::string cuda::attentionViolation(const AttentionShape &shape) {
  if (shape.type != DType::BF16 && shape.type != DType::F16)
    return std::string("matrices must be bf16 or f16, not ") + name(shape.type);
  if (shape.channels % 8 || shape.channels > maxChannels)
    return "a head must have a multiple of 8 channels, at most " +
           number(maxChannels) + ", not " + number(shape.channels);
  if (shape.heads % shape.keyHeads)
    return number(shape.heads) + " heads cannot share " +
           number(shape.keyHeads) + " key heads";
  if (shape.isCausal && shape.queries != shape.keys)
    return "a causal attention needs as many queries as keys";
  for (size_t i = 0; i < shape.windows.size(); ++i) {
    const AttentionWindow &window = shape.windows[i];
    for (int64_t step : {window.offset, window.batch, window.head, window.row})
      if (step * byteWidth(shape.type) % vectorBytes)
        return std::string("matrix ") + bufferName(shape, shape.bufferOf(i)) +
               " must lie in steps of 16 bytes, not " +
               number(step * byteWidth(shape.type));
  }
  return "";
}

std::string cuda::checkAttentionAddresses(const AttentionShape &shape,
                                          void *const *buffers) {
  for (size_t i = 0; i < shape.buffers(); ++i)
    if (reinterpret_cast<uintptr_t>(buffers[i]) % uintptr_t(vectorBytes))
      return std::string("buffer ") + bufferName(shape, i) +
             " is not at a multiple of 16 bytes";
  return "";
}

std::string cuda::describe(const AttentionShape &shape) {
  char scale[32];
  (void)std::snprintf(scale, sizeof(scale), "%.9g", double(shape.scale));
  return "b=" + number(shape.batch) + " h=" + number(shape.heads) +
         " hk=" + number(shape.keyHeads) + " q=" + number(shape.queries) +
         " k=" + number(shape.keys) + " d=" + number(shape.channels) + " " +
         name(shape.type) + " scale=" + scale +
         (shape.isCausal ? " causal" : "");
}
