#include "GpuArtefact.h"
#include "device/cuda/CudaDevice.h"
#include "support/Error.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

using namespace scalify::rt;
using namespace scalify::rt::test;

static Json tensor(const char *name, std::vector<int64_t> shape) {
  return {{"name", name}, {"shape", std::move(shape)}, {"dtype", "f32"}};
}

static Json cast(int from, int to, int counter) {
  return {{"op", "kernel"},        {"symbol", "cast"},
          {"bufs", {from, to}},    {"rows", 12},
          {"threads", 256},        {"grain", 1},
          {"counters", {counter}}, {"name", "cast"},
          {"loc", "step/cast"},    {"bytes", 15360}};
}

Json test::gpuManifest() {
  Json params = tensor("params['w']", {32, 64});
  params["alias_result"] = 0;
  Json updated = tensor("result[0]['w']", {32, 64});
  updated["alias_arg"] = 0;
  Json product = {{"op", "gemm"},
                  {"name", "dot"},
                  {"loc", "step/dot"},
                  {"m", 48},
                  {"n", 32},
                  {"k", 64},
                  {"a", 4},
                  {"b", 5},
                  {"c", 6},
                  {"a_strides", {64, 1}},
                  {"b_strides", {1, 64}},
                  {"c_strides", {32, 1}},
                  {"alpha", 0.5},
                  {"a_scale", 7},
                  {"b_scale", 8},
                  {"fast_accumulation", true}};
  Json update = {{"op", "kernel"},
                 {"symbol", "update"},
                 {"bufs", {6, 2, 3}},
                 {"rows", 7},
                 {"threads", 128},
                 {"grain", 1},
                 {"counters", Json::array()},
                 {"name", "update"},
                 {"loc", "step/update"},
                 {"bytes", 0}};
  return {{"version", 5},
          {"target", "sm_90a"},
          {"device", "cuda"},
          {"capability", 90},
          {"recipe", "fp8"},
          {"arena_bytes", 8192},
          {"buffers",
           {buffer("arg", 0, {32, 64}), buffer("arg", 1, {48, 64}),
            buffer("result", 0, {32, 64}), buffer("result", 1, {}),
            buffer("temp", 0, {48, 64}, "f8E4M3FN"),
            buffer("temp", 3072, {32, 64}, "f8E5M2"),
            buffer("temp", 5120, {48, 32}, "bf16"), buffer("const", 0, {}),
            buffer("const", 64, {})}},
          {"args", {params, tensor("batch", {48, 64})}},
          {"results", {updated, tensor("loss", {})}},
          {"functions",
           {{"step", {cast(1, 4, 0), cast(0, 5, 1), product, update}}}},
          {"counters",
           {{{"cast", "x"}, {"format", "f8E4M3FN"}, {"elements", 3072}},
            {{"cast", "w"}, {"format", "f8E5M2"}, {"elements", 2048}}}}};
}

std::string test::gpuKernels() {
  return R"(.version 8.7
.target sm_90a
.address_size 64
.visible .entry cast(
  .param .u64 .ptr .align 1 cast_param_0,
  .param .u64 .ptr .align 1 cast_param_1,
  .param .u64 .ptr .align 1 cast_param_2
)
{
  ret;
}
.visible .entry update(
  .param .u64 update_param_0,
  .param .u64 update_param_1,
  .param .u64 update_param_2,
  .param .u64 update_param_3
)
{
  ret;
}
)";
}

std::string test::gpuConstants() { return std::string(128, '\1'); }

std::string test::gpuArtefact() {
  return pack(gpuManifest(), gpuKernels(), gpuConstants());
}

Recorded::Recorded(const std::string &artefact,
                   std::shared_ptr<cuda::RecordingDriver> recording)
    : driver(std::move(recording)), params(32 * 64, 2.0f),
      batch(48 * 64, 1.0f) {
  exe = std::make_unique<Executable>(
      Image::fromMemory(artefact.data(), artefact.size()),
      [&](const Program &program) {
        return cuda::makeCudaDevice(driver, 0, program);
      });
  args = {params.data(), batch.data()};
  results = {nullptr, &loss};
}

void Recorded::run(const char *function) {
  exe->run(function, args.data(), int32_t(args.size()), results.data(),
           int32_t(results.size()));
}

std::string Recorded::newLines() {
  std::string lines = driver->trace();
  driver->clearTrace();
  return lines;
}

std::string test::linesOf(const std::string &text, const std::string &word) {
  std::stringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (line.rfind(word, 0) == 0)
      out += line + "\n";
  return out;
}

std::string test::matmulsOf(const Json &manifest,
                            std::shared_ptr<cuda::RecordingDriver> driver) {
  try {
    Recorded gpu(pack(manifest, gpuKernels(), gpuConstants()),
                 std::move(driver));
    gpu.run();
    return linesOf(gpu.newLines(), "cublasLtMatmul ");
  } catch (const Error &error) {
    return error.what();
  }
}

Search::Search(const char *count)
    : folder(std::filesystem::temp_directory_path() / "scalify-test-XXXXXX") {
  if (!mkdtemp(folder.data()))
    throw std::runtime_error("cannot make " + folder);
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  setenv("SCALIFY_GEMM_SEARCH", count, 1);
}

Search::~Search() {
  unsetenv("SCALIFY_GEMM_SEARCH");
  unsetenv("XDG_CACHE_HOME");
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}
