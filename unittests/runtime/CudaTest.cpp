// The device for NVIDIA GPUs, on a recording of its driver calls: no test here
// needs or uses a GPU.
#include "GpuArtefact.h"
#include "support/Error.h"

#include <cstring>
#include <ctime>
#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
template <typename Fn> std::string errorOf(Fn body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

constexpr const char *zeroed = "cuMemsetD8Async counters+0 bytes=96 byte=0\n";
constexpr const char *commands =
    "cuLaunchKernel cast grid=12 block=256 shared=0 "
    "args=[arg1+0,arena+0,counters+0]\n"
    "cuLaunchKernel cast grid=12 block=256 shared=0 "
    "args=[arg0+0,arena+3072,counters+48]\n"
    "cublasLtMatmul a=arena+3072 b=arena+0 d=arena+5120 a_scale=const+64 "
    "b_scale=const+0 alpha=0.5 beta=0 | TN m=32 n=48 k=64 "
    "a=f8E5M2 ld=64 b=f8E4M3FN ld=64 d=bf16 ld=32 batch=1 compute=f32 fast\n"
    "cuLaunchKernel update grid=7 block=128 shared=0 "
    "args=[arena+5120,arg0+0,result1+0,null]\n";
} // namespace

TEST(Cuda, LoadUploadsConstantsAndFindsKernels) {
  Recorded gpu;
  std::string lines = gpu.newLines();
  EXPECT_TRUE(contains(lines, "cuMemAlloc bytes=8192\n"));
  EXPECT_EQ(linesOf(lines, "cuMemcpyHtoDAsync const"),
            "cuMemcpyHtoDAsync const+0 bytes=128\n");
  EXPECT_EQ(linesOf(lines, "cuModuleLoadDataEx"),
            "cuModuleLoadDataEx ptx bytes=" +
                std::to_string(gpuKernels().size()) + "\n");
  EXPECT_TRUE(contains(
      lines, "cublasLtMatmulAlgoGetHeuristic TN m=32 n=48 k=64 a=f8E5M2"));
  EXPECT_EQ(std::memcmp(gpu.driver->find("const"), gpuConstants().data(), 128),
            0);
}

TEST(Cuda, SecondStepIsCapturedAndLaterOnesReplayed) {
  Recorded gpu;
  gpu.newLines();
  const std::string in = "cuMemcpyHtoDAsync arg0+0 bytes=8192\n"
                         "cuMemcpyHtoDAsync arg1+0 bytes=12288\n";
  const std::string launch = "cuGraphLaunch exec0 nodes=5\n";
  const std::string out = "cuMemcpyDtoHAsync counters+0 bytes=96\n"
                          "cuMemcpyDtoHAsync arg0+0 bytes=8192\n"
                          "cuMemcpyDtoHAsync result1+0 bytes=4\n"
                          "cuStreamSynchronize\n";
  gpu.run();
  EXPECT_EQ(gpu.newLines(), "cuMemAlloc bytes=8192\n"
                            "cuMemcpyHtoDAsync arg0+0 bytes=8192\n"
                            "cuMemAlloc bytes=12288\n"
                            "cuMemcpyHtoDAsync arg1+0 bytes=12288\n"
                            "cuMemAlloc bytes=4\n" +
                                (zeroed + std::string(commands)) + out);
  gpu.run();
  EXPECT_EQ(gpu.newLines(),
            in + "cuStreamBeginCapture\n" + zeroed + commands +
                "cuStreamEndCapture nodes=5\ncuGraphInstantiate exec0\n" +
                launch + out);
  gpu.run();
  EXPECT_EQ(gpu.newLines(), in + launch + out);
}

TEST(Cuda, NullDeviceRecordsArtefactsForAGpu) {
  Handle exe = load(gpuArtefact(), 0, SCALIFY_RT_DEVICE_NULL);
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  std::vector<float> params(32 * 64, 2.0f), batch(48 * 64);
  float loss = 1;
  void *args[] = {params.data(), batch.data()}, *results[] = {nullptr, &loss};
  ASSERT_EQ(scalify_rt_run(exe.get(), "step", args, 2, results, 2),
            SCALIFY_RT_OK)
      << scalify_rt_last_error();
  EXPECT_TRUE(
      contains(scalify_rt_trace(exe.get()), std::string(zeroed) + commands));
  // Nothing was computed: the state comes back unchanged.
  EXPECT_EQ(params, std::vector<float>(32 * 64, 2.0f));
}

