// Steps on several ranks: collectives in the manifest, and each rank's own
// group.
#include "CommRanks.h"
#include "TestArtefact.h"

#include "comm/RecordCommunicator.h"
#include "loader/Executable.h"
#include "support/Error.h"

#include <gtest/gtest.h>

using namespace scalify;
using namespace scalify::test;
using rt::test::Json;

namespace {
/// result = the collective of an argument of four f32, on four ranks.
Json manifestOf(Json collective, int64_t results) {
  collective["op"] = "collective";
  collective["src"] = 0;
  collective["dst"] = 1;
  Json m = rt::test::tinyManifest(4);
  m["mesh"] = Json::array({{"data", 2}, {"tensor", 2}});
  m["args"] = Json::array({{{"name", "x"}, {"shape", {4}}, {"dtype", "f32"}}});
  m["results"] = Json::array(
      {{{"name", "y"}, {"shape", {results}}, {"dtype", "f32"}},
       {{"name", "rank"}, {"shape", Json::array()}, {"dtype", "ui32"}}});
  m["buffers"] = Json::array(
      {rt::test::buffer("arg", 0, {4}),
       rt::test::buffer("result", 0, {results}),
       {{"kind", "rank"}, {"shape", Json::array()}, {"dtype", "ui32"}},
       rt::test::buffer("result", 1, {}, "ui32")});
  m["counters"] = Json::array();
  m["functions"] = {
      {"step",
       Json::array({collective,
                    {{"op", "copy"}, {"src", 2}, {"dst", 3}, {"bytes", 4}}})}};
  return m;
}

rt::DeviceMaker maker(scalify_rt_device device) {
  return [device](const rt::Program &program) {
    scalify_rt_options options = {};
    options.threads = 1;
    options.device = device;
    return rt::makeDevice(options, program);
  };
}

rt::Executable loadFor(const std::string &artefact, rt::Communicator *comm,
                       scalify_rt_device device = SCALIFY_RT_DEVICE_CPU) {
  return rt::Executable(rt::Image::fromMemory(artefact.data(), artefact.size()),
                        maker(device), comm);
}

/// Runs the step on inputs {10 r, 10 r + 1, ...} of rank r; returns an error
/// text, or "".
std::string run(const Json &manifest, std::vector<std::vector<float>> wanted) {
  std::string artefact = rt::test::pack(manifest, rt::test::kernels(), "");
  const uint32_t stages = manifest.contains("pipeline")
                              ? manifest["pipeline"]["stages"].get<uint32_t>()
                              : 1;
  auto body = [&](rt::Communicator &comm) -> std::string {
    rt::Executable executable = loadFor(artefact, &comm);
    size_t rank = static_cast<size_t>(comm.rank());
    float x[4];
    for (int i = 0; i < 4; ++i)
      x[i] = static_cast<float>(10 * comm.rank() + i);
    std::vector<float> y(wanted[rank].size(), -1.0f);
    uint32_t number = 99;
    void *args[] = {x};
    void *results[] = {y.data(), &number};
    for (int step = 0; step < 2; ++step)
      executable.run("step", args, 1, results, 2);
    if (number != rank % (4 / stages))
      return "the rank's number is " + std::to_string(number);
    return y == wanted[rank] ? "" : "wrong result";
  };
  for (const std::string &text : runThreads(4, body))
    if (!text.empty())
      return text;
  return "";
}

std::string errorOf(const Json &manifest, rt::Communicator *comm = nullptr) {
  try {
    loadFor(rt::test::pack(manifest, rt::test::kernels(), ""), comm);
  } catch (const rt::Error &error) {
    return error.what();
  }
  return "";
}

Json groups(const char *kind, const char *join, Json rows) {
  return {{"kind", kind}, {"join", join}, {"groups", std::move(rows)}};
}
} // namespace

