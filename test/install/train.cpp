//===- train.cpp - A program that runs an artefact's steps ----------------===//
//
//   train STEP.scalify
//
// Fits w of y = 3 x by the step of step.mlir, and compares each loss and each w
// with its own arithmetic in double precision.
//
//===----------------------------------------------------------------------===//

#include <scalify/runtime.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

namespace {
constexpr int samples = 8;
// Rounding of F32: a few units in the last place over sums of eight terms.
constexpr double tolerance = 1e-6;

struct Free {
  void operator()(scalify_rt_executable *executable) const {
    scalify_rt_free(executable);
  }
};

int fail(const char *what) {
  std::fprintf(stderr, "train: %s: %s\n", what, scalify_rt_last_error());
  return 1;
}
} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train STEP.scalify\n");
    return 2;
  }
  scalify_rt_executable *raw = nullptr;
  if (scalify_rt_load_file(argv[1], nullptr, &raw) != SCALIFY_RT_OK)
    return fail("cannot load the step");
  std::unique_ptr<scalify_rt_executable, Free> step(raw);
  scalify_rt_tensor weight;
  if (scalify_rt_num_args(raw) != 3 || scalify_rt_num_results(raw) != 2 ||
      scalify_rt_arg(raw, 0, &weight) != SCALIFY_RT_OK || weight.alias != 0)
    return fail("not the step of step.mlir");

  alignas(64) float w = 0, loss = 0, x[samples], y[samples];
  for (int i = 0; i < samples; ++i) {
    x[i] = 0.25f * static_cast<float>(i - 3);
    y[i] = 3 * x[i];
  }
  void *args[] = {&w, x, y};
  // The new w takes the old one's memory.
  void *results[] = {nullptr, &loss};
  double expected = 0;
  for (int i = 0; i < 200; ++i) {
    if (scalify_rt_run(raw, "step", args, 3, results, 2) != SCALIFY_RT_OK)
      return fail("a step failed");
    double mean = 0, slope = 0;
    for (int j = 0; j < samples; ++j) {
      double error = expected * x[j] - y[j];
      mean += error * error / samples;
      slope += error * x[j];
    }
    expected -= slope / 16;
    if (std::fabs(loss - mean) > tolerance * (1 + mean) ||
        std::fabs(w - expected) > tolerance * 3) {
      std::fprintf(stderr, "train: step %d: w %g, loss %g; expected %g, %g\n",
                   i, double(w), double(loss), expected, mean);
      return 1;
    }
  }
  std::printf("w %.4f loss %.2g\n", double(w), double(loss));
  return 0;
}
