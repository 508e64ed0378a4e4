// Collectives in a loop of GPUs, on recordings of ranks that exchange memory.
#include "GpuArtefact.h"
#include "NcclRanks.h"

#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
/// y = x, then three times: y = the sum of all ranks' y, on another stream.
Json loopOfSums() {
  auto x = [](const char *key, Json alias) {
    return Json{{"name", "y"}, {"shape", {4}}, {"dtype", "f32"}, {key, alias}};
  };
  Json sum = collectiveOf("all_reduce", "sum", {{0, 1}});
  sum["stream"] = 1;
  Json m = gpuCollective(sum, 4, 2);
  auto event = [](const char *op, int number, int stream) {
    return Json{{"op", op}, {"event", number}, {"stream", stream}};
  };
  Json body;
  body["arena_bytes"] = 16;
  body["args"] = {x("alias_result", 0)};
  body["results"] = {x("alias_arg", 0)};
  body["buffers"] = {buffer("arg", 0, {4}), buffer("temp", 0, {4}),
                     buffer("result", 0, {4})};
  body["commands"] = {event("record", 0, 0),
                      event("wait", 0, 1),
                      sum,
                      event("record", 1, 1),
                      event("wait", 1, 0),
                      {{"op", "copy"}, {"src", 1}, {"dst", 2}, {"bytes", 16}}};
  m["functions"] = {{"body", body},
                    {"step",
                     {{{"op", "copy"}, {"src", 0}, {"dst", 1}, {"bytes", 16}},
                      {{"op", "loop"},
                       {"function", "body"},
                       {"carries", {1}},
                       {"reads", Json::array()},
                       {"arena", 4},
                       {"trips", 3}},
                      {{"op", "copy"}, {"src", 2}, {"dst", 3}, {"bytes", 4}}}}};
  return m;
}
} // namespace

/// All ranks issue the same collectives in the same order, one in each
/// iteration, and none is captured.
TEST(NcclLoop, RanksExchangeInEachIteration) {
  auto fabric = std::make_shared<cuda::Fabric>();
  std::array<std::string, 2> traces;
  auto body = [&](Communicator &comm) -> std::string {
    auto r = size_t(comm.rank());
    GpuRank rank(loopOfSums(), &comm, fabric);
    rank.newLines();
    for (int step = 0; step < 2; ++step) {
      float first = 10.0f * float(r);
      rank.run({first, first + 1, first + 2, first + 3});
      if (rank.y != std::vector<float>{40, 48, 56, 64})
        return "wrong result";
    }
    std::string lines = rank.newLines();
    traces[r] = linesOf(lines, "nccl");
    return contains(lines, "Capture") ? "captured" : "";
  };
  for (const std::string &text : scalify::test::runThreads(2, body))
    EXPECT_EQ(text, "");
  EXPECT_EQ(traces[0], traces[1]);
  const std::string one = traces[0].substr(0, traces[0].find('\n') + 1);
  EXPECT_EQ(one.rfind("ncclAllReduce ", 0), 0u) << one;
  std::string six;
  for (int i = 0; i < 6; ++i)
    six += one;
  EXPECT_EQ(traces[0], six);
}

/// Ranks that disagree on the number of iterations find out at load.
TEST(NcclLoop, RanksRunTheSameNumberOfIterations) {
  auto fabric = std::make_shared<cuda::Fabric>();
  auto body = [&](Communicator &comm) -> std::string {
    Json m = loopOfSums();
    m["functions"]["step"][1]["trips"] = 3 + comm.rank();
    return errorOf([&] { GpuRank(m, &comm, fabric); });
  };
  for (const std::string &text : scalify::test::runThreads(2, body))
    EXPECT_TRUE(contains(text, "exchanges something else")) << text;
}

/// Ranks might leave such a loop after different iterations.
TEST(NcclLoop, DataDoNotDecideHowOftenRanksExchange) {
  Json m = loopOfSums();
  Json &body = m["functions"]["body"], &loop = m["functions"]["step"][1];
  auto flag = [](const char *key) {
    return Json{
        {"name", "c"}, {"shape", Json::array()}, {"dtype", "i1"}, {key, 1}};
  };
  body["args"].push_back(flag("alias_result"));
  body["results"].push_back(flag("alias_arg"));
  m["buffers"].push_back(buffer("temp", 0, {}, "i1"));
  loop["carries"] = {1, m["buffers"].size() - 1};
  loop.erase("trips");
  loop["while"] = 1;
  EXPECT_TRUE(contains(errorOf([&] { GpuRank(m, nullptr); }),
                       "how often it runs depends on data"));
}

TEST(NcclLoop, LoopsAreOnTheFirstStream) {
  Json m = loopOfSums();
  m["functions"]["step"][1]["stream"] = 1;
  EXPECT_TRUE(contains(errorOf([&] { GpuRank(m, nullptr); }), "must be 0"));
}
