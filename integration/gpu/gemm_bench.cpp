// Times bare cuBLASLt for comparison with our products: reads lines of
// "type m n k" and writes them with two times in milliseconds, of the
// heuristic's first algorithm and of the best of its first eight.
//
// As in our runtime, A is [m, k] and B [n, k], both with k innermost, the
// result is BF16 and row major, and FP8 operands have scales in memory. A step
// is one A by four Bs, with an event before each and after the last, as in the
// runtime's profile. The first product waits for the host and is ignored; the
// median of the others counts.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int Algorithms = 8, WarmUps = 5, Steps = 30;
constexpr size_t Products = 4;
constexpr size_t Workspace = size_t(32) << 20;

void check(int status, const char *call) {
  if (status == 0)
    return;
  std::fprintf(stderr, "%s failed: %d\n", call, status);
  std::exit(1);
}
#define CHECK(call) check(int(call), #call)

bool isFP8(const std::string &type) { return type == "f8E4M3FN"; }
size_t sizeOf(const std::string &type) { return isFP8(type) ? 1 : 2; }

// Normal numbers: the power, and so the clock, depends on the data.
std::vector<char> normal(const std::string &type, size_t count) {
  std::mt19937 words(0);
  std::normal_distribution<float> draw;
  std::vector<char> bytes(count * sizeOf(type));
  for (size_t i = 0; i < count; ++i)
    if (isFP8(type))
      bytes[i] =
          char(__nv_cvt_float_to_fp8(draw(words), __NV_SATFINITE, __NV_E4M3));
    else
      reinterpret_cast<__nv_bfloat16 *>(bytes.data())[i] =
          __float2bfloat16(draw(words));
  return bytes;
}

// A matrix of the GPU that repeats a block of odd length, so that rows differ;
// matrices start at different places of the block.
void *matrix(const std::string &type, const std::vector<char> &block,
             size_t count, size_t number) {
  size_t bytes = count * sizeOf(type), length = block.size();
  char *memory = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void **>(&memory), bytes));
  size_t from = number * 1000003 * sizeOf(type) % length;
  for (size_t at = 0; at < bytes;) {
    size_t part = std::min(length - from, bytes - at);
    CHECK(cudaMemcpy(memory + at, block.data() + from, part,
                     cudaMemcpyHostToDevice));
    at += part;
    from = 0;
  }
  return memory;
}

void *one() {
  float value = 1;
  void *memory = nullptr;
  CHECK(cudaMalloc(&memory, sizeof(value)));
  CHECK(cudaMemcpy(memory, &value, sizeof(value), cudaMemcpyHostToDevice));
  return memory;
}

struct Product {
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, d;
  std::vector<cublasLtMatmulHeuristicResult_t> found;
};

// A row-major [m, n] result is a column-major [n, m] one: the library's A is
// our B.
Product plan(cublasLtHandle_t handle, const std::string &type, uint64_t m,
             uint64_t n, uint64_t k) {
  Product p{};
  cudaDataType_t in = isFP8(type) ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
  CHECK(cublasLtMatmulDescCreate(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  cublasOperation_t turned = CUBLAS_OP_T;
  CHECK(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA,
                                       &turned, sizeof(turned)));
  if (isFP8(type)) {
    void *scale = one();
    for (auto name : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                      CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
      CHECK(
          cublasLtMatmulDescSetAttribute(p.desc, name, &scale, sizeof(scale)));
    int8_t fast = 1;
    CHECK(cublasLtMatmulDescSetAttribute(
        p.desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast)));
  }
  CHECK(cublasLtMatrixLayoutCreate(&p.a, in, k, n, int64_t(k)));
  CHECK(cublasLtMatrixLayoutCreate(&p.b, in, k, m, int64_t(k)));
  CHECK(cublasLtMatrixLayoutCreate(&p.d, CUDA_R_16BF, n, m, int64_t(n)));
  cublasLtMatmulPreference_t preference = nullptr;
  CHECK(cublasLtMatmulPreferenceCreate(&preference));
  CHECK(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &Workspace,
      sizeof(Workspace)));
  int count = 0;
  p.found.resize(Algorithms);
  CHECK(cublasLtMatmulAlgoGetHeuristic(handle, p.desc, p.a, p.b, p.d, p.d,
                                       preference, Algorithms, p.found.data(),
                                       &count));
  p.found.resize(size_t(count));
  return p;
}

struct Timer {
  cudaStream_t stream = nullptr;
  std::array<cudaEvent_t, Products + 1> events = {};
  Timer() {
    CHECK(cudaStreamCreate(&stream));
    for (cudaEvent_t &event : events)
      CHECK(cudaEventCreate(&event));
  }
  template <typename Function> float median(Function call) {
    std::vector<float> times;
    for (int step = 0; step < WarmUps + Steps; ++step) {
      for (size_t i = 0; i < Products; ++i) {
        CHECK(cudaEventRecord(events[i], stream));
        call(i);
      }
      CHECK(cudaEventRecord(events[Products], stream));
      CHECK(cudaEventSynchronize(events[Products]));
      for (size_t i = 1; step >= WarmUps && i < Products; ++i) {
        float milliseconds = 0;
        CHECK(cudaEventElapsedTime(&milliseconds, events[i], events[i + 1]));
        times.push_back(milliseconds);
      }
    }
    auto middle = times.begin() + std::ptrdiff_t(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }
};

} // namespace

int main() {
  cublasLtHandle_t handle = nullptr;
  CHECK(cublasLtCreate(&handle));
  void *workspace = nullptr;
  CHECK(cudaMalloc(&workspace, Workspace));
  Timer timer;
  std::string type;
  for (uint64_t m = 0, n = 0, k = 0; std::cin >> type >> m >> n >> k;) {
    if (!isFP8(type) && type != "bf16") {
      std::fprintf(stderr, "no type is called '%s'\n", type.c_str());
      return 1;
    }
    const std::vector<char> block = normal(type, 4194301);
    void *a = matrix(type, block, m * k, 0);
    std::array<void *, Products> b = {}, d = {};
    for (size_t i = 0; i < Products; ++i) {
      b[i] = matrix(type, block, n * k, i + 1);
      CHECK(cudaMalloc(&d[i], m * n * 2));
    }
    Product p = plan(handle, type, m, n, k);
    float alpha = 1, beta = 0;
    std::vector<float> times;
    for (const cublasLtMatmulHeuristicResult_t &algorithm : p.found)
      times.push_back(timer.median([&](size_t i) {
        CHECK(cublasLtMatmul(handle, p.desc, &alpha, b[i], p.a, a, p.b, &beta,
                             d[i], p.d, d[i], p.d, &algorithm.algo, workspace,
                             Workspace, timer.stream));
      }));
    if (times.empty()) {
      std::fprintf(stderr, "no algorithm for %s\n", type.c_str());
      return 1;
    }
    std::printf("%s %llu %llu %llu %.6f %.6f\n", type.c_str(),
                (unsigned long long)m, (unsigned long long)n,
                (unsigned long long)k, double(times.front()),
                double(*std::min_element(times.begin(), times.end())));
    std::fflush(stdout);
    CHECK(cudaFree(a));
    for (size_t i = 0; i < Products; ++i) {
      CHECK(cudaFree(b[i]));
      CHECK(cudaFree(d[i]));
    }
  }
  return 0;
}
