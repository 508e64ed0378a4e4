// Loading and running whole artefacts through the C interface.
#include "TestArtefact.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace scalify::rt::test;

namespace {
struct Step {
  std::vector<float> params, batch;
  float loss = 0;
  explicit Step(int64_t n) : params(n), batch(n) {
    for (int64_t i = 0; i < n; ++i) {
      params[i] = float(i % 7) * 0.25f;
      batch[i] = i % 5 == 0 ? 0.0005f : -0.5f;
    }
  }
  scalify_rt_status run(const Handle &exe) {
    void *args[] = {params.data(), batch.data()};
    void *results[] = {nullptr, &loss};
    return scalify_rt_run(exe.get(), "step", args, 2, results, 2);
  }
};

TEST(Run, StepUpdatesDonatedArgumentInPlace) {
  Handle exe = load(tinyArtefact(100));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  Step step(100), before(100);
  ASSERT_EQ(step.run(exe), SCALIFY_RT_OK) << scalify_rt_last_error();
  float sum = 0;
  uint64_t saturated = 0, flushed = 0;
  for (int i = 0; i < 100; ++i) {
    float want = before.params[i] + before.batch[i];
    EXPECT_EQ(step.params[i], want);
    saturated += std::fabs(want) > 1;
    bool flush = want != 0 && std::fabs(want) < 0.001f;
    flushed += flush;
    if (i < 64)
      sum += flush ? 0 : std::min(1.0f, std::max(-1.0f, want));
  }
  EXPECT_EQ(step.loss, sum);
  scalify_rt_counter counter;
  ASSERT_EQ(scalify_rt_num_counters(exe.get()), 1);
  ASSERT_EQ(scalify_rt_counter_info(exe.get(), 0, &counter), SCALIFY_RT_OK);
  EXPECT_EQ(counter.saturated, saturated);
  EXPECT_EQ(counter.flushed, flushed);
  EXPECT_STREQ(counter.cast, "w");
  EXPECT_STREQ(counter.format, "f8E4M3FN");
  EXPECT_EQ(counter.elements, 100u);
}

TEST(Run, CountersAreThoseOfTheLastRunOnly) {
  Handle exe = load(tinyArtefact(64));
  Step step(64);
  step.params.assign(64, 5.0f);
  ASSERT_EQ(step.run(exe), SCALIFY_RT_OK);
  step.params.assign(64, 0.6f);
  step.batch.assign(64, 0.0f);
  ASSERT_EQ(step.run(exe), SCALIFY_RT_OK);
  scalify_rt_counter counter;
  scalify_rt_counter_info(exe.get(), 0, &counter);
  EXPECT_EQ(counter.saturated, 0u);
}

TEST(Run, ThreadCountChangesNothing) {
  const int64_t n = 300007;
  std::vector<float> want;
  uint64_t saturated = 0;
  for (int threads : {1, 2, 3, 8}) {
    Handle exe = load(tinyArtefact(n), threads);
    ASSERT_TRUE(exe);
    EXPECT_EQ(scalify_rt_threads(exe.get()), threads);
    Step step(n);
    for (int i = 0; i < 5; ++i)
      ASSERT_EQ(step.run(exe), SCALIFY_RT_OK);
    scalify_rt_counter counter;
    scalify_rt_counter_info(exe.get(), 0, &counter);
    if (want.empty()) {
      want = step.params;
      saturated = counter.saturated;
    }
    EXPECT_EQ(step.params, want);
    EXPECT_EQ(counter.saturated, saturated);
  }
}

TEST(Run, DescribesItsTensors) {
  Handle exe = load(tinyArtefact(10));
  scalify_rt_tensor tensor;
  ASSERT_EQ(scalify_rt_num_args(exe.get()), 2);
  ASSERT_EQ(scalify_rt_arg(exe.get(), 0, &tensor), SCALIFY_RT_OK);
  EXPECT_STREQ(tensor.name, "params['w']");
  EXPECT_STREQ(tensor.role, "param");
  EXPECT_STREQ(tensor.dtype, "f32");
  EXPECT_EQ(tensor.rank, 1);
  EXPECT_EQ(tensor.shape[0], 10);
  EXPECT_EQ(tensor.bytes, 40u);
  EXPECT_EQ(tensor.alias, 0);
  ASSERT_EQ(scalify_rt_result(exe.get(), 1, &tensor), SCALIFY_RT_OK);
  EXPECT_EQ(tensor.rank, 0);
  EXPECT_EQ(tensor.alias, -1);
  EXPECT_EQ(scalify_rt_result(exe.get(), 2, &tensor), SCALIFY_RT_BAD_ARGUMENT);
  EXPECT_STREQ(scalify_rt_last_error(), "there is no result 2, only 2");
}

TEST(Run, RefusesWrongCalls) {
  Handle exe = load(tinyArtefact(10));
  Step step(10);
  void *args[] = {step.params.data(), step.batch.data()};
  void *same[] = {step.params.data(), step.params.data()};
  void *crooked[] = {step.params.data(),
                     reinterpret_cast<char *>(step.batch.data()) + 1};
  void *missing[] = {step.params.data(), nullptr};
  void *results[] = {nullptr, &step.loss};
  void *moved[] = {step.batch.data(), &step.loss};
  auto run = [&](const char *name, void **in, int n, void **out) {
    return scalify_rt_run(exe.get(), name, in, n, out, 2);
  };
  EXPECT_EQ(run("rescale", args, 2, results), SCALIFY_RT_BAD_ARGUMENT);
  EXPECT_EQ(run("step", args, 1, results), SCALIFY_RT_BAD_ARGUMENT);
  EXPECT_EQ(run("step", same, 2, results), SCALIFY_RT_BAD_ARGUMENT);
  EXPECT_EQ(run("step", crooked, 2, results), SCALIFY_RT_BAD_ARGUMENT);
  EXPECT_EQ(run("step", missing, 2, results), SCALIFY_RT_BAD_ARGUMENT);
  EXPECT_EQ(run("step", args, 2, moved), SCALIFY_RT_BAD_ARGUMENT);
  EXPECT_EQ(run("step", args, 2, results), SCALIFY_RT_OK);
  EXPECT_EQ(scalify_rt_run(nullptr, "step", args, 2, results, 2),
            SCALIFY_RT_BAD_ARGUMENT);
}

TEST(Run, TwoArtefactsKeepTheirOwnKernels) {
  Handle one = load(pack(tinyManifest(64), kernels(), ""));
  Handle two = load(pack(tinyManifest(64), otherKernels(), ""));
  ASSERT_TRUE(one && two) << scalify_rt_last_error();
  Step a(64), b(64);
  ASSERT_EQ(a.run(one), SCALIFY_RT_OK);
  ASSERT_EQ(b.run(two), SCALIFY_RT_OK);
  EXPECT_EQ(a.params[1] + 100.0f, b.params[1]);
}

TEST(Run, ProfileCountsCallsAndTimes) {
  Handle exe = load(tinyArtefact(4096));
  Step step(4096);
  step.run(exe);
  ASSERT_EQ(scalify_rt_set_profiling(exe.get(), 1), SCALIFY_RT_OK);
  step.run(exe);
  step.run(exe);
  ASSERT_EQ(scalify_rt_num_profile_entries(exe.get()), 3);
  scalify_rt_profile_entry entry;
  ASSERT_EQ(scalify_rt_profile(exe.get(), 1, &entry), SCALIFY_RT_OK);
  EXPECT_STREQ(entry.name, "clip");
  EXPECT_STREQ(entry.op, "kernel");
  EXPECT_STREQ(entry.function, "step");
  EXPECT_EQ(entry.calls, 2u);
  EXPECT_GT(entry.nanoseconds, 0u);
  EXPECT_EQ(entry.bytes, 8u * 4096);
}

TEST(Run, CopyFillAndConstants) {
  Json m = tinyManifest(64);
  m["arena_bytes"] = 512;
  m["buffers"] = {buffer("const", 0, {64}), buffer("temp", 256, {64}),
                  buffer("result", 0, {64}), buffer("result", 1, {}),
                  buffer("arg", 1, {64})};
  m["functions"] = {
      {"step",
       {{{"op", "fill"}, {"dst", 2}, {"bytes", 256}, {"byte", 255}},
        {{"op", "copy"}, {"src", 0}, {"dst", 1}, {"bytes", 256}},
        {{"op", "copy"}, {"src", 1}, {"dst", 2}, {"bytes", 128}},
        {{"op", "copy"}, {"src", 4}, {"dst", 3}, {"bytes", 4}}}}};
  std::string constants(256, '\0');
  for (int i = 0; i < 256; ++i)
    constants[i] = char(i);
  Handle exe = load(pack(m, "", constants));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  Step step(64);
  ASSERT_EQ(step.run(exe), SCALIFY_RT_OK) << scalify_rt_last_error();
  const auto *bytes = reinterpret_cast<const uint8_t *>(step.params.data());
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(bytes[i], i < 128 ? i : 255);
  EXPECT_EQ(step.loss, step.batch[0]);
}

TEST(Run, FunctionWithAnInterfaceOfItsOwn) {
  Json m = tinyManifest(64);
  Json step = m["functions"]["step"];
  Json copy = {{"op", "copy"}, {"src", 0}, {"dst", 1}, {"bytes", 32}};
  Json scales = {{"name", "scales"}, {"shape", {8}}, {"dtype", "f32"}};
  m["args"][1]["initial_exp"] = std::vector<int>(64, -3);
  m["functions"]["move"] = {
      {"arena_bytes", 1 << 20},
      {"buffers", {buffer("arg", 0, {8}), buffer("result", 0, {8})}},
      {"args", {scales}},
      {"results", {scales}},
      {"commands", {copy}}};
  Handle exe = load(pack(m, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  ASSERT_EQ(scalify_rt_num_functions(exe.get()), 2);
  EXPECT_STREQ(scalify_rt_function_name(exe.get(), 0), "move");
  EXPECT_STREQ(scalify_rt_function_name(exe.get(), 1), "step");
  EXPECT_EQ(scalify_rt_function_name(exe.get(), 2), nullptr);
  EXPECT_EQ(scalify_rt_function_num_args(exe.get(), "step"), 2);
  EXPECT_EQ(scalify_rt_function_num_args(exe.get(), "move"), 1);
  EXPECT_EQ(scalify_rt_function_num_results(exe.get(), "move"), 1);
  EXPECT_EQ(scalify_rt_function_num_results(exe.get(), "moves"), -1);
  scalify_rt_tensor tensor;
  ASSERT_EQ(scalify_rt_function_result(exe.get(), "move", 0, &tensor),
            SCALIFY_RT_OK);
  EXPECT_EQ(tensor.bytes, 32u);
  EXPECT_EQ(scalify_rt_function_arg(exe.get(), "moves", 0, &tensor),
            SCALIFY_RT_BAD_ARGUMENT);

  Step run(64);
  for (float &x : run.batch)
    x = 1000;
  ASSERT_EQ(run.run(exe), SCALIFY_RT_OK) << scalify_rt_last_error();
  const uint64_t *counters = scalify_rt_counters(exe.get());
  uint64_t saturated = counters[0];
  EXPECT_GT(saturated, 0u);
  std::vector<float> from(8, 2.0f), to(8, 0.0f);
  void *in[] = {from.data()}, *out[] = {to.data()};
  ASSERT_EQ(scalify_rt_run(exe.get(), "move", in, 1, out, 1), SCALIFY_RT_OK)
      << scalify_rt_last_error();
  EXPECT_EQ(to, from);
  // A function without casts keeps the step's counts.
  EXPECT_EQ(counters[0], saturated);

  std::vector<float> initial(64);
  EXPECT_EQ(scalify_rt_initial(exe.get(), 0, initial.data()),
            SCALIFY_RT_BAD_ARGUMENT);
  ASSERT_EQ(scalify_rt_initial(exe.get(), 1, initial.data()), SCALIFY_RT_OK);
  EXPECT_EQ(initial, std::vector<float>(64, 0.125f));

  // Arguments that the compiler adds start from zeros.
  Json kept = m;
  kept["args"][0]["name"] = "scalify.seen";
  exe = load(pack(kept, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  ASSERT_EQ(scalify_rt_initial(exe.get(), 0, initial.data()), SCALIFY_RT_OK);
  EXPECT_EQ(initial, std::vector<float>(64, 0.0f));

  Json bad = m;
  bad["functions"]["move"]["buffers"][0]["index"] = 1;
  EXPECT_FALSE(load(pack(bad, kernels(), "")));
  bad = m;
  bad["functions"]["move"].erase("args");
  EXPECT_FALSE(load(pack(bad, kernels(), "")));
  bad = m;
  bad["args"][1]["initial_exp"] = {1, 2};
  EXPECT_FALSE(load(pack(bad, kernels(), "")));
}

TEST(Run, PollInterrupts) {
  Json m = tinyManifest(64);
  Json slow = m["functions"]["step"][0];
  slow["symbol"] = "slow";
  slow["bufs"] = {3};
  slow["rows"] = 1;
  m["functions"]["step"] = Json::array();
  for (int i = 0; i < 200; ++i)
    m["functions"]["step"].push_back(slow);
  Handle exe = load(pack(m, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  int calls = 0;
  scalify_rt_set_poll(
      exe.get(), [](void *context) { return int(++*(int *)context == 2); },
      &calls);
  Step step(64);
  EXPECT_EQ(step.run(exe), SCALIFY_RT_INTERRUPTED);
  EXPECT_EQ(calls, 2);
}

TEST(Run, TrialCountsAndLeavesOutUpdates) {
  constexpr int64_t n = 100;
  Json m = tinyManifest(n);
  m["functions"]["step"][0]["update"] = true;
  m["args"][0]["spared"] = true;
  Handle exe = load(pack(m, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  EXPECT_TRUE(scalify_rt_is_spared(exe.get(), 0));
  for (int32_t other : {-1, 1, 2})
    EXPECT_FALSE(scalify_rt_is_spared(exe.get(), other));
  EXPECT_FALSE(scalify_rt_is_spared(load(tinyArtefact(n)).get(), 0));

  Step step(n);
  step.params.assign(n, 5.0f);
  void *args[] = {step.params.data(), step.batch.data()};
  void *results[] = {nullptr, &step.loss};
  ASSERT_EQ(scalify_rt_try(exe.get(), args, 2, results, 2), SCALIFY_RT_OK)
      << scalify_rt_last_error();
  EXPECT_EQ(step.params, std::vector<float>(n, 5.0f));
  scalify_rt_counter counter;
  ASSERT_EQ(scalify_rt_counter_info(exe.get(), 0, &counter), SCALIFY_RT_OK);
  EXPECT_EQ(counter.saturated, uint64_t(n));

  // A step after it is a whole one.
  step.params.assign(n, 0.5f);
  step.batch.assign(n, 0.25f);
  ASSERT_EQ(step.run(exe), SCALIFY_RT_OK);
  EXPECT_EQ(step.params, std::vector<float>(n, 0.75f));
}

TEST(Run, NullDeviceRecordsCommands) {
  Handle exe = load(tinyArtefact(1 << 20), 1, SCALIFY_RT_DEVICE_NULL);
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  Step step(1 << 20);
  ASSERT_EQ(step.run(exe), SCALIFY_RT_OK);
  EXPECT_STREQ(scalify_rt_trace(exe.get()),
               "kernel add rows=1048576 per_task=16384 tasks=64 "
               "bufs=[0,1,2]\n"
               "kernel clip rows=1048576 per_task=16384 tasks=64 bufs=[2,3]\n"
               "kernel total rows=1 per_task=1 tasks=1 bufs=[3,4]\n");
}
} // namespace