TEST(Ranks, EachRankIsInItsGroup) {
  Json rows = {{0, 2}, {3, 1}};
  EXPECT_EQ(
      run(manifestOf(groups("all_reduce", "sum", rows), 4), {{20, 22, 24, 26},
                                                             {40, 42, 44, 46},
                                                             {20, 22, 24, 26},
                                                             {40, 42, 44, 46}}),
      "");
  // Parts are in the order of the group.
  EXPECT_EQ(run(manifestOf(groups("all_gather", "none", rows), 8),
                {{0, 1, 2, 3, 20, 21, 22, 23},
                 {30, 31, 32, 33, 10, 11, 12, 13},
                 {0, 1, 2, 3, 20, 21, 22, 23},
                 {30, 31, 32, 33, 10, 11, 12, 13}}),
            "");
  EXPECT_EQ(run(manifestOf(groups("reduce_scatter", "max", rows), 2),
                {{20, 21}, {32, 33}, {22, 23}, {30, 31}}),
            "");
  EXPECT_EQ(
      run(manifestOf(groups("permute", "none", {{0, 1}, {1, 0}, {2, 2}}), 4),
          {{10, 11, 12, 13}, {0, 1, 2, 3}, {20, 21, 22, 23}, {0, 0, 0, 0}}),
      "");
}

// Two stages of two ranks: groups and numbers are within the stage, and a
// message's peer has the same number in another stage.
TEST(Ranks, StagesHaveRanksOfTheirOwn) {
  auto onStages = [](const Json &collective, int64_t results) {
    Json m = manifestOf(collective, results);
    m["mesh"] = Json::array({{"stage", 2}, {"data", 2}});
    m["pipeline"] = {{"stages", 2}};
    return m;
  };
  EXPECT_EQ(run(onStages(groups("all_reduce", "sum", {{0, 1}}), 4),
                {{10, 12, 14, 16},
                 {10, 12, 14, 16},
                 {50, 52, 54, 56},
                 {50, 52, 54, 56}}),
            "");
  EXPECT_EQ(run(onStages(groups("permute", "none", {{0, 1}}), 4),
                {{0, 0, 0, 0}, {0, 1, 2, 3}, {0, 0, 0, 0}, {20, 21, 22, 23}}),
            "");
  EXPECT_EQ(errorOf(onStages(groups("all_reduce", "sum", {{0, 2}}), 4)),
            "bad manifest: functions.step[0].groups[0][1] is 2, but there are "
            "2 ranks");
  Json uneven = onStages(groups("all_reduce", "sum", {{0, 1}}), 4);
  uneven["pipeline"]["stages"] = 3;
  EXPECT_EQ(errorOf(uneven), "bad manifest: pipeline.stages do not divide the "
                             "4 ranks of the mesh");
}

TEST(Ranks, WhatCannotBeJoinedIsRefusedAtLoad) {
  EXPECT_EQ(errorOf(manifestOf(groups("all_reduce", "and", {{0, 1, 2, 3}}), 4)),
            "bad manifest: functions.step[0].join is 'and', which does not "
            "apply to f32 elements");
}

namespace {
/// Returns the error text of two ranks with different artefacts.
std::string saidOf(const Json &first, const Json &second,
                   const std::string &moreCode = "") {
  auto packed = [](Json m, const std::string &code) {
    m["mesh"] = Json::array({{"data", 2}});
    return rt::test::pack(m, rt::test::kernels() + code, "");
  };
  const std::string own = packed(first, ""), others = packed(second, moreCode);
  auto body = [&](rt::Communicator &comm) -> std::string {
    try {
      loadFor(comm.rank() ? others : own, &comm);
    } catch (const rt::Error &error) {
      return error.what();
    }
    return "";
  };
  std::vector<std::string> texts = scalify::test::runThreads(2, body);
  EXPECT_EQ(texts[0], texts[1]);
  return texts[0];
}
} // namespace