TEST(Cuda, ArtefactsGoToTheirOwnDevice) {
  EXPECT_FALSE(load(gpuArtefact()));
  EXPECT_STREQ(scalify_rt_last_error(),
               "artefact is for target 'sm_90a': load it with device 'cuda', "
               "or with device 'null' to see what a step would do");
  EXPECT_FALSE(load(tinyArtefact(16), 0, SCALIFY_RT_DEVICE_CUDA));
  EXPECT_STREQ(scalify_rt_last_error(),
               "artefact is for target 'cpu': load it with device 'cpu', or "
               "compile it for a GPU");
}

TEST(Cuda, OtherAddressesAreCapturedAnew) {
  Recorded gpu;
  gpu.run();
  gpu.run();
  gpu.newLines();
  // Staged arguments keep their address: a caller may move its memory freely.
  std::vector<float> moved = gpu.batch;
  gpu.args[1] = moved.data();
  gpu.run();
  EXPECT_FALSE(contains(gpu.newLines(), "Capture"));
  // Memory of the device is used in place.
  void *memory = gpu.exe->allocate(12288);
  gpu.args[1] = memory;
  gpu.run();
  std::string lines = gpu.newLines();
  EXPECT_TRUE(contains(lines, "cuGraphInstantiate exec1\n"));
  EXPECT_TRUE(contains(lines, "args=[arg1+0,arena+0,counters+0]"));
  EXPECT_FALSE(contains(lines, "cuMemcpyHtoDAsync arg1"));
  gpu.run();
  EXPECT_EQ(linesOf(gpu.newLines(), "cuGraph"),
            "cuGraphLaunch exec1 nodes=5\n");
  // Back to the first set of addresses, whose graph is kept.
  gpu.args[1] = moved.data();
  gpu.run();
  EXPECT_EQ(linesOf(gpu.newLines(), "cuGraph"),
            "cuGraphLaunch exec0 nodes=5\n");
}

TEST(Cuda, ManyAddressesShareFourGraphs) {
  Recorded gpu;
  gpu.run();
  for (int i = 0; i < 6; ++i) {
    gpu.args[1] = gpu.exe->allocate(12288);
    gpu.newLines();
    gpu.run();
    std::string call = i < 4 ? "cuGraphInstantiate exec" + std::to_string(i)
                             : "cuGraphExecUpdate exec" + std::to_string(i - 4);
    EXPECT_TRUE(contains(gpu.newLines(), call + "\n")) << i;
  }
}

TEST(Cuda, StateStaysOnTheDevice) {
  Recorded gpu;
  void *params = gpu.exe->allocate(8192), *loss = gpu.exe->allocate(4);
  gpu.exe->copyIn(params, gpu.params.data(), 8192);
  gpu.args[0] = params;
  gpu.results = {params, loss};
  gpu.run();
  gpu.newLines();
  gpu.run();
  EXPECT_EQ(linesOf(gpu.newLines(), "cuMemcpy"),
            "cuMemcpyHtoDAsync arg1+0 bytes=12288\n"
            "cuMemcpyDtoHAsync counters+0 bytes=96\n");
  std::vector<float> back(2048);
  gpu.exe->copyOut(back.data(), params, 8192);
  EXPECT_EQ(back, gpu.params);
  gpu.exe->release(loss);
  EXPECT_EQ(errorOf([&] { gpu.exe->release(loss); }),
            "the executable allocated no memory at that address");
  gpu.results[1] = static_cast<char *>(params) + 4;
  gpu.args[0] = gpu.params.data();
  gpu.results[0] = nullptr;
  EXPECT_EQ(errorOf([&] { gpu.run(); }),
            "result1 lies on the GPU, but not at a multiple of 64 bytes; copy "
            "it");
}

TEST(Cuda, CountersAreThoseOfTheLastRun) {
  Recorded gpu;
  gpu.run();
  auto *device = static_cast<uint64_t *>(gpu.driver->find("counters"));
  uint64_t base = 100;
  gpu.driver->onGraphLaunch = [&] {
    for (uint64_t word = 0; word < 12; ++word)
      device[word] = base + word;
  };
  gpu.run();
  EXPECT_EQ(gpu.exe->health(),
            (std::vector<uint64_t>{100, 101, 102, 103, 104, 105, 106, 107, 108,
                                   109, 110, 111}));
  base = 7;
  gpu.run();
  EXPECT_EQ(gpu.exe->health(), (std::vector<uint64_t>{7, 8, 9, 10, 11, 12, 13,
                                                      14, 15, 16, 17, 18}));
}

TEST(Cuda, CountersOfOneCastInTwoKernelsAddUp) {
  Json m = gpuManifest();
  m["functions"]["step"][1]["counters"] = {0, 1, 0};
  Recorded gpu(pack(m, gpuKernels(), gpuConstants()));
  gpu.run();
  auto *device = static_cast<uint64_t *>(gpu.driver->find("counters"));
  gpu.driver->onGraphLaunch = [&] {
    for (uint64_t word = 0; word < 24; ++word)
      device[word] = word;
  };
  gpu.run();
  EXPECT_EQ(gpu.exe->health(), (std::vector<uint64_t>{24, 27, 30, 33, 36, 39,
                                                      12, 13, 14, 15, 16, 17}));
}

