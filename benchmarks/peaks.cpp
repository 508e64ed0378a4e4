// Measures what the cores of this machine do at most: products by the unit for
// BF16 and in F32, in registers, and bytes to and from memory. Prints a JSON
// object with GFLOP/s and GB/s of all threads together.
//
//   c++ -O3 -march=native -pthread peaks.cpp -o peaks && ./peaks THREADS

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <immintrin.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {
using Clock = std::chrono::steady_clock;

/// Keeps the result of a loop alive.
volatile float sink;

/// Runs `work` on all threads; returns the seconds of the shortest of 5 runs.
double secondsOf(int threads, const std::function<void(int)> &work) {
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    Clock::time_point start = Clock::now();
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i)
      others.emplace_back(work, i);
    work(0);
    for (std::thread &other : others)
      other.join();
    std::chrono::duration<double> spent = Clock::now() - start;
    best = std::min(best, spent.count());
  }
  return best;
}

constexpr int64_t rounds = 4000000;

#if defined(__AVX512F__)
double f32(int threads) {
  // Twelve sums hide the latency of a multiply-add.
  auto work = [](int) {
    __m512 sums[12], x = _mm512_set1_ps(1.0f), y = _mm512_set1_ps(1e-9f);
    for (__m512 &sum : sums)
      sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < rounds; ++i)
      for (__m512 &sum : sums)
        sum = _mm512_fmadd_ps(x, y, sum);
    for (__m512 &sum : sums)
      sink = _mm512_reduce_add_ps(sum);
  };
  return 2e-9 * 16 * 12 * rounds * threads / secondsOf(threads, work);
}
#elif defined(__AVX2__) && defined(__FMA__)
double f32(int threads) {
  auto work = [](int) {
    __m256 sums[12], x = _mm256_set1_ps(1.0f), y = _mm256_set1_ps(1e-9f);
    for (__m256 &sum : sums)
      sum = _mm256_setzero_ps();
    for (int64_t i = 0; i < rounds; ++i)
      for (__m256 &sum : sums)
        sum = _mm256_fmadd_ps(x, y, sum);
    for (__m256 &sum : sums)
      sink = _mm256_cvtss_f32(sum);
  };
  return 2e-9 * 8 * 12 * rounds * threads / secondsOf(threads, work);
}
#else
double f32(int) { return 0; }
#endif

#if defined(__AVX512BF16__)
double avx512(int threads) {
  auto work = [](int) {
    __m512 sums[12];
    auto x = (__m512bh)_mm512_set1_epi16(0x3f80);
    auto y = (__m512bh)_mm512_set1_epi16(0x3000);
    for (__m512 &sum : sums)
      sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < rounds; ++i)
      for (__m512 &sum : sums)
        sum = _mm512_dpbf16_ps(sum, x, y);
    for (__m512 &sum : sums)
      sink = _mm512_reduce_add_ps(sum);
  };
  return 2e-9 * 32 * 12 * rounds * threads / secondsOf(threads, work);
}
#else
double avx512(int) { return 0; }
#endif

#if defined(__AMX_BF16__)
double amx(int threads) {
  constexpr int requestPermission = 0x1023, tileData = 18;
  if (syscall(SYS_arch_prctl, requestPermission, tileData))
    return 0;
  constexpr int64_t calls = rounds / 16;
  auto work = [](int) {
    struct alignas(64) {
      uint8_t palette = 1, start = 0, zero[14] = {};
      uint16_t columns[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    alignas(64) uint8_t memory[1024] = {};
    _tile_loadconfig(&config);
    _tile_loadd(4, memory, 64);
    _tile_loadd(5, memory, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < calls; ++i) {
      _tile_dpbf16ps(0, 4, 5);
      _tile_dpbf16ps(1, 4, 5);
      _tile_dpbf16ps(2, 4, 5);
      _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, memory, 64);
    sink = memory[0];
    _tile_release();
  };
  return 2e-9 * 16 * 16 * 32 * 4 * calls * threads / secondsOf(threads, work);
}
#else
double amx(int) { return 0; }
#endif

/// y = x + y over 128 MiB a thread: two reads and a write.
double memory(int threads) {
  constexpr size_t count = size_t(16) << 20;
  std::vector<std::vector<float>> x(threads), y(threads);
  auto fill = [&](int i) {
    x[size_t(i)].assign(count, 1.0f);
    y[size_t(i)].assign(count, 2.0f);
  };
  std::vector<std::thread> fillers;
  for (int i = 0; i < threads; ++i)
    fillers.emplace_back(fill, i);
  for (std::thread &filler : fillers)
    filler.join();
  double seconds = secondsOf(threads, [&](int i) {
    float *to = y[size_t(i)].data();
    const float *from = x[size_t(i)].data();
    for (size_t j = 0; j < count; ++j)
      to[j] += from[j];
  });
  return 1e-9 * 12 * double(count) * threads / seconds;
}
} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  std::printf("{\"threads\": %d, \"f32\": %.1f, \"avx512_bf16\": %.1f, "
              "\"amx\": %.1f, \"memory\": %.2f}\n",
              threads, f32(threads), avx512(threads), amx(threads),
              memory(threads));
}