TEST(Ranks, AnotherStepOnOneRankIsNamedAtLoad) {
  const Json usual = manifestOf(groups("all_reduce", "sum", {{0, 1}}), 4);
  auto named = [](const char *what) {
    return "rank 1 has loaded another step than rank 0: it " +
           std::string(what) +
           "; give all ranks the same program, constants, shardings, recipe "
           "and options";
  };
  Json other = usual;
  other["functions"]["step"][0]["loc"] = "elsewhere.py:3";
  EXPECT_EQ(saidOf(usual, other), "");
  // Ranks on machines of one kind must have the same kernels.
  EXPECT_EQ(saidOf(usual, other, "more"), named("computes something else"));
  other["mcpu"] = "x86-64-v2";
  EXPECT_EQ(saidOf(usual, other, "more"), "");
  other["functions"]["step"][0]["join"] = "max";
  EXPECT_EQ(saidOf(usual, other), named("exchanges something else"));
  other = usual;
  other["args"][0]["name"] = "z";
  EXPECT_EQ(saidOf(usual, other), named("computes something else"));
}

TEST(Ranks, WhoOnlyWritesDownHasNobodyToCompareWith) {
  Json m = manifestOf(groups("all_reduce", "sum", {{0, 1}}), 4);
  m["mesh"] = Json::array({{"data", 2}});
  const std::string artefact = rt::test::pack(m, rt::test::kernels(), "");
  rt::RecordCommunicator comm(0, 2);
  rt::Executable executable = loadFor(artefact, &comm);
  EXPECT_EQ(comm.trace(), "");
  float x[4] = {1, 2, 3, 4}, y[4] = {};
  uint32_t number = 99;
  void *args[] = {x};
  void *results[] = {y, &number};
  executable.run("step", args, 1, results, 2);
  EXPECT_NE(comm.trace().find("all_reduce sum f32 elements=4"),
            std::string::npos)
      << comm.trace();
}

TEST(Ranks, MessagesGoToTheSamePlaceInAnotherStage) {
  auto of = [](bool isFirst) {
    Json m = manifestOf({{"kind", "message"}, {"name", "x"}}, 4);
    m["mesh"] = Json::array({{"stage", 2}, {"data", 2}});
    m["pipeline"] = {{"stages", 2}};
    Json &message = m["functions"]["step"][0];
    message["src"] = message["dst"] = isFirst ? 0 : 1;
    message[isFirst ? "to" : "from"] = isFirst ? 1 : 0;
    return rt::test::pack(m, rt::test::kernels(), "");
  };
  const std::string first = of(true), second = of(false);
  auto body = [&](rt::Communicator &comm) -> std::string {
    const int rank = comm.rank();
    rt::Executable executable = loadFor(rank < 2 ? first : second, &comm);
    float x[4] = {float(rank), 1, 2, 3}, y[4] = {-1, -1, -1, -1};
    uint32_t number = 99;
    void *args[] = {x};
    void *results[] = {y, &number};
    executable.run("step", args, 1, results, 2);
    // In the first stage nothing writes the result.
    const bool isRight = rank < 2 ? !(y[0] >= 0) : y[0] == float(rank - 2);
    return isRight ? "" : "rank " + std::to_string(rank);
  };
  for (const std::string &text : runThreads(4, body))
    EXPECT_EQ(text, "");
}

// A mesh of one rank, which exchanges with itself.
TEST(Ranks, OneRankExchangesWithItself) {
  auto give = [](const Json &collective) {
    Json manifest = manifestOf(collective, 4);
    manifest["mesh"] = Json::array({{"data", 1}});
    std::string artefact = rt::test::pack(manifest, rt::test::kernels(), "");
    rt::Executable executable = loadFor(artefact, nullptr);
    float x[4] = {1, 2, 3, 4};
    std::vector<float> y(4, -1.0f);
    uint32_t number = 99;
    void *args[] = {x};
    void *results[] = {y.data(), &number};
    executable.run("step", args, 1, results, 2);
    return y;
  };
  const std::vector<float> same = {1, 2, 3, 4}, zeros(4);
  EXPECT_EQ(give(groups("all_reduce", "sum", {{0}})), same);
  EXPECT_EQ(give(groups("broadcast", "none", {{0}})), same);
  EXPECT_EQ(give(groups("all_to_all", "none", {{0}})), same);
  EXPECT_EQ(give(groups("permute", "none", {{0, 0}})), same);
  EXPECT_EQ(give(groups("permute", "none", Json::array())), zeros);
}

