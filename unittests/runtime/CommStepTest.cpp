// Steps with collectives, through the C interface alone.
#include "CommRanks.h"
#include "TestArtefact.h"
#include "scalify/comm.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace scalify::rt::test;
using scalify::test::freshJob;

namespace {
constexpr int64_t n = 64;

/// params' = params + batch; the sum over ranks of params'; its total.
Json steps() {
  Json m = tinyManifest(n);
  m["mesh"] = Json::array({Json::array({"data", 2})});
  m["functions"]["step"][1] = {
      {"op", "collective"}, {"kind", "all_reduce"},
      {"join", "sum"},      {"groups", Json::array({{0, 1}})},
      {"src", 2},           {"dst", 3},
      {"name", "sum"},      {"loc", "step/sum"}};
  return m;
}

struct Comm {
  Comm(const std::string &job, int32_t rank) {
    scalify_rt_comm_options options = {};
    options.transport = "local";
    options.rank = rank;
    options.size = 2;
    options.job = job.c_str();
    options.timeout_seconds = 20;
    if (scalify_rt_comm_open(&options, &handle))
      ADD_FAILURE() << scalify_rt_last_error();
  }
  ~Comm() { scalify_rt_comm_free(handle); }
  Comm(const Comm &) = delete;
  Comm &operator=(const Comm &) = delete;
  scalify_rt_comm *handle = nullptr;
};

/// Runs one step on each of two ranks, which are threads. The `interrupted` one
/// stops where it is asked, as every step of more than a moment is.
void runRanks(const std::function<Json(int32_t)> &manifestOf,
              const std::function<void(int32_t, const Handle &, float)> &check,
              int32_t interrupted = -1) {
  std::string job = freshJob();
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Comm comm(job, rank);
      std::string artefact = pack(manifestOf(rank), kernels(), "");
      scalify_rt_options options = {};
      options.threads = 1;
      options.comm = comm.handle;
      scalify_rt_executable *loaded = nullptr;
      ASSERT_EQ(scalify_rt_load_memory(artefact.data(), artefact.size(),
                                       &options, &loaded),
                SCALIFY_RT_OK)
          << scalify_rt_last_error();
      Handle exe(loaded);
      std::vector<float> params(n, 1.0f), batch(n, float(rank));
      float total = 0;
      void *args[] = {params.data(), batch.data()},
           *results[] = {nullptr, &total};
      if (rank == interrupted)
        scalify_rt_set_poll(exe.get(), [](void *) { return 1; }, nullptr);
      scalify_rt_run(exe.get(), "step", args, 2, results, 2);
      check(rank, exe, total);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(CommStep, CommandsExchange) {
  // (1 + 0) + (1 + 1), 64 times.
  runRanks([](int32_t) { return steps(); },
           [](int32_t, const Handle &, float total) {
             EXPECT_EQ(total, 192.0f) << scalify_rt_last_error();
           });
}

TEST(CommStep, OthersHearOfARankThatCannotLoad) {
  std::string job = freshJob(), artefact = pack(steps(), kernels(), "");
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Comm comm(job, rank);
      scalify_rt_options options = {};
      options.comm = comm.handle;
      scalify_rt_executable *loaded = nullptr;
      // The second rank's artefact is truncated. Neither rank waits for the
      // timeout of 20 s.
      size_t size = artefact.size() - size_t(rank);
      EXPECT_NE(
          scalify_rt_load_memory(artefact.data(), size, &options, &loaded),
          SCALIFY_RT_OK);
      texts[size_t(rank)] = scalify_rt_last_error();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_THAT(texts[1], testing::HasSubstr("artefact is"));
  EXPECT_THAT(texts[0], testing::HasSubstr("rank 1 stopped: " + texts[1]));
}

TEST(CommStep, OthersHearOfAStepThatFails) {
  // Rank 1 is interrupted before the collective that rank 0 waits in.
  auto manifest = [](int32_t) {
    Json m = steps();
    Json slow = m["functions"]["step"][0];
    slow["symbol"] = "slow";
    slow["bufs"] = {3};
    slow["rows"] = 1;
    Json &commands = m["functions"]["step"];
    for (int i = 0; i < 50; ++i)
      commands.insert(commands.begin(), slow);
    return m;
  };
  auto check = [](int32_t rank, const Handle &, float) {
    EXPECT_THAT(scalify_rt_last_error(),
                testing::HasSubstr(
                    rank ? "interrupted"
                         : "step 0, all_reduce 'sum' at step/sum: rank 1 "
                           "stopped: the run was interrupted"));
  };
  runRanks(manifest, check, /*interrupted=*/1);
}
} // namespace
