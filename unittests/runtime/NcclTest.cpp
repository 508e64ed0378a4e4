// Collectives of GPUs, on a recording of NCCL: no test here needs or uses a
// GPU.
#include "GpuArtefact.h"
#include "NcclRanks.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
/// Runs two steps on ranks that share a fabric; the input of rank r is 10 r, 10
/// r + 1, ...
std::string run(const Json &manifest, std::vector<std::vector<float>> wanted) {
  auto fabric = std::make_shared<cuda::Fabric>();
  auto body = [&](Communicator &comm) -> std::string {
    auto r = size_t(comm.rank());
    GpuRank rank(manifest, &comm, fabric);
    float first = 10.0f * float(r);
    for (int step = 0; step < 2; ++step)
      rank.run({first, first + 1, first + 2, first + 3});
    if (rank.number != r)
      return "the rank's number is " + std::to_string(rank.number);
    return rank.y == wanted[r] ? "" : "wrong result";
  };
  auto count = int32_t(wanted.size());
  for (const std::string &text : scalify::test::runThreads(count, body))
    if (!text.empty())
      return text;
  return "";
}

/// Collectives of one step, two of them on another stream.
Json manyCollectives() {
  const Json pairs = {{0, 2}, {3, 1}}, all = {{0, 1, 2, 3}};
  auto on = [](Json collective, int src, int dst, int stream) {
    collective["src"] = src;
    collective["dst"] = dst;
    collective["stream"] = stream;
    return collective;
  };
  Json gather = collectiveOf("all_gather", "none", pairs);
  Json m = gpuCollective(gather, 8, 4);
  m["buffers"].push_back(buffer("temp", 64, {2}));
  m["arena_bytes"] = 128;
  m["functions"] = {
      {"step",
       Json::array({on(gather, 0, 1, 1),
                    on(collectiveOf("reduce_scatter", "sum", pairs), 0, 6, 1),
                    on(collectiveOf("all_reduce", "max", all), 0, 4, 0),
                    on(gather, 0, 1, 0),
                    on(collectiveOf("permute", "none", {{0, 1}}), 0, 4, 0)})}};
  return m;
}
} // namespace

TEST(Nccl, EachRankIsInItsGroup) {
  const Json rows = {{0, 2}, {3, 1}};
  auto step = [&](const char *kind, const char *join, int64_t results) {
    return gpuCollective(collectiveOf(kind, join, rows), results, 4);
  };
  EXPECT_EQ(run(step("all_reduce", "sum", 4), {{20, 22, 24, 26},
                                               {40, 42, 44, 46},
                                               {20, 22, 24, 26},
                                               {40, 42, 44, 46}}),
            "");
  EXPECT_EQ(
      run(step("all_gather", "none", 8), {{0, 1, 2, 3, 20, 21, 22, 23},
                                          {30, 31, 32, 33, 10, 11, 12, 13},
                                          {0, 1, 2, 3, 20, 21, 22, 23},
                                          {30, 31, 32, 33, 10, 11, 12, 13}}),
      "");
  EXPECT_EQ(
      run(step("broadcast", "none", 4),
          {{0, 1, 2, 3}, {30, 31, 32, 33}, {0, 1, 2, 3}, {30, 31, 32, 33}}),
      "");
  EXPECT_EQ(run(step("reduce_scatter", "max", 2),
                {{20, 21}, {32, 33}, {22, 23}, {30, 31}}),
            "");
  EXPECT_EQ(
      run(step("all_to_all", "none", 4),
          {{0, 1, 20, 21}, {32, 33, 12, 13}, {2, 3, 22, 23}, {30, 31, 10, 11}}),
      "");
}

TEST(Nccl, PermutesGiveZerosWhereNobodySends) {
  Json rows = {{0, 1}, {1, 0}, {2, 2}};
  EXPECT_EQ(
      run(gpuCollective(collectiveOf("permute", "none", rows), 4, 4),
          {{10, 11, 12, 13}, {0, 1, 2, 3}, {20, 21, 22, 23}, {0, 0, 0, 0}}),
      "");
}

TEST(Nccl, MessagesGoFromStageToStage) {
  auto fabric = std::make_shared<cuda::Fabric>();
  auto body = [&](Communicator &comm) -> std::string {
    bool isFirst = comm.rank() == 0;
    Json message = {{"op", "collective"},
                    {"kind", "message"},
                    {"src", isFirst ? 0 : 1},
                    {"dst", isFirst ? 0 : 1}};
    message[isFirst ? "to" : "from"] = isFirst ? 1 : 0;
    Json artefact = gpuCollective(message, 4, 2);
    artefact["pipeline"] = {{"stages", 2}};
    GpuRank rank(artefact, &comm, fabric);
    rank.run({5, 6, 7, 8});
    bool isRight = isFirst || rank.y == std::vector<float>{5, 6, 7, 8};
    return isRight ? "" : "wrong result";
  };
  for (const std::string &text : scalify::test::runThreads(2, body))
    EXPECT_EQ(text, "");
}

