// A slow link: the same data, no sooner than the link allows.
#include "CommChecks.h"
#include "CommRanks.h"
#include "comm/SlowLink.h"
#include "scalify/comm.h"
#include "support/Error.h"

#include <chrono>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace scalify::rt;
using namespace scalify::test;
using testing::HasSubstr;

namespace {
/// Returns the texts of two ranks on such a link.
std::vector<std::string> runSlow(const std::string &link, const Body &body) {
  std::string job = freshJob();
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      try {
        auto slow = makeSlowCommunicator(joinLocal(job, rank, 2),
                                         parseLink(link), nullptr, nullptr);
        texts[size_t(rank)] = body(*slow);
      } catch (const Error &error) {
        texts[size_t(rank)] = std::to_string(error.status) + " " + error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return texts;
}

void gather(Communicator &comm, int64_t elements) {
  Collective c;
  c.kind = Collective::Kind::AllGather;
  c.type = DType::U8;
  c.elements = elements;
  c.members = {0, 1};
  c.name = "slow";
  std::vector<uint8_t> source(size_t(elements), uint8_t(comm.rank() + 1)),
      result(size_t(2 * elements));
  comm.run(c, source.data(), result.data());
  EXPECT_EQ(result.front(), 1);
  EXPECT_EQ(result.back(), 2);
}

double secondsOf(const std::function<void()> &work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

TEST(CommLink, DataAreThoseOfAFastLink) {
  for (const std::string &text :
       runSlow("latency=1e-6,jitter=1,straggler=3:2,seed=7", checkGroups))
    EXPECT_EQ(text, "");
}

TEST(CommLink, CollectivesTakeAsLongAsTheLink) {
  // 0.01 s and 1,000 bytes at 50,000 per second, every third 4 times as long.
  auto plain = runSlow(
      "bandwidth=5e4,latency=0.01,straggler=3:4", [](Communicator &comm) {
        EXPECT_GE(secondsOf([&] { gather(comm, 1000); }), 0.03);
        EXPECT_GE(secondsOf([&] { gather(comm, 1000); }), 0.03);
        EXPECT_GE(secondsOf([&] { gather(comm, 1000); }), 0.12);
        EXPECT_EQ(comm.bytesSent(), 3000u);
        return "";
      });
  // On average 1 + jitter / 2 times as long, 0.12 s; all seeds but one in
  // millions give at least half of that.
  auto unsteady =
      runSlow("latency=0.001,jitter=10,seed=3", [](Communicator &comm) {
        EXPECT_GE(secondsOf([&] {
                    for (int i = 0; i < 20; ++i)
                      gather(comm, 1);
                  }),
                  0.06);
        return "";
      });
  EXPECT_EQ(plain, std::vector<std::string>(2));
  EXPECT_EQ(unsteady, std::vector<std::string>(2));
}

TEST(CommLink, ThePollEndsTheSleep) {
  // Not at once, so that the poll ends the sleep and not the exchange.
  auto start = std::chrono::steady_clock::now();
  auto isOver = [](void *start) {
    return int(
        std::chrono::steady_clock::now() -
            *static_cast<std::chrono::steady_clock::time_point *>(start) >
        std::chrono::milliseconds(200));
  };
  auto texts = runSlow("latency=1000", [&](Communicator &comm) {
    comm.setPoll(isOver, &start);
    gather(comm, 1);
    return "";
  });
  for (const std::string &text : texts)
    EXPECT_THAT(text, HasSubstr("6 step 0, all_gather 'slow': interrupted"));
}

TEST(CommLink, AnInterruptEndsTheSleep) {
  auto texts = runSlow("latency=1000", [](Communicator &comm) {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      comm.interrupt("enough of it");
    });
    try {
      gather(comm, 1);
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
    return "";
  });
  for (const std::string &text : texts)
    EXPECT_THAT(text, HasSubstr("6 step 0, all_gather 'slow': enough of it"));
}

TEST(CommLink, WhatCannotBeReadIsNamed) {
  auto textOf = [](const char *link) -> std::string {
    ::setenv("SCALIFY_COMM_LINK", link, 1);
    scalify_rt_comm_options options = {};
    options.transport = "local";
    options.size = 1;
    std::string job = freshJob();
    options.job = job.c_str();
    scalify_rt_comm *comm = nullptr;
    scalify_rt_status status = scalify_rt_comm_open(&options, &comm);
    ::unsetenv("SCALIFY_COMM_LINK");
    scalify_rt_comm_free(comm);
    return status == SCALIFY_RT_OK ? "" : scalify_rt_last_error();
  };
  EXPECT_EQ(textOf("bandwidth=2e8,latency=1e-4,jitter=0.5,straggler=20:8"), "");
  EXPECT_EQ(textOf(""), "");
  EXPECT_THAT(textOf("bandwith=1"), HasSubstr("'bandwith' is none of"));
  EXPECT_THAT(textOf("bandwidth=0"), HasSubstr("a bandwidth of 0"));
  EXPECT_THAT(textOf("latency=-1"),
              HasSubstr("'-1' of latency is not a number"));
  EXPECT_THAT(textOf("latency=1,"), HasSubstr("'' is none of"));
  EXPECT_THAT(textOf("jitter=nan"), HasSubstr("'nan' of jitter"));
  EXPECT_THAT(textOf("seed=1.5"), HasSubstr("not a whole number"));
  EXPECT_THAT(textOf("straggler=8"), HasSubstr("not every:factor"));
  EXPECT_THAT(textOf("straggler=0:8"), HasSubstr("two numbers of at least 1"));
}
} // namespace