TEST(Cuda, ProfileRunsUncapturedWithEvents) {
  Recorded gpu;
  gpu.exe->setProfiling(true);
  gpu.run();
  std::string lines = gpu.newLines();
  EXPECT_FALSE(contains(lines, "Graph"));
  EXPECT_EQ(linesOf(lines, "cuEventRecord"),
            "cuEventRecord event0\ncuEventRecord event1\n"
            "cuEventRecord event2\ncuEventRecord event3\n"
            "cuEventRecord event4\n");
  EXPECT_LT(lines.find("event2"), lines.find("cublasLtMatmul a="));
  EXPECT_GT(lines.find("event3"), lines.find("cublasLtMatmul a="));
  gpu.run();
  const auto &rows = gpu.exe->profile();
  ASSERT_EQ(rows.size(), 4u);
  for (const auto &row : rows) {
    EXPECT_EQ(row.time.calls, 2u);
    // The recording's times.
    bool isGemm = row.command->op == Command::Op::Gemm;
    EXPECT_NEAR(double(row.time.nanoseconds), isGemm ? 2600 : 2000, 10);
  }
}

TEST(Cuda, PollComesAfterTheStep) {
  Recorded gpu;
  gpu.run();
  int calls = 0;
  gpu.exe->setPoll([](void *context) { return ++*static_cast<int *>(context); },
                   &calls);
  gpu.driver->onGraphLaunch = [] {
    timespec pause = {0, 60 * 1000 * 1000};
    nanosleep(&pause, nullptr);
  };
  EXPECT_EQ(errorOf([&] { gpu.run(); }), "the run was interrupted");
  EXPECT_EQ(calls, 1);
}

TEST(Cuda, FunctionsHaveGraphsOfTheirOwn) {
  Json m = gpuManifest();
  Json scales = {{"name", "scales"}, {"shape", {8}}, {"dtype", "f32"}};
  m["functions"]["rescale"] = {
      {"arena_bytes", 1 << 20},
      {"buffers", {buffer("arg", 0, {8}), buffer("result", 0, {8})}},
      {"args", {scales}},
      {"results", {scales}},
      {"commands",
       {{{"op", "copy"}, {"src", 0}, {"dst", 1}, {"bytes", 32}},
        {{"op", "fill"}, {"dst", 1}, {"bytes", 4}, {"byte", 3}}}}};
  Recorded gpu(pack(m, gpuKernels(), gpuConstants()));
  EXPECT_TRUE(contains(gpu.newLines(), "cuMemAlloc bytes=1048576\n"));
  gpu.run();
  std::vector<float> in(8), out(8);
  gpu.args = {in.data()};
  gpu.results = {out.data()};
  gpu.run("rescale");
  gpu.newLines();
  gpu.run("rescale");
  std::string lines = gpu.newLines();
  EXPECT_TRUE(contains(lines, "cuStreamBeginCapture\n"
                              "cuMemcpyDtoDAsync result0+0 from arg0+0 "
                              "bytes=32\n"
                              "cuMemsetD8Async result0+0 bytes=4 byte=3\n"
                              "cuStreamEndCapture nodes=2\n"));
  EXPECT_FALSE(contains(lines, "counters"));
}

TEST(Cuda, CubinFirstThenPtx) {
  std::string lines =
      Recorded(pack(gpuManifest(), gpuKernels(), gpuConstants(), "\177ELFxyz"))
          .newLines();
  EXPECT_LT(lines.find("cuModuleLoadDataEx cubin"),
            lines.find("cuModuleLoadDataEx ptx bytes="));
}

TEST(Cuda, KernelsThatDoNotFit) {
  auto error = [](const Json &manifest, const std::string &ptx) {
    return errorOf([&] {
      Recorded gpu(pack(manifest, ptx, gpuConstants()));
      gpu.run();
    });
  };
  Json m = gpuManifest();
  EXPECT_TRUE(contains(error(m, "this is no PTX"),
                       "the driver's compiler says: ptxas fatal"));
  m["functions"]["step"][0]["symbol"] = "cas";
  EXPECT_EQ(error(m, gpuKernels()), "the kernels section has no symbol 'cas'");
  m = gpuManifest();
  m["functions"]["step"][3]["bufs"] = {6, 2};
  EXPECT_TRUE(contains(error(m, gpuKernels()),
                       "cuLaunchKernel failed in kernel 'update' at "
                       "step/update"));
}

