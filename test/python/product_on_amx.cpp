// Prints "exact" if a product on AMX has the sums of integers, which are exact.
#include "blas/AmxGemm.h"

#include <cstdio>
#include <cstring>
#include <vector>

using namespace scalify::rt;

static uint16_t toBF16(float value) {
  uint32_t word;
  std::memcpy(&word, &value, 4);
  return uint16_t(word >> 16);
}

int main() {
  const int64_t m = 97, n = 79, k = 1101;
  std::vector<uint16_t> a(m * k), b(k * n);
  std::vector<float> c(m * n);
  for (int64_t i = 0; i < m * k; ++i)
    a[i] = toBF16(float(i % 7 - 3));
  for (int64_t i = 0; i < k * n; ++i)
    b[i] = toBF16(float(i % 5 - 2));
  for (bool isTransposed : {false, true}) {
    GemmShape shape;
    shape.m = m;
    shape.n = n;
    shape.k = k;
    shape.a = isTransposed ? Strides{1, m} : Strides{k, 1};
    shape.b = {n, 1};
    shape.c = {n, 1};
    auto product = makeAmxGemm(shape, Tiles::WholeRows, 2);
    NarrowGemm::Operands operands{a.data(), b.data(), c.data()};
    for (int64_t task = 0; task < product->tasks(); ++task)
      product->run(task, operands);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int64_t sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          int64_t at = isTransposed ? p * m + i : i * k + p;
          sum += (at % 7 - 3) * ((p * n + j) % 5 - 2);
        }
        if (c[i * n + j] != float(sum))
          return 1;
      }
  }
  std::puts("exact");
}
