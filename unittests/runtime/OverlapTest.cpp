// Collectives concurrent with computation: on a thread of their own, with the
// bits and the errors of one thread.
#include "CommRanks.h"
#include "TestArtefact.h"

#include "loader/Executable.h"
#include "support/Error.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

using namespace scalify;
using namespace scalify::test;
using rt::test::Json;

namespace {
constexpr int64_t n = 64;

/// The first of four ranks, whose collectives run a test's script.
class ScriptedCommunicator : public rt::Communicator {
public:
  int32_t rank() const override { return 0; }
  int32_t size() const override { return 4; }
  void beginStep(uint64_t, uint64_t) override { isInterrupted = false; }
  void run(const rt::Collective &collective, const void *source,
           void *destination) override {
    // At load all ranks compare their steps: the others have this rank's.
    if (collective.kind == rt::Collective::Kind::AllGather)
      return repeat(collective, source, destination);
    thread = std::this_thread::get_id();
    script(static_cast<const float *>(source),
           static_cast<float *>(destination));
  }
  uint64_t bytesSent() const override { return 0; }
  void interrupt(const char *) noexcept override { isInterrupted = true; }

  std::function<void(const float *, float *)> script;
  std::atomic<bool> isInterrupted{false};
  std::thread::id thread;
};

struct Step {
  explicit Step(rt::Communicator &comm, const Json &manifest)
      : artefact(rt::test::pack(manifest, rt::test::kernels(), "")),
        executable(
            rt::Image::fromMemory(artefact.data(), artefact.size()),
            [](const rt::Program &) { return rt::makeCpuDevice(1); }, &comm) {}

  void run() {
    void *args[] = {x.data()};
    void *results[] = {beside.data(), whole.data()};
    executable.run("step", args, 1, results, 2);
  }
  rt::Error errorOfRun() {
    try {
      run();
    } catch (const rt::Error &error) {
      return error;
    }
    return rt::Error(SCALIFY_RT_OK, "");
  }