TEST(Ranks, ManifestLies) {
  auto contains = [](const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
  };
  struct Case {
    Json collective;
    int64_t results;
    const char *want;
  } cases[] = {
      {groups("all_reduce", "mean", {{0, 1, 2, 3}}), 4, "is 'mean'"},
      {groups("reduce", "sum", {{0, 1, 2, 3}}), 4, "is 'reduce'"},
      {groups("all_reduce", "sum", {{0, 1}, {2, 4}}), 4, "there are 4 ranks"},
      {groups("all_reduce", "sum", {{0, 1}, {2, 1}}), 4, "names rank 1 again"},
      {groups("all_reduce", "sum", {{0, 1}}), 4, "leave out rank 2"},
      {groups("all_reduce", "sum", {{0, 1, 2}, {3}}), 4, "has 1 ranks"},
      {groups("permute", "none", {{0, 1}, {2, 1}}), 4, "names rank 1 again"},
      {groups("all_gather", "none", {{0, 1}, {2, 3}}), 4,
       "is not the result type"},
      {groups("reduce_scatter", "sum", {{0, 1, 2, 3}}), 2,
       "is not the result type"},
  };
  for (const Case &c : cases) {
    std::string got = errorOf(manifestOf(c.collective, c.results));
    EXPECT_TRUE(contains(got, c.want)) << got << "\nwanted: " << c.want;
  }
  Json written = manifestOf(groups("all_reduce", "sum", {{0, 1, 2, 3}}), 4);
  written["functions"]["step"][1]["dst"] = 2;
  EXPECT_TRUE(contains(errorOf(written), "read only"));
  Json twice = manifestOf(groups("all_reduce", "sum", {{0, 1, 2, 3}}), 4);
  for (int i = 0; i < 2; ++i)
    twice["functions"]["step"].push_back({{"op", "record"}, {"event", 0}});
  EXPECT_TRUE(contains(errorOf(twice), "records event 0 a second time"));
  Json many = manifestOf(groups("all_reduce", "sum", {{0, 1, 2, 3}}), 4);
  many["mesh"][0][1] = int64_t(1) << 40;
  EXPECT_TRUE(contains(errorOf(many), "more than 2^20 ranks"));
}

TEST(Ranks, AsManyAsTheArtefactIsFor) {
  Json manifest = manifestOf(groups("all_reduce", "sum", {{0, 1, 2, 3}}), 4);
  EXPECT_NE(errorOf(manifest).find("is for 4 ranks and there is one"),
            std::string::npos);
  auto two = [&](rt::Communicator &comm) { return errorOf(manifest, &comm); };
  for (const std::string &text : runThreads(2, two))
    EXPECT_NE(text.find("is for 4 ranks, and 2 were launched"),
              std::string::npos)
        << text;
  // A device that only records runs as the first of the artefact's ranks.
  std::string artefact = rt::test::pack(manifest, rt::test::kernels(), "");
  rt::Executable executable =
      loadFor(artefact, nullptr, SCALIFY_RT_DEVICE_NULL);
  float x[4] = {}, y[4] = {};
  uint32_t number = 99;
  void *args[] = {x};
  void *results[] = {y, &number};
  executable.run("step", args, 1, results, 2);
  EXPECT_NE(executable.device().trace().find("collective all_reduce"),
            std::string::npos)
      << executable.device().trace();
}
