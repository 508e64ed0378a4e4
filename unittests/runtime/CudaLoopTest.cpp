// Loops of a GPU's plan: the host issues each iteration's commands. On a
// recording of the driver's calls.
#include "GpuArtefact.h"
#include "support/Error.h"

#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
constexpr int64_t width = 16, rows = 4;

/// `cast(from, to)` of gpuKernels(), counted.
Json cast(int from, int to, int counter) {
  return {{"op", "kernel"},        {"symbol", "cast"},
          {"bufs", {from, to}},    {"rows", 1},
          {"threads", 128},        {"grain", 1},
          {"counters", {counter}}, {"name", "cast"}};
}

/// Three iterations of cast(row, arena) and cast(arena, sum), where row is that
/// of `stack` from its end on; before and behind the loop a cast of the sum.
Json loopManifest() {
  Json m = gpuManifest();
  m["counters"] = {{{"cast", "x"}, {"elements", 96}},
                   {{"cast", "y"}, {"elements", 48}}};
  Json body = setLoopInterface(m, rows, width);
  body["commands"] = {cast(1, 2, 1), cast(2, 3, 1)};
  Json loop = {{"op", "loop"},   {"function", "body"},
               {"carries", {0}}, {"reads", {1}},
               {"arena", 2},     {"trips", 3},
               {"name", "loop"}, {"slices", {1, 192, -64, 192}}};
  m["functions"] = {{"body", body},
                    {"step", {cast(1, 2, 0), loop, cast(2, 0, 0)}}};
  return m;
}

/// The loop runs on while `next`, which each iteration copies, is true.
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
  for (Json &command : body["commands"])
    command["elements"] = {width};
  body["commands"].push_back(
      {{"op", "copy"}, {"src", 5}, {"dst", 4}, {"bytes", 1}});
  Json &loop = m["functions"]["step"][1];
  loop["carries"] = {0, 3};
  loop["reads"] = {1, 4};
  loop["slices"] = {2, 192, -64, 192};
  loop.erase("trips");
  loop["while"] = 1;
  return m;
}

struct Loop : Recorded {
  explicit Loop(const Json &manifest,
                std::shared_ptr<cuda::RecordingDriver> recording =
                    std::make_shared<cuda::RecordingDriver>())
      : Recorded(pack(manifest, gpuKernels(), gpuConstants()),
                 std::move(recording)),
        stack(rows * width) {
    args = {params.data(), stack.data(), &goesOn, &next};
    results = {nullptr, nullptr};
    newLines();
  }
  std::string work() {
    run();
    return newLines();
  }

  std::vector<float> stack;
  uint8_t goesOn = 1, next = 0;
};

std::string launch(const std::string &args) {
  return "cuLaunchKernel cast grid=1 block=128 shared=0 args=[" + args + "]\n";
}

std::string iteration(int row) {
  return launch("arg1+" + std::to_string(64 * row) + ",arena+0,counters+0") +
         launch("arena+0,arg0+0,counters+48");
}

const std::string before = launch("arg1+0,arena+0,counters+96"),
                  behind = launch("arena+0,arg0+0,counters+144");
} // namespace

TEST(CudaLoop, EachIterationHasItsSlice) {
  Loop gpu(loopManifest());
  EXPECT_EQ(linesOf(gpu.work(), "cuLaunchKernel"),
            before + iteration(3) + iteration(2) + iteration(1) + behind);
}

/// Counted iterations are captured like other commands, and replayed.
TEST(CudaLoop, CountedLoopsArePartOfTheGraph) {
  Loop gpu(loopManifest());
  gpu.run();
  gpu.newLines();
  EXPECT_EQ(linesOf(gpu.work(), "cuStreamEndCapture"),
            "cuStreamEndCapture nodes=9\n"); // eight casts and a memset
  EXPECT_EQ(linesOf(gpu.work(), "cuGraphLaunch"),
            "cuGraphLaunch exec0 nodes=9\n");
}

/// But a graph would have a node for each command of each iteration.
TEST(CudaLoop, VeryLongLoopsAreNotCaptured) {
  Json m = loopManifest();
  m["functions"]["step"][1]["trips"] = (1 << 16) + 1;
  Loop gpu(m);
  gpu.run();
  EXPECT_FALSE(contains(gpu.work(), "Capture"));
}

/// The counters of loops are zeroed, read and added with those around them.
TEST(CudaLoop, CountersOfTheBodyAddUp) {
  Loop gpu(loopManifest());
  std::string lines = gpu.work();
  EXPECT_EQ(linesOf(lines, "cuMemset"),
            "cuMemsetD8Async counters+0 bytes=192 byte=0\n");
  EXPECT_EQ(linesOf(lines, "cuMemcpyDtoHAsync counters"),
            "cuMemcpyDtoHAsync counters+0 bytes=192\n");
  auto *words = static_cast<uint64_t *>(gpu.driver->find("counters"));
  gpu.driver->onGraphLaunch = [&] {
    for (uint64_t i = 0; i < 4; ++i)
      words[6 * i] = uint64_t(1) << i; // body: 1, 2; step: 4, 8
  };
  gpu.run();
  EXPECT_EQ(gpu.exe->health()[0], 12u);
  EXPECT_EQ(gpu.exe->health()[6], 3u);
}

