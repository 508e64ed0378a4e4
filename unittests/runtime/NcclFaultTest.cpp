// Failures while GPUs exchange: named on all ranks, and never a hang.
#include "NcclRanks.h"
#include "support/Error.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
Json exchange(int64_t ranks) {
  Json all = Json::array({Json::array()});
  for (int64_t rank = 0; rank < ranks; ++rank)
    all[0].push_back(rank);
  return gpuCollective(collectiveOf("all_to_all", "none", all), 4, ranks);
}
} // namespace

TEST(NcclFault, EveryCallMayFail) {
  auto useAll = [](const std::shared_ptr<cuda::RecordingDriver> &driver) {
    GpuRank rank(exchange(1), nullptr, std::make_shared<cuda::Fabric>(),
                 driver);
    for (int i = 0; i < 2; ++i)
      rank.run();
  };
  auto counted = std::make_shared<cuda::RecordingDriver>();
  useAll(counted);
  uint64_t all = counted->callCount(), silent = 0;
  ASSERT_GT(all, 60u);
  for (uint64_t at = 0; at < all; ++at) {
    auto driver = std::make_shared<cuda::RecordingDriver>();
    driver->failAfter(at);
    std::string error = errorOf([&] { useAll(driver); });
    // A failure during destruction ends in an abort without a message.
    silent += error.empty();
    EXPECT_TRUE(error.empty() || contains(error, " failed")) << at << error;
    EXPECT_EQ(driver->alive(), 0u) << at << ": " << error;
    if (contains(error, "ncclSend"))
      EXPECT_TRUE(contains(error, "all_to_all 'x' at step/x: ncclSend failed: "
                                  "recorded failure (an error of the "
                                  "recording)"))
          << error;
  }
  EXPECT_LT(silent, 16u); // the number of calls of closing
}

TEST(NcclFault, ErrorsBesideCallsNameCollectiveAndStep) {
  GpuRank rank(exchange(1), nullptr, std::make_shared<cuda::Fabric>());
  rank.run();
  rank.driver->isStuck = true;
  rank.driver->ncclState = cuda::NcclRemoteError;
  EXPECT_EQ(errorOf([&] { rank.run(); }),
            "step 1, all_to_all 'x' at step/x: ncclGroupEnd failed: remote "
            "process exited or there was a network error (an error of the "
            "recording)");
  EXPECT_TRUE(contains(rank.driver->trace(), "ncclCommAbort comm1\n"
                                             "ncclCommAbort comm0\n"));
  rank.driver->ncclState = cuda::NcclSuccess;
  EXPECT_EQ(errorOf([&] { rank.run(); }),
            "NCCL's communicators were aborted when an earlier step failed; "
            "start all ranks anew");
  rank.exe.reset();
  EXPECT_EQ(rank.driver->alive(), 0u);
}

// A peer dies after everything is issued, and NCCL reports it.
TEST(NcclFault, ErrorsWhileTheGpuWorksEndTheWait) {
  struct Late {
    cuda::RecordingDriver *driver;
    int calls = 0;
  } late;
  ::setenv("SCALIFY_COMM_TIMEOUT", "5", 1);
  GpuRank rank(exchange(1), nullptr, std::make_shared<cuda::Fabric>());
  ::unsetenv("SCALIFY_COMM_TIMEOUT");
  late.driver = rank.driver.get();
  rank.driver->isStuck = true;
  auto poll = [](void *context) {
    auto *self = static_cast<Late *>(context);
    if (++self->calls == 2) // the first poll is in the call itself
      self->driver->ncclState = cuda::NcclRemoteError;
    return 0;
  };
  rank.exe->setPoll(poll, &late);
  EXPECT_EQ(errorOf([&] { rank.run(); }),
            "step 0, all_to_all 'x' at step/x: NCCL failed: remote process "
            "exited or there was a network error (an error of the recording)");
  EXPECT_TRUE(contains(rank.driver->trace(), "ncclCommAbort"));
}

TEST(NcclFault, WhatDoesNotEndIsLate) {
  ::setenv("SCALIFY_COMM_TIMEOUT", "0.2", 1);
  GpuRank rank(exchange(1), nullptr, std::make_shared<cuda::Fabric>());
  ::unsetenv("SCALIFY_COMM_TIMEOUT");
  rank.driver->isStuck = true;
  std::string error = errorOf([&] { rank.run(); });
  EXPECT_TRUE(contains(error, "step 0, all_to_all 'x' at step/x: NCCL is late: "
                              "nothing moved between ranks 0 for 0.2"))
      << error;
  EXPECT_TRUE(contains(rank.driver->trace(), "ncclCommAbort"));
}

TEST(NcclFault, AnInterruptEndsTheWait) {
  GpuRank rank(exchange(1), nullptr, std::make_shared<cuda::Fabric>());
  rank.driver->isStuck = true;
  rank.exe->setPoll([](void *) { return 1; }, nullptr);
  try {
    rank.run();
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.status, SCALIFY_RT_INTERRUPTED);
  }
}

// The rank fails before its exchange; the other rank's GPU waits for it.
TEST(NcclFault, OthersHearWhyAStepDidNotCome) {
  auto fabric = std::make_shared<cuda::Fabric>();
  auto body = [&](Communicator &comm) -> std::string {
    GpuRank rank(exchange(2), &comm, fabric);
    rank.run();
    if (comm.rank() == 1)
      rank.driver->failAfter(1);
    return errorOf([&] { rank.run(); });
  };
  std::vector<std::string> texts = scalify::test::runThreads(2, body);
  EXPECT_TRUE(contains(texts[1], " failed")) << texts[1];
  EXPECT_TRUE(contains(texts[0], "rank 1 stopped: " + texts[1])) << texts[0];
  EXPECT_TRUE(contains(texts[0], "step 1")) << texts[0];
}

TEST(NcclFault, RanksMustHaveTheSameCollectives) {
  auto fabric = std::make_shared<cuda::Fabric>();
  auto body = [&](Communicator &comm) {
    Json m = comm.rank() == 1
                 ? gpuCollective(collectiveOf("all_gather", "none", {{0}, {1}}),
                                 4, 2)
                 : exchange(2);
    return errorOf([&] { GpuRank rank(m, &comm, fabric); });
  };
  for (const std::string &text : scalify::test::runThreads(2, body))
    EXPECT_TRUE(contains(text, "rank 1 has loaded another step than rank 0: it "
                               "exchanges something else"))
        << text;
}

// A rank that cannot open NCCL tells the ranks that wait for it.
TEST(NcclFault, OthersHearWhyARankDoesNotConnect) {
  auto fabric = std::make_shared<cuda::Fabric>();
  auto body = [&](Communicator &comm) {
    auto driver = std::make_shared<cuda::RecordingDriver>();
    driver->ncclVersion = comm.rank() == 1 ? 21700 : 23200;
    return errorOf([&] { GpuRank rank(exchange(2), &comm, fabric, driver); });
  };
  std::vector<std::string> texts = scalify::test::runThreads(2, body);
  EXPECT_TRUE(contains(texts[0], "rank 1 stopped: NCCL is version 21700"))
      << texts[0];
}
