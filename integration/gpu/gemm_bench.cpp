// Times cuBLASLt by itself, for products beside ours: reads lines of
// "type m n k" and writes them with two times in milliseconds, of the
// heuristic's first algorithm and of the best of its first eight.
//
// As in our runtime, A is [m, k] and B [n, k], both with k innermost, the
// result is BF16 and row major, and FP8 operands have scales in memory. Every
// call has events of its own, as in the runtime's profile, and the median
// counts.
#include <algorithm>
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

constexpr int Algorithms = 8, WarmUps = 5, Calls = 30;
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

// Normal numbers: power, and so the clock, depends on the data.
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

// A matrix of the GPU. The block it repeats has an odd length, so that rows
// differ.
void *matrix(const std::string &type, size_t count) {
  std::vector<char> block = normal(type, std::min(count, size_t(4194301)));
  size_t bytes = count * sizeOf(type);
  char *memory = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void **>(&memory), bytes));
  for (size_t at = 0; at < bytes; at += block.size())
    CHECK(cudaMemcpy(memory + at, block.data(),
                     std::min(block.size(), bytes - at),
                     cudaMemcpyHostToDevice));
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
  cudaEvent_t begin = nullptr, end = nullptr;
  Timer() {
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
  }
  template <typename Function> float median(Function call) {
    std::vector<float> times;
    for (int i = 0; i < WarmUps + Calls; ++i) {
      CHECK(cudaEventRecord(begin, stream));
      call();
      CHECK(cudaEventRecord(end, stream));
      CHECK(cudaEventSynchronize(end));
      float milliseconds = 0;
      CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
      if (i >= WarmUps)
        times.push_back(milliseconds);
    }
    std::nth_element(times.begin(), times.begin() + Calls / 2, times.end());
    return times[Calls / 2];
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
    void *a = matrix(type, m * k), *b = matrix(type, n * k), *d = nullptr;
    CHECK(cudaMalloc(&d, m * n * 2));
    Product p = plan(handle, type, m, n, k);
    float alpha = 1, beta = 0;
    std::vector<float> times;
    for (const cublasLtMatmulHeuristicResult_t &algorithm : p.found)
      times.push_back(timer.median([&] {
        CHECK(cublasLtMatmul(handle, p.desc, &alpha, b, p.a, a, p.b, &beta, d,
                             p.d, d, p.d, &algorithm.algo, workspace, Workspace,
                             timer.stream));
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
    for (void *memory : {a, b, d})
      CHECK(cudaFree(memory));
  }
  return 0;
}
