// Loops: a function of the artefact that a command runs again and again.
#include "TestArtefact.h"

#include <functional>
#include <gtest/gtest.h>

using namespace scalify::rt::test;

namespace {
constexpr int64_t width = 16, rows = 4;

/// sum' = sum + rows of `stack`, one in each of six iterations; the last row
/// again in those that are past it.
Json loopManifest() {
  Json m = tinyManifest(width);
  m["counters"] = Json::array();
  Json body = setLoopInterface(m, rows, width);
  Json add = m["functions"]["step"][0];
  add["bufs"] = {0, 1, 2};
  body["commands"] = {add,
                      {{"op", "copy"}, {"src", 2}, {"dst", 3}, {"bytes", 64}}};
  m["functions"] = {{"body", body},
                    {"step",
                     {{{"op", "loop"},
                       {"function", "body"},
                       {"carries", {0}},
                       {"reads", {1}},
                       {"arena", 2},
                       {"trips", 6},
                       {"slices", {1, 0, 64, 192}}}}}};
  return m;
}

/// The loop of a condition, which the body replaces by the fourth argument.
Json whileManifest() {
  Json none = nullptr;
  Json m = loopManifest();
  Json &body = m["functions"]["body"];
  body["args"] = {value("sum", {width}, 0, "alias_result"),
                  value("goes on", {}, 1, "alias_result", "i1"),
                  value("row", {width}, none, "alias_result"),
                  value("next", {}, none, "alias_result", "i1")};
  body["results"].push_back(value("goes on", {}, 1, "alias_arg", "i1"));
  body["buffers"][1]["index"] = 2;
  body["buffers"].push_back(buffer("result", 1, {}, "i1"));
  body["buffers"].push_back(buffer("arg", 3, {}, "i1"));
  body["commands"].push_back(
      {{"op", "copy"}, {"src", 5}, {"dst", 4}, {"bytes", 1}});
  Json &loop = m["functions"]["step"][0];
  loop["carries"] = {0, 3};
  loop["reads"] = {1, 4};
  loop["slices"] = {2, 128, -64, 192};
  loop.erase("trips");
  loop["while"] = 1;
  return m;
}

struct Call {
  std::vector<float> sum = std::vector<float>(width),
                     stack = std::vector<float>(rows * width);
  uint8_t goesOn = 1, next = 0;

  Call() {
    for (size_t i = 0; i < stack.size(); ++i)
      stack[i] = float(i);
  }
  scalify_rt_status run(const Handle &exe) {
    void *args[] = {sum.data(), stack.data(), &goesOn, &next};
    void *results[] = {nullptr, nullptr};
    return scalify_rt_run(exe.get(), "step", args, 4, results, 2);
  }
};
} // namespace