// Each stage has collectives that the other stage lacks, and its messages are
// at another place of its program.
TEST(Nccl, StagesOfRanksMakeTheSameCommunicators) {
  auto fabric = std::make_shared<cuda::Fabric>();
  auto body = [&](Communicator &comm) -> std::string {
    const bool isFirst = comm.rank() < 2;
    Json message = {{"op", "collective"},
                    {"kind", "message"},
                    {"name", "m"},
                    {"src", isFirst ? 0 : 4},
                    {"dst", isFirst ? 0 : 4}};
    message[isFirst ? "to" : "from"] = isFirst ? 1 : 0;
    // The first stage sums its ranks' inputs and sends its own; in the second
    // stage all ranks get what its second rank received.
    Json own = isFirst ? collectiveOf("all_reduce", "sum", {{0, 1}})
                       : collectiveOf("broadcast", "none", {{1, 0}});
    own["src"] = isFirst ? 0 : 4;
    Json artefact = gpuCollective(own, 4, 4);
    Json &step = artefact["functions"]["step"];
    step.insert(isFirst ? step.begin() + 1 : step.begin(), message);
    artefact["pipeline"] = {{"stages", 2}};
    GpuRank rank(artefact, &comm, fabric);
    std::string split = linesOf(rank.newLines(), "ncclCommSplit");
    float first = 10.0f * float(comm.rank());
    for (int turn = 0; turn < 2; ++turn)
      rank.run({first, first + 1, first + 2, first + 3});
    const std::vector<float> wanted = isFirst
                                          ? std::vector<float>{10, 12, 14, 16}
                                          : std::vector<float>{10, 11, 12, 13};
    return rank.y == wanted ? split : "wrong result";
  };
  auto splits = [](int rank) {
    auto line = [](int color, int key, int number) {
      return "ncclCommSplit color=" + std::to_string(color) +
             " key=" + std::to_string(key) + " comm" + std::to_string(number) +
             "\n";
    };
    const int stage = rank / 2, place = rank % 2;
    return line(stage, place, 1) + line(0, rank, 2) + line(stage, 1 - place, 3);
  };
  EXPECT_EQ(
      scalify::test::runThreads(4, body),
      (std::vector<std::string>{splits(0), splits(1), splits(2), splits(3)}));
}

// A plan exchanges in place; NCCL does not.
TEST(Nccl, ExchangesInPlaceGoThroughMemoryOfTheirOwn) {
  Json exchange = collectiveOf("all_to_all", "none", {{0, 1}});
  Json m = gpuCollective(exchange, 4, 2);
  exchange["src"] = 4;
  exchange["dst"] = 5;
  auto copy = [](int from, int to) -> Json {
    return {{"op", "copy"}, {"src", from}, {"dst", to}, {"bytes", 16}};
  };
  m["functions"]["step"] = Json::array(
      {copy(0, 4), exchange, copy(5, 1), m["functions"]["step"][1]});
  EXPECT_EQ(run(m, {{0, 1, 10, 11}, {2, 3, 12, 13}}), "");
}

// One communicator for each set of groups and direction, in the program's
// order. The collectives of a step run one after another on any stream. No
// graph is captured.
TEST(Nccl, CommunicatorsAndOrder) {
  GpuRank rank(manyCollectives(), nullptr);
  EXPECT_EQ(linesOf(rank.newLines(), "nccl"),
            "ncclCommInitRank rank=0 of 4\n"
            "ncclCommSplit color=0 key=0 comm1\n"   // gathers of pairs
            "ncclCommSplit color=0 key=0 comm2\n"   // sums of pairs
            "ncclCommSplit color=0 key=0 comm3\n"); // of all
  const std::string step =
      "cuStreamWaitEvent event1 stream=1\n" // the streams fork
      "ncclAllGather result0+0 from arg0+0 count=16 comm1 stream=1\n"
      "ncclReduceScatter arena+64 from arg0+0 count=2 type=f32 op=0 comm2 "
      "stream=1\n"
      "cuStreamWaitEvent event3\n" // after the previous collective
      "ncclAllReduce arena+0 from arg0+0 count=4 type=f32 op=2 comm3\n"
      "ncclAllGather result0+0 from arg0+0 count=16 comm1\n"
      "cuMemsetD8Async arena+0 bytes=16 byte=0\n"
      "ncclSend arg0+0 bytes=16 peer=1 comm3\n"
      "cuStreamWaitEvent event0\n" // and join
      "cuStreamSynchronize\n";
  for (int i = 0; i < 3; ++i) {
    rank.run();
    EXPECT_EQ(rank.newLines(), step) << i;
  }
  rank.exe.reset();
  EXPECT_EQ(linesOf(rank.newLines(), "nccl"),
            "ncclCommDestroy comm3\nncclCommDestroy comm2\n"
            "ncclCommDestroy comm1\nncclCommDestroy comm0\n");
  EXPECT_EQ(rank.driver->alive(), 0u);
}