  std::string artefact;
  rt::Executable executable;
  std::vector<float> x = std::vector<float>(n, 1);
  std::vector<float> beside = std::vector<float>(n, 0);
  std::vector<float> whole = std::vector<float>(n, 0);
};

/// True once another thread's kernel has written `value` there. The kernel runs
/// concurrently with the caller, which these tests check.
bool comesTo(const float &place, float value) {
  for (int i = 0; i < 5000; ++i) {
    float now;
    __atomic_load(&place, &now, __ATOMIC_RELAXED);
    if (now == value)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

void copyParts(const float *source, float *destination) {
  std::copy(source, source + n, destination);
}
} // namespace

TEST(Overlap, RanksHaveTheSumsOfOneThread) {
  auto body = [&](rt::Communicator &comm) -> std::string {
    Step step(comm, rt::test::overlapManifest(n));
    for (int count = 1; count <= 50; ++count) {
      step.x.assign(n, static_cast<float>(count * (comm.rank() + 1)));
      step.run();
      std::vector<float> beside(n, 3 * step.x[0]);
      std::vector<float> whole(n, static_cast<float>(20 * count) + step.x[0]);
      if (step.beside != beside || step.whole != whole)
        return "wrong result in step " + std::to_string(count);
    }
    return "";
  };
  for (const std::string &text : runThreads(4, body))
    EXPECT_EQ(text, "");
}

TEST(Overlap, ComputesWhileACollectiveIsUnderWay) {
  ScriptedCommunicator comm;
  Step step(comm, rt::test::overlapManifest(n));
  bool isBeside = false, isEarly = true;
  comm.script = [&](const float *source, float *destination) {
    // Its source was computed before, and its consumer waits.
    isBeside = source[n - 1] == 2 && comesTo(step.beside[n - 1], 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    float now;
    __atomic_load(&step.whole[0], &now, __ATOMIC_RELAXED);
    isEarly = now == 3;
    copyParts(source, destination);
  };
  step.executable.setProfiling(true);
  step.run();
  EXPECT_TRUE(isBeside);
  EXPECT_FALSE(isEarly);
  EXPECT_EQ(step.whole, std::vector<float>(n, 3));
  EXPECT_NE(comm.thread, std::this_thread::get_id());
  // The collective's time is that of its thread.
  const auto &rows = step.executable.profile();
  EXPECT_EQ(rows[3].time.calls, 1u);
  EXPECT_GE(rows[3].time.nanoseconds, 20000000u);
}

TEST(Overlap, ACollectiveOfTheFirstStreamIsTheCaller_s) {
  ScriptedCommunicator comm;
  Json manifest = rt::test::overlapManifest(n);
  Json &commands = manifest["functions"]["step"];
  // Events are unnecessary here, and harmless.
  commands[2]["stream"] = commands[3]["stream"] = commands[4]["stream"] = 0;
  Step step(comm, manifest);
  comm.script = copyParts;
  step.run();
  EXPECT_EQ(step.whole, std::vector<float>(n, 3));
  EXPECT_EQ(comm.thread, std::this_thread::get_id());
}

TEST(Overlap, AnErrorOfACollectiveEndsTheStep) {
  ScriptedCommunicator comm;
  Step step(comm, rt::test::overlapManifest(n));
  for (bool isLate : {false, true}) {
    comm.script = [&](const float *, float *) {
      if (isLate)
        comesTo(step.beside[0], 3);
      throw rt::Error(SCALIFY_RT_COMM, "rank 2 died");
    };
    rt::Error error = step.errorOfRun();
    EXPECT_EQ(error.status, SCALIFY_RT_COMM);
    EXPECT_STREQ(error.what(), "rank 2 died");
    EXPECT_NE(step.whole[0], 3);
    step.beside.assign(n, 0);
  }
  comm.script = copyParts;
  step.run();
  EXPECT_EQ(step.whole, std::vector<float>(n, 3));
}

TEST(Overlap, ARankThatDiesEndsTheStep) {
  std::atomic<int> started = 0;
  auto body = [&](rt::Communicator &comm) -> std::string {
    Step step(comm, rt::test::overlapManifest(n));
    step.run();
    ++started;
    if (comm.rank() == 2) {
      while (started < 4) // else some hear of it in the step before
        std::this_thread::yield();
      comm.abort("no more");
      return "";
    }
    rt::Error error = step.errorOfRun();
    return std::to_string(error.status) + error.what();
  };
  std::vector<std::string> texts = runThreads(4, body);
  for (size_t rank : {0, 1, 3}) {
    EXPECT_EQ(texts[rank].find(std::to_string(SCALIFY_RT_COMM)), 0u);
    EXPECT_NE(texts[rank].find("step 1, all_reduce 'sum': rank 2 stopped"),
              std::string::npos)
        << texts[rank];
  }
}

TEST(Overlap, AnInterruptEndsTheCollective) {
  ScriptedCommunicator comm;
  Step step(comm, rt::test::overlapManifest(n));
  comm.script = [&](const float *, float *) {
    for (int i = 0; i < 10000 && !comm.isInterrupted; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw rt::Error(SCALIFY_RT_COMM, "of no interest");
  };
  step.executable.setPoll([](void *) { return 1; }, nullptr);
  EXPECT_EQ(step.errorOfRun().status, SCALIFY_RT_INTERRUPTED);
  EXPECT_TRUE(comm.isInterrupted);
}

TEST(Overlap, ACommunicatorIsInterruptedFromAnotherThread) {
  auto body = [&](rt::Communicator &comm) -> std::string {
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return "";
    }
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      comm.interrupt("a kernel failed");
    });
    rt::Collective all;
    all.elements = n;
    all.members = {0, 1};
    std::vector<float> data(n);
    rt::Error error(SCALIFY_RT_OK, "");
    try {
      comm.run(all, data.data(), data.data());
    } catch (const rt::Error &thrown) {
      error = thrown;
    }
    other.join();
    return std::to_string(error.status) + " " + error.what();
  };
  EXPECT_EQ(runThreads(2, body)[0],
            std::to_string(SCALIFY_RT_INTERRUPTED) +
                " step 0, all_reduce '': a kernel failed");
}

TEST(Overlap, OthersHearWhyAStepEndedBesideItsCollective) {
  auto body = [&](rt::Communicator &comm) -> std::string {
    Step step(comm, rt::test::overlapManifest(n));
    if (comm.rank() == 1)
      step.executable.setPoll([](void *) { return 1; }, nullptr);
    else // until rank 1 waits for these
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return step.errorOfRun().what();
  };
  std::vector<std::string> texts = runThreads(4, body);
  for (size_t rank : {0, 2, 3})
    EXPECT_NE(texts[rank].find("rank 1 stopped: "), std::string::npos)
        << texts[rank];
  for (const std::string &text : texts)
    EXPECT_NE(text.find("the run was interrupted"), std::string::npos) << text;
}

TEST(Overlap, ACpuComputesOnTheFirstStreamAlone) {
  ScriptedCommunicator comm;
  Json manifest = rt::test::overlapManifest(n);
  manifest["functions"]["step"][5]["stream"] = 1;
  try {
    Step step(comm, manifest);
    FAIL();
  } catch (const rt::Error &error) {
    EXPECT_NE(std::string(error.what()).find("a CPU runs nothing else"),
              std::string::npos)
        << error.what();
  }
}