TEST(Loop, SlicesFollowTheIteration) {
  Handle exe = load(pack(loopManifest(), kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  Call call;
  ASSERT_EQ(call.run(exe), SCALIFY_RT_OK) << scalify_rt_last_error();
  for (int64_t i = 0; i < width; ++i)
    EXPECT_EQ(call.sum[size_t(i)],
              float(6 * i + width * (0 + 1 + 2 + 3 + 3 + 3)));
}

TEST(Loop, RunsWhileItsConditionHolds) {
  Handle exe = load(pack(whileManifest(), kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  Call one, none;
  none.goesOn = 0;
  ASSERT_EQ(one.run(exe), SCALIFY_RT_OK) << scalify_rt_last_error();
  ASSERT_EQ(none.run(exe), SCALIFY_RT_OK) << scalify_rt_last_error();
  for (int64_t i = 0; i < width; ++i) {
    EXPECT_EQ(one.sum[size_t(i)], float(2 * width + i));
    EXPECT_EQ(none.sum[size_t(i)], 0.0f);
  }
  EXPECT_EQ(one.goesOn, 0);
}

/// A loop that does not end can be interrupted.
TEST(Loop, IsInterrupted) {
  Handle exe = load(pack(whileManifest(), kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  scalify_rt_set_poll(exe.get(), [](void *) { return 1; }, nullptr);
  Call call;
  call.next = 1;
  EXPECT_EQ(call.run(exe), SCALIFY_RT_INTERRUPTED);
}

/// Also one whose body does nothing.
TEST(Loop, WithoutCommandsIsInterrupted) {
  Json m = whileManifest();
  m["functions"]["body"]["commands"] = Json::array();
  Handle exe = load(pack(m, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  scalify_rt_set_poll(exe.get(), [](void *) { return 1; }, nullptr);
  Call call;
  EXPECT_EQ(call.run(exe), SCALIFY_RT_INTERRUPTED);
}

/// Where a slice's place is beyond 64 bits it is the last one.
TEST(Loop, SlicesStayPastTheirEnd) {
  constexpr int64_t step = int64_t(1) << 46, trips = (1 << 17) + 1;
  Json m = loopManifest();
  m["functions"]["body"]["commands"] = {
      {{"op", "copy"}, {"src", 1}, {"dst", 3}, {"bytes", 64}}};
  m["functions"]["step"][0]["trips"] = trips;
  m["functions"]["step"][0]["slices"] = {1, 0, step, 192};
  Handle exe = load(pack(m, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  Call call;
  ASSERT_EQ(call.run(exe), SCALIFY_RT_OK) << scalify_rt_last_error();
  for (int64_t i = 0; i < width; ++i)
    EXPECT_EQ(call.sum[size_t(i)], float(3 * width + i));
}

TEST(Loop, CountsAndTimesEachIteration) {
  Json m = loopManifest();
  m["counters"] = {{{"cast", "w"}, {"elements", 96}}};
  Json clip = tinyManifest(width)["functions"]["step"][1];
  clip["bufs"] = {0, 2};
  Json &body = m["functions"]["body"];
  body["commands"].insert(body["commands"].begin(), clip);
  Handle exe = load(pack(m, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  Call call;
  std::fill(call.sum.begin(), call.sum.end(), 5.0f);
  std::fill(call.stack.begin(), call.stack.end(), 0.0f);
  ASSERT_EQ(call.run(exe), SCALIFY_RT_OK) << scalify_rt_last_error();
  scalify_rt_counter counter;
  ASSERT_EQ(scalify_rt_counter_info(exe.get(), 0, &counter), SCALIFY_RT_OK);
  EXPECT_EQ(counter.saturated, uint64_t(6 * width));
}

/// Where a condition ends the loop, the elements of a cast are those that ran.
TEST(Loop, CountsElementsThatRan) {
  Json m = whileManifest();
  m["counters"] = {{{"cast", "w"}, {"elements", 5}}};
  Json clip = tinyManifest(width)["functions"]["step"][1];
  clip["bufs"] = {0, 2};
  clip["elements"] = {width};
  Json &body = m["functions"]["body"];
  body["commands"].insert(body["commands"].begin(), clip);
  Handle exe = load(pack(m, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  for (uint8_t goesOn : {1, 0}) {
    Call call;
    call.goesOn = goesOn;
    ASSERT_EQ(call.run(exe), SCALIFY_RT_OK) << scalify_rt_last_error();
    scalify_rt_counter counter;
    ASSERT_EQ(scalify_rt_counter_info(exe.get(), 0, &counter), SCALIFY_RT_OK);
    EXPECT_EQ(counter.elements, uint64_t(5 + goesOn * width));
  }
}

TEST(Loop, ChecksWhatItPasses) {
  auto error = [](const std::function<void(Json &, Json &, Json &)> &damage) {
    Json m = whileManifest();
    damage(m, m["functions"]["step"][0], m["functions"]["body"]);
    Handle exe = load(pack(m, kernels(), ""));
    EXPECT_FALSE(exe);
    return std::string(exe ? "" : scalify_rt_last_error());
  };
  struct Case {
    std::string found, expected;
  };
  const Case cases[] = {
      {error([](Json &, Json &loop, Json &) { loop["function"] = "none"; }),
       "is 'none', which is no function"},
      {error([](Json &, Json &loop, Json &) { loop["function"] = "step"; }),
       "is 'step', which is no function"},
      {error([](Json &, Json &loop, Json &) { loop["trips"] = 2; }),
       "either 'trips' or a 'while'"},
      {error([](Json &, Json &loop, Json &) { loop["while"] = 0; }),
       "not one i1"},
      {error([](Json &, Json &loop, Json &) { loop["while"] = 2; }),
       "there are 2 carries"},
      {error([](Json &, Json &loop, Json &) { loop["carries"] = {0, 99}; }),
       "there are 5 buffers"},
      {error([](Json &, Json &loop, Json &) { loop["reads"] = {1}; }),
       "takes 4 arguments"},
      {error([](Json &, Json &loop, Json &) { loop["reads"] = {4, 1}; }),
       "as argument 2 of 'body'"},
      {error([](Json &, Json &loop, Json &) { loop.erase("arena"); }),
       "has 0 bytes for the arena of 'body'"},
      {error([](Json &, Json &loop, Json &) { loop["slices"] = {2, 0, 64}; }),
       "four numbers a slice"},
      {error([](Json &, Json &loop, Json &) {
         loop["slices"] = {2, 0, 64, 256};
       }),
       "as argument 2 of 'body'"},
      {error([](Json &, Json &loop, Json &) {
         loop["slices"] = {2, 0, 64, -64};
       }),
       "must not be negative"},
      {error([](Json &, Json &loop, Json &) {
         loop["slices"] = {2, 4, 64, 192};
       }),
       "multiples of 64"},
      {error([](Json &, Json &loop, Json &) {
         loop["slices"] = {4, 0, 64, 192};
       }),
       "of arguments that the loop has not"},
      {error([](Json &, Json &loop, Json &) {
         loop["slices"] = {2,  0,  int64_t(1) << 40, int64_t(1) << 40, 2, 0,
                           64, 192};
       }),
       "name argument 2 again"},
      {error([](Json &, Json &loop, Json &) {
         loop["slices"] = {2, 0, int64_t(1) << 62, 192};
       }),
       "beyond 2^46"},
      {error([](Json &, Json &loop, Json &body) {
         Json own = loop;
         own["carries"] = {0, 4};
         own["reads"] = {1, 5};
         own.erase("slices");
         body["commands"].push_back(own);
       }),
       "runs itself in a loop"},
      {error([](Json &, Json &, Json &body) {
         body["results"][0]["alias_arg"] = nullptr;
         body["args"][0]["alias_result"] = nullptr;
       }),
       "in the memory of its argument 0"},
      {error([](Json &m, Json &, Json &) {
         m["buffers"][3] = buffer("const", 0, {}, "i1");
       }),
       "past the end"},
  };
  for (const Case &one : cases)
    EXPECT_TRUE(contains(one.found, one.expected))
        << one.found << "\nexpected: " << one.expected;
}

/// Functions that run one another a thousand deep are refused, not followed,
/// in whichever order they are read: that of their names.
TEST(Loop, DepthIsLimited) {
  for (int step : {1, -1}) {
    Json m = loopManifest();
    Json &functions = m["functions"];
    Json body = functions["body"], loop = functions["step"][0];
    loop["carries"] = {3};
    loop["reads"] = {1};
    loop["arena"] = 2;
    loop.erase("slices");
    int number = 5000;
    for (int i = 0; i < 1000; ++i, number += step) {
      loop["function"] = i == 0 ? "body" : "b" + std::to_string(number - step);
      body["commands"] = Json::array({loop});
      functions["b" + std::to_string(number)] = body;
    }
    functions["step"][0]["function"] = "b" + std::to_string(number - step);
    EXPECT_FALSE(load(pack(m, kernels(), "")));
    EXPECT_TRUE(contains(scalify_rt_last_error(), "deep"))
        << scalify_rt_last_error();
  }
}

/// What functions run is listed for each: thousands that run thousands would
/// take more memory than the file by far.
TEST(Loop, CalleesAreLimited) {
  constexpr int count = 4096 + 128;
  Json m = loopManifest();
  Json &functions = m["functions"];
  Json body = functions["body"], loop = functions["step"][0];
  body["commands"] = Json::array();
  loop["carries"] = {3};
  loop.erase("slices");
  auto name = [](char kind, int i) { return kind + std::to_string(i); };
  Json all = body, one = body;
  for (int i = 0; i < count; ++i) {
    functions[name('a', i)] = body;
    loop["function"] = name('a', i);
    all["commands"].push_back(loop);
  }
  functions["b"] = all;
  loop["function"] = "b";
  one["commands"] = Json::array({loop});
  for (int i = 0; i < count; ++i)
    functions[name('c', i)] = one;
  EXPECT_FALSE(load(pack(m, kernels(), "")));
  EXPECT_TRUE(contains(scalify_rt_last_error(), "more than 2^24 together"))
      << scalify_rt_last_error();
}