TEST(Nccl, RanksMakeTheSameCommunicators) {
  auto fabric = std::make_shared<cuda::Fabric>();
  auto body = [&](Communicator &comm) {
    return linesOf(GpuRank(manyCollectives(), &comm, fabric).newLines(),
                   "ncclCommSplit");
  };
  auto colors = [](int color, int key, int self) {
    std::string pair = "ncclCommSplit color=" + std::to_string(color) +
                       " key=" + std::to_string(key) + " comm";
    return pair + "1\n" + pair +
           "2\nncclCommSplit color=0 key=" + std::to_string(self) + " comm3\n";
  };
  EXPECT_EQ(scalify::test::runThreads(4, body),
            (std::vector<std::string>{colors(0, 0, 0), colors(1, 1, 1),
                                      colors(0, 1, 2), colors(1, 0, 3)}));
}

// The bytes that a step's calls send are those of the plan's collectives, and
// are added to the count of the communicator that connects the ranks.
TEST(Nccl, BytesThatGpusSendAreCounted) {
  Json m = manyCollectives();
  Json &step = m["functions"]["step"];
  Json exchange = collectiveOf("all_to_all", "none", {{0, 2}, {3, 1}});
  exchange["dst"] = 4;
  step.push_back(exchange);
  Json self = collectiveOf("permute", "none", {{2, 2}, {1, 3}});
  self["dst"] = 4;
  step.push_back(self);
  auto fabric = std::make_shared<cuda::Fabric>();
  auto body = [&](Communicator &comm) -> std::string {
    GpuRank rank(m, &comm, fabric);
    int64_t planned = 0;
    for (const Command &command : rank.exe->program().functions[0].commands)
      if (command.op == Command::Op::Collective)
        planned += bytesSent(command.collective, comm.rank());
    uint64_t before = comm.bytesSent();
    rank.run();
    rank.run();
    auto found = int64_t(comm.bytesSent() - before);
    return found == 2 * planned && planned > 0
               ? ""
               : std::to_string(found) + " bytes, not twice " +
                     std::to_string(planned);
  };
  for (const std::string &text : scalify::test::runThreads(4, body))
    EXPECT_EQ(text, "");
}

TEST(Nccl, OneRankExchangesWithItself) {
  auto give = [](const char *kind, const char *join) {
    GpuRank rank(gpuCollective(collectiveOf(kind, join, {{0}}), 4, 1), nullptr,
                 std::make_shared<cuda::Fabric>());
    rank.run();
    return rank.y;
  };
  const std::vector<float> same = {1, 2, 3, 4};
  EXPECT_EQ(give("all_reduce", "sum"), same);
  EXPECT_EQ(give("reduce_scatter", "sum"), same);
  EXPECT_EQ(give("all_gather", "none"), same);
  EXPECT_EQ(give("broadcast", "none"), same);
  EXPECT_EQ(give("all_to_all", "none"), same);
}

TEST(Nccl, NullDeviceIsTheFirstOfAsManyAsThereShallBe) {
  Handle exe = load(pack(manyCollectives(), gpuKernels(), gpuConstants()), 0,
                    SCALIFY_RT_DEVICE_NULL);
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  std::string trace = scalify_rt_trace(exe.get());
  EXPECT_NE(trace.find("ncclCommInitRank rank=0 of 4\n"), std::string::npos);
}

TEST(Nccl, WhatItCannotJoinIsRefusedAtLoad) {
  auto refusal = [](const char *join, const char *type, int version = 23200) {
    Json m = gpuCollective(collectiveOf("all_reduce", join, {{0, 1}}), 4, 2);
    m["buffers"][4]["dtype"] = m["buffers"][5]["dtype"] = type;
    m["functions"]["step"][0]["src"] = 4;
    m["functions"]["step"][0]["dst"] = 5;
    auto driver = std::make_shared<cuda::RecordingDriver>();
    driver->ncclVersion = version;
    std::string text =
        errorOf([&] { GpuRank rank(m, nullptr, nullptr, driver); });
    EXPECT_EQ(driver->alive(), 0u);
    return text;
  };
  EXPECT_EQ(refusal("sum", "f8E5M2"),
            "all_reduce 'x' (sum of f8E5M2): NCCL rounds to FP8 after every "
            "rank, which loses small values; exchange the parts by all_to_all "
            "and reduce them in f32, or reduce f32");
  EXPECT_EQ(refusal("max", "f8E4M3FN"), "");
  EXPECT_EQ(refusal("max", "f8E4M3FN", 22304),
            "all_reduce 'x' (max of f8E4M3FN): NCCL 22304 does not reduce FP8; "
            "update it to 2.24");
  EXPECT_NE(refusal("sum", "ui16").find("has no such reduction"),
            std::string::npos);
  EXPECT_NE(refusal("and", "i32").find("has no such reduction"),
            std::string::npos);
  EXPECT_EQ(refusal("and", "i1"), "");
  EXPECT_EQ(refusal("sum", "bf16"), "");
  EXPECT_EQ(refusal("sum", "f32", 21700),
            "NCCL is version 21700; GPUs exchange by 2.18 or newer");
}
