// Commands that run tile by tile, in memory of the thread.
#include "TestArtefact.h"

#include <gtest/gtest.h>

using namespace scalify::rt::test;

namespace {
constexpr int64_t tiles = 8, m = 4, n = 6, k = 3;

Json tile(int64_t offset, std::vector<int64_t> shape) {
  Json json = buffer("tile", offset, shape);
  json["offset"] = offset;
  json["tiles"] = tiles;
  return json;
}

/// sums = clip(a b) + c, with a b and clip(a b) in memory of one tile.
Json manifest() {
  Json json = tinyManifest(16);
  json["arena_bytes"] = 0;
  json["tile_bytes"] = 256;
  json["args"] = {value("a", {tiles, m, k}, nullptr, "alias_result"),
                  value("b", {tiles, k, n}, nullptr, "alias_result"),
                  value("c", {tiles, m, n}, nullptr, "alias_result")};
  json["results"] = {value("sums", {tiles, m, n}, nullptr, "alias_arg")};
  json["buffers"] = {
      buffer("arg", 0, {tiles, m, k}), buffer("arg", 1, {tiles, k, n}),
      buffer("arg", 2, {tiles, m, n}), tile(0, {tiles, m, n}),
      tile(128, {tiles, m, n}),        buffer("result", 0, {tiles, m, n})};
  json["counters"] = {{{"cast", "w"}, {"elements", tiles * m * n}}};
  Json gemm = {{"op", "gemm"},
               {"a", 0},
               {"b", 1},
               {"c", 3},
               {"m", m},
               {"n", n},
               {"k", k},
               {"a_strides", {k, 1}},
               {"b_strides", {n, 1}},
               {"c_strides", {n, 1}}};
  gemm["batch"] = {{{"n", tiles}, {"a", m * k}, {"b", k * n}, {"c", m * n}}};
  Json clip = tinyManifest(16)["functions"]["step"][1];
  clip["bufs"] = {3, 4};
  clip["rows"] = tiles * m * n;
  Json add = tinyManifest(16)["functions"]["step"][0];
  add["bufs"] = {4, 2, 5};
  add["rows"] = tiles * m * n;
  for (Json *command : {&gemm, &clip, &add})
    (*command)["tiles"] = {tiles, 0};
  json["functions"] = {{"step", {gemm, clip, add}}};
  return json;
}

/// Returns the error of an artefact that must not load.
std::string errorOf(const Json &json) {
  Handle exe = load(pack(json, kernels(), ""));
  return exe ? "" : scalify_rt_last_error();
}
} // namespace

TEST(Tiles, RunInMemoryOfTheThread) {
  Handle exe = load(pack(manifest(), kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  std::vector<float> a(tiles * m * k), b(tiles * k * n), c(tiles * m * n);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = 0.25f * float(i % 7) - 0.75f;
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = 0.5f * float(i % 5) - 1.0f;
  for (size_t i = 0; i < c.size(); ++i)
    c[i] = float(i);
  uint64_t clipped = 0;
  std::vector<float> want(c.size());
  for (int64_t t = 0; t < tiles; ++t)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum +=
              a[size_t((t * m + i) * k + p)] * b[size_t((t * k + p) * n + j)];
        clipped += sum > 1.0f || sum < -1.0f;
        auto at = size_t((t * m + i) * n + j);
        want[at] = std::min(std::max(sum, -1.0f), 1.0f) + c[at];
      }
  ASSERT_GT(clipped, 0u);
  for (int threads : {1, 3}) {
    ASSERT_EQ(scalify_rt_set_threads(exe.get(), threads), SCALIFY_RT_OK);
    ASSERT_EQ(scalify_rt_set_profiling(exe.get(), threads == 3), SCALIFY_RT_OK);
    std::vector<float> sums(c.size());
    void *args[] = {a.data(), b.data(), c.data()}, *results[] = {sums.data()};
    ASSERT_EQ(scalify_rt_run(exe.get(), "step", args, 3, results, 1),
              SCALIFY_RT_OK)
        << scalify_rt_last_error();
    EXPECT_EQ(sums, want);
    scalify_rt_counter counter;
    ASSERT_EQ(scalify_rt_counter_info(exe.get(), 0, &counter), SCALIFY_RT_OK);
    EXPECT_EQ(counter.saturated, clipped);
  }
}

/// Threads for whose tiles there is no memory are refused, and those that have
/// it stay.
TEST(Tiles, KeepTheirThreadsWithoutMemoryForMore) {
  Json json = manifest();
  Handle exe;
  // The most that the system gives to one thread, but for a factor of two.
  for (int64_t bytes = int64_t(1) << 46; !exe && bytes > 256; bytes /= 2) {
    json["tile_bytes"] = bytes;
    exe = load(pack(json, kernels(), ""));
  }
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  if (scalify_rt_set_threads(exe.get(), 3) == SCALIFY_RT_OK)
    GTEST_SKIP() << "the system gives any memory";
  EXPECT_TRUE(contains(scalify_rt_last_error(), "cannot allocate tiles"))
      << scalify_rt_last_error();
  EXPECT_EQ(scalify_rt_threads(exe.get()), 1);
}

TEST(Tiles, RefusesWhatTilesCannotShare) {
  auto step = [](Json &json, size_t i) -> Json & {
    return json["functions"]["step"][i];
  };
  Json json = manifest();
  step(json, 1)["rows"] = 100;
  EXPECT_TRUE(contains(errorOf(json), "has 100 rows, which 8 tiles cannot"));
  json = manifest();
  for (size_t i = 0; i < 3; ++i)
    step(json, i)["tiles"][0] = int64_t(1) << 60;
  EXPECT_TRUE(contains(errorOf(json), "more than 2^24 tiles"));
  json = manifest();
  step(json, 0)["batch"] = Json::array();
  EXPECT_TRUE(contains(errorOf(json), "has no first batch dimensions of 8"));
  json = manifest();
  step(json, 0)["batch"][0]["c"] = n;
  EXPECT_TRUE(contains(errorOf(json), "does not touch one tile of operand 2"));
  json = manifest();
  step(json, 0)["c"] = 5; // not of the thread
  step(json, 0)["batch"][0]["c"] = 0;
  EXPECT_TRUE(contains(errorOf(json), "elements are written twice"));
  json = manifest();
  step(json, 0)["c_off"] = 1;
  json["buffers"][3]["shape"] = {tiles, m, n + 1};
  EXPECT_TRUE(contains(errorOf(json), "offset in memory of one tile"));
  json = manifest();
  step(json, 2).erase("tiles");
  EXPECT_TRUE(contains(errorOf(json), "runs in no tiles"));
  json = manifest();
  json["buffers"][3]["tiles"] = 4;
  EXPECT_TRUE(contains(errorOf(json), "is one of 4"));
  json = manifest();
  json["buffers"][4]["offset"] = 192;
  EXPECT_TRUE(contains(errorOf(json), "past the end of its 256 bytes of tile"));
  json = manifest();
  step(json, 1)["tiles"] = {tiles, 1};
  EXPECT_TRUE(contains(errorOf(json), "names a group that has ended"));
  json = manifest();
  step(json, 1)["tiles"] = {4, 0};
  EXPECT_TRUE(contains(errorOf(json), "is not that of its group"));
}