namespace {
/// The step of gpuManifest, with its second cast on another stream.
Json streamManifest() {
  auto event = [](const char *op, int stream) {
    return Json{{"op", op}, {"event", stream}, {"stream", stream}};
  };
  Json manifest = gpuManifest();
  Json old = manifest["functions"]["step"], step = Json::array();
  old[1]["stream"] = 1;
  step = {old[0],
          event("record", 0),
          old[1],
          event("record", 1),
          {{"op", "wait"}, {"event", 1}, {"stream", 0}},
          old[2],
          old[3]};
  manifest["functions"]["step"] = step;
  return manifest;
}

std::string withStreams(const Json &manifest) {
  return pack(manifest, gpuKernels(), gpuConstants());
}

constexpr const char *beside =
    "cuLaunchKernel cast grid=12 block=256 shared=0 "
    "args=[arg0+0,arena+3072,counters+48] stream=1\n";
} // namespace

TEST(Cuda, StreamsAreForkedAndJoinedInOneGraph) {
  Recorded gpu(withStreams(streamManifest()));
  gpu.run();
  std::string direct = gpu.newLines();
  gpu.run();
  std::string lines = gpu.newLines();
  size_t from = lines.find("cuStreamBeginCapture");
  std::string captured =
      lines.substr(from, lines.find("cuStreamEndCapture") - from);
  std::string plain = commands;
  size_t second = plain.find('\n') + 1, third = plain.find('\n', second) + 1;
  // The device joins by event 0 and forks by event 1; the plan's events follow.
  EXPECT_EQ(captured, "cuStreamBeginCapture\n" + std::string(zeroed) +
                          "cuEventRecord event1\n"
                          "cuStreamWaitEvent event1 stream=1\n" +
                          plain.substr(0, second) + "cuEventRecord event2\n" +
                          beside +
                          "cuEventRecord event3 stream=1\n"
                          "cuStreamWaitEvent event3\n" +
                          plain.substr(third) +
                          "cuEventRecord event0 stream=1\n"
                          "cuStreamWaitEvent event0\n");
  EXPECT_TRUE(contains(direct, beside));
  // Events are edges of the graph, not nodes.
  EXPECT_TRUE(contains(lines, "cuStreamEndCapture nodes=5\n"));
  gpu.run();
  EXPECT_FALSE(contains(gpu.newLines(), "Event"));
}

TEST(Cuda, TimedStepsRunOnOneStream) {
  Recorded gpu(withStreams(streamManifest()));
  gpu.exe->setProfiling(true);
  gpu.newLines();
  gpu.run();
  std::string lines = gpu.newLines();
  EXPECT_FALSE(contains(lines, "stream=1"));
  EXPECT_FALSE(contains(lines, "cuStreamWaitEvent"));
  EXPECT_EQ(gpu.exe->profile().size(), 7u);
}

TEST(Cuda, EventsAreRecordedBeforeTheyAreWaitedFor) {
  Json manifest = streamManifest();
  manifest["functions"]["step"][3]["event"] = 2;
  EXPECT_TRUE(
      contains(errorOf([&] { Recorded gpu(withStreams(manifest)); }),
               "waits for event 1, which no command before it records"));
  manifest = streamManifest();
  manifest["functions"]["step"][1]["event"] = 7;
  EXPECT_NE(errorOf([&] { Recorded gpu(withStreams(manifest)); }), "");
  manifest = streamManifest();
  manifest["functions"]["step"][2]["stream"] = 16;
  EXPECT_NE(errorOf([&] { Recorded gpu(withStreams(manifest)); }), "");
}

TEST(Cuda, RecordingRefusesStreamsThatAreNotJoined) {
  using namespace scalify::rt::cuda;
  RecordingDriver driver;
  StreamHandle first = nullptr, second = nullptr;
  EventHandle event = nullptr;
  GraphHandle graph = nullptr;
  DevicePtr memory = 0;
  driver.cuStreamCreate(&first, NonBlockingStream);
  driver.cuStreamCreate(&second, NonBlockingStream);
  driver.cuEventCreate(&event, UntimedEvent);
  driver.cuMemAlloc_v2(&memory, 64);
  EXPECT_EQ(driver.cuStreamWaitEvent(second, event, 0), InvalidValue);
  auto fill = [&](StreamHandle stream) {
    return driver.cuMemsetD8Async(memory, 0, 64, stream);
  };
  driver.cuStreamBeginCapture_v2(first, CaptureThreadLocal);
  EXPECT_EQ(fill(second), CaptureUnsupported); // not part of the capture yet
  driver.cuEventRecord(event, first);
  EXPECT_EQ(driver.cuStreamWaitEvent(second, event, 0), Success);
  EXPECT_EQ(fill(second), Success);
  EXPECT_EQ(driver.cuStreamEndCapture(first, &graph), CaptureUnjoined);
}
