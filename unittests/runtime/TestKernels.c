// Kernels for the runtime's tests, in the artefact's ABI. Compiled like the
// compiler's: freestanding, without undefined symbols.
#include <stdint.h>

#ifndef OFFSET
#define OFFSET 0.0f
#endif

// out[i] = a[i] + b[i] + OFFSET, one row per element.
void add(void *const *bufs, int64_t lo, int64_t hi, uint64_t *counters) {
  const float *a = bufs[0], *b = bufs[1];
  float *out = bufs[2];
  for (int64_t i = lo; i < hi; ++i)
    out[i] = a[i] + b[i] + OFFSET;
}

// out[i] = clamp(a[i], -1, 1); counts clipped values, and flushed ones below
// 0.001.
void clip(void *const *bufs, int64_t lo, int64_t hi, uint64_t *counters) {
  const float *a = bufs[0];
  float *out = bufs[1];
  for (int64_t i = lo; i < hi; ++i) {
    float x = a[i];
    if (x > 1.0f || x < -1.0f) {
      x = x > 0 ? 1.0f : -1.0f;
      ++counters[0];
    } else if (x != 0.0f && x < 0.001f && x > -0.001f) {
      x = 0.0f;
      ++counters[1];
    }
    out[i] = x;
  }
}

// loss[0] = sum of the 64 elements of a; cannot be split.
void total(void *const *bufs, int64_t lo, int64_t hi, uint64_t *counters) {
  const float *a = bufs[0];
  float sum = 0.0f;
  for (int64_t i = 0; i < 64; ++i)
    sum += a[i];
  ((float *)bufs[1])[0] = sum;
}

// Takes long enough to be interrupted: out[0] = an arbitrary number.
void slow(void *const *bufs, int64_t lo, int64_t hi, uint64_t *counters) {
  volatile float *out = bufs[0];
  for (int64_t i = 0; i < 60000000; ++i)
    out[0] = (float)i;
}

#ifdef RUNS_AT_LOAD
int setenv(const char *name, const char *value, int overwrite);
__attribute__((constructor)) static void run(void) {
  setenv("SCALIFY_TEST_RAN", "1", 1);
}
#endif