/// The host reads the condition before each iteration, so that nothing is
/// captured, and issues the next one as the condition says.
TEST(CudaLoop, TheHostReadsTheCondition) {
  auto driver = std::make_shared<cuda::RecordingDriver>();
  driver->fabric = std::make_shared<cuda::Fabric>(); // copies move memory
  Loop gpu(whileManifest(), driver);
  const std::string read = "cuMemcpyDtoHAsync arg2+0 bytes=1\n"
                           "cuStreamSynchronize\n",
                    copy = "cuMemcpyDtoDAsync arg2+0 from arg3+0 bytes=1\n";
  for (int run = 0; run < 3; ++run) {
    gpu.goesOn = 1;
    std::string lines = gpu.work();
    EXPECT_TRUE(
        contains(lines, before + read + iteration(3) + copy + read + behind))
        << lines;
    EXPECT_FALSE(contains(lines, "Capture"));
    EXPECT_EQ(gpu.goesOn, 0);
    // Elements are those that ran.
    EXPECT_EQ(gpu.exe->elementsOf(1), uint64_t(48 + 2 * width));
  }
  gpu.goesOn = 0;
  EXPECT_TRUE(contains(gpu.work(), before + read + behind));
}

/// A loop that does not end can be interrupted, after any iteration.
TEST(CudaLoop, IsInterrupted) {
  auto driver = std::make_shared<cuda::RecordingDriver>();
  driver->fabric = std::make_shared<cuda::Fabric>();
  Loop gpu(whileManifest(), driver);
  gpu.next = 1;
  gpu.exe->setPoll([](void *) { return 1; }, nullptr);
  EXPECT_THROW(gpu.run(), Error);
}

/// The null device computes no condition: it records one iteration.
TEST(CudaLoop, ARecordingRunsOneIteration) {
  Loop gpu(whileManifest());
  gpu.goesOn = 0;
  EXPECT_EQ(linesOf(gpu.work(), "cuLaunchKernel"),
            before + iteration(3) + behind);
}

/// Other streams start and end within an iteration, and its events are not
/// those of the function around it.
TEST(CudaLoop, StreamsAreJoinedInEachIteration) {
  Json m = loopManifest();
  Json record = {{"op", "record"}, {"event", 0}, {"stream", 0}},
       wait = {{"op", "wait"}, {"event", 0}, {"stream", 1}};
  Json &body = m["functions"]["body"]["commands"];
  body[1]["stream"] = 1;
  body.insert(body.begin() + 1, {record, wait});
  Json &step = m["functions"]["step"];
  step.insert(step.begin(), record);
  wait["stream"] = 0;
  step.push_back(wait);
  Loop gpu(m);
  auto side = [](std::string lines) {
    return lines.insert(lines.size() - 1, " stream=1");
  };
  auto both = [&](int row) {
    const std::string text = iteration(row);
    const size_t half = text.find('\n') + 1;
    return "cuEventRecord event1\ncuStreamWaitEvent event1 stream=1\n" +
           text.substr(0, half) +
           "cuEventRecord event2\ncuStreamWaitEvent event2 stream=1\n" +
           side(text.substr(half)) +
           "cuEventRecord event0 stream=1\ncuStreamWaitEvent event0\n";
  };
  const std::string expected = "cuEventRecord event3\n" + before + both(3) +
                               both(2) + both(1) + behind +
                               "cuStreamWaitEvent event3\n";
  for (int run = 0; run < 2; ++run) { // direct, and captured
    std::string lines = gpu.work();
    EXPECT_TRUE(contains(lines, expected)) << lines;
  }
}

TEST(CudaLoop, EachIterationIsTimed) {
  Loop gpu(loopManifest());
  gpu.exe->setProfiling(true);
  gpu.run();
  gpu.run();
  std::vector<uint64_t> calls;
  for (const Executable::ProfileRow &row : gpu.exe->profile()) {
    calls.push_back(row.time.calls);
    EXPECT_EQ(row.time.nanoseconds > 0, row.command->op == Command::Op::Kernel);
  }
  EXPECT_EQ(calls, (std::vector<uint64_t>{6, 6, 2, 2, 2}));
}

/// More commands than there are events for at once.
TEST(CudaLoop, LongLoopsAreTimed) {
  Json m = loopManifest();
  m["functions"]["step"][1]["trips"] = 5000;
  Loop gpu(m);
  gpu.exe->setProfiling(true);
  gpu.run();
  EXPECT_EQ(gpu.exe->profile()[0].time.calls, 5000u);
  EXPECT_EQ(gpu.exe->profile()[4].time.calls, 1u);
}
