// Ranks that die, are late, abort, or send unexpected messages: every other
// rank names the culprit, with the collective and the step, and none hangs.
#include "CommRanks.h"
#include "Damaging.h"
#include "comm/TransportCommunicator.h"
#include "support/Error.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::test;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

namespace {
using Kind = Collective::Kind;
using Clock = std::chrono::steady_clock;

Collective among(std::vector<int32_t> members, Kind kind, int64_t elements,
                 const char *name) {
  Collective c;
  c.kind = kind;
  c.elements = elements;
  c.members = std::move(members);
  c.name = name;
  return c;
}

std::vector<int32_t> everyone(const Communicator &comm) {
  std::vector<int32_t> all(static_cast<size_t>(comm.size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Runs the collective on memory of its own.
void run(Communicator &comm, const Collective &c) {
  size_t count = c.members.empty() ? 1 : c.members.size();
  std::vector<float> source(size_t(c.elements), 1.0f);
  std::vector<float> result(size_t(c.elements) * count);
  comm.run(c, source.data(), result.data());
}

void allReduce(Communicator &comm, const char *name, int64_t elements = 1000) {
  run(comm, among(everyone(comm), Kind::AllReduce, elements, name));
}

std::string text(int32_t rank) { return "rank " + std::to_string(rank); }

/// A count in memory that forked ranks share with the test.
class SharedCount {
public:
  SharedCount()
      : memory(::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~SharedCount() { ::munmap(memory, sizeof(std::atomic<int>)); }
  SharedCount(const SharedCount &) = delete;
  SharedCount &operator=(const SharedCount &) = delete;
  std::atomic<int> &get() { return *static_cast<std::atomic<int> *>(memory); }

private:
  void *memory;
};

TEST(CommFault, KilledRanksAreNamedByAllOthers) {
  for (int turn = 0; turn < 20; ++turn) {
    int32_t size = 2 + turn % 4;
    int32_t victim = turn * 7 % size;
    SharedCount joined;
    Processes ranks(size, [&](Communicator &comm) -> std::string {
      allReduce(comm, "first");
      ++joined.get();
      // Every third message is longer than the rings: the rank dies within
      // messages.
      for (uint64_t step = 0;; ++step) {
        comm.beginStep(step, 0);
        allReduce(comm, "grads", step % 3 ? 100 : 200'000);
      }
    });
    while (joined.get() < size)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(
        std::chrono::microseconds(turn * 7919 % 20'000));
    ::kill(ranks.process(victim), SIGKILL);
    Clock::time_point killed = Clock::now();
    std::vector<std::string> texts = ranks.wait();
    // At once, within 0.1 s, if ranks get to run; longer on a busy machine.
    EXPECT_LT(Clock::now() - killed, std::chrono::seconds(2));
    for (int32_t rank = 0; rank < size; ++rank)
      if (rank == victim)
        EXPECT_EQ(texts[size_t(rank)], "killed by signal 9");
      else
        EXPECT_THAT(texts[size_t(rank)],
                    AllOf(HasSubstr("step "), HasSubstr(", all_reduce '"),
                          HasSubstr(text(victim) + " died (process ")));
  }
  for (const auto &entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_THAT(entry.path().string(), testing::Not(HasSubstr("scalify")));
}

TEST(CommFault, LateRanksAreNamedByThoseWhoWaitForOthers) {
  // Rank 1 waits for 3, and 0 for 2; only 2 is late.
  auto body = [](Communicator &comm) -> std::string {
    comm.beginStep(4, 0);
    int32_t rank = comm.rank();
    if (rank == 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    run(comm, among(rank < 2 ? std::vector<int32_t>{0, 1}
                             : std::vector<int32_t>{2, 3},
                    Kind::AllGather, 10, "pairs"));
    run(comm, among(rank % 2 ? std::vector<int32_t>{1, 3}
                             : std::vector<int32_t>{0, 2},
                    Kind::AllReduce, 10, "across"));
    return "";
  };
  std::vector<std::string> texts = runProcesses(4, body, 0.4);
  for (size_t rank : {0, 1, 3}) {
    EXPECT_THAT(texts[rank], HasSubstr("rank 2 is late: nothing came for "));
    EXPECT_THAT(texts[rank], AnyOf(HasSubstr("step 4, all_gather 'pairs'"),
                                   HasSubstr("step 4, all_reduce 'across'")));
  }
  EXPECT_THAT(texts[2], HasSubstr(" stopped: step 4, "));
}

TEST(CommFault, RanksHearWhyAnotherGaveUp) {
  Clock::time_point start = Clock::now();
  std::vector<std::string> texts =
      runThreads(3, [](Communicator &comm) -> std::string {
        allReduce(comm, "first");
        if (comm.rank() == 1)
          comm.abort("a weight is NaN");
        allReduce(comm, "second");
        return "";
      });
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  // Rank 2 may still be in the first collective when rank 1 aborts.
  for (size_t rank : {0, 2})
    EXPECT_THAT(texts[rank], AllOf(HasSubstr("step 0, all_reduce '"),
                                   HasSubstr("': rank 1 stopped: a weight is "
                                             "NaN")));
  EXPECT_EQ(texts[1], "a weight is NaN");
}

TEST(CommFault, RanksThatCloseEarlyAreNamed) {
  std::vector<std::string> texts =
      runThreads(2, [](Communicator &comm) -> std::string {
        if (comm.rank() == 0)
          allReduce(comm, "alone");
        return "";
      });
  EXPECT_EQ(texts[0], "step 0, all_reduce 'alone': rank 1 has closed its "
                      "communicator");
}

TEST(CommFault, WhatIsSentBeforeClosingArrives) {
  std::vector<std::string> texts =
      runProcesses(2, [](Communicator &comm) -> std::string {
        Collective c = among({}, Kind::Permute, 1000, "last words");
        (comm.rank() ? c.to : c.from) = comm.rank() ? 0 : 1;
        if (comm.rank() == 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        run(comm, c);
        return "";
      });
  EXPECT_EQ(texts[0], "");
  EXPECT_EQ(texts[1], "");
}

/// Returns the error texts of two ranks that run different collectives.
std::vector<std::string> runDifferent(const Collective &zero,
                                      const Collective &one) {
  return runThreads(2, [&](Communicator &comm) -> std::string {
    run(comm, comm.rank() ? one : zero);
    return "";
  });
}

TEST(CommFault, RanksThatDisagreeSayHow) {
  Collective sum = among({0, 1}, Kind::AllReduce, 64, "y");
  Collective gather = among({0, 1}, Kind::AllGather, 32, "x");
  // The rank that looks first reports it; the other passes it on.
  EXPECT_THAT(
      runDifferent(sum, gather)[0],
      AnyOf(HasSubstr("rank 1 sent 128 bytes of all_gather 'x' (32 f32, step "
                      "0) where rank 0 expects 128 bytes of all_reduce 'y' "
                      "(sum of 64 f32, step 0)"),
            HasSubstr("rank 0 sent 128 bytes of all_reduce 'y'")));
  Collective longer = gather;
  longer.elements = 48;
  EXPECT_THAT(runDifferent(gather, longer)[1],
              AnyOf(HasSubstr("sent 128 bytes of all_gather"),
                    HasSubstr("sent 192 bytes of all_gather")));
  Collective other = gather;
  other.members = {1, 0};
  EXPECT_THAT(runDifferent(gather, other)[0],
              HasSubstr("differ in the members or the name"));
  other = sum;
  other.join = Join::Max;
  EXPECT_THAT(runDifferent(sum, other)[0], HasSubstr("max of 64 f32"));
}

TEST(CommFault, StepsMustAgree) {
  std::vector<std::string> texts =
      runThreads(2, [](Communicator &comm) -> std::string {
        comm.beginStep(uint64_t(comm.rank()) + 7, 0);
        allReduce(comm, "grads");
        return "";
      });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("step 7"), HasSubstr("step 8")));
}

TEST(CommFault, ProgramsOfAStepMustAgree) {
  std::vector<std::string> texts =
      runThreads(2, [](Communicator &comm) -> std::string {
        comm.beginStep(7, uint64_t(comm.rank()));
        allReduce(comm, "grads");
        return "";
      });
  EXPECT_THAT(texts[0],
              HasSubstr("rank 1 runs another program than rank 0 in "));
}

TEST(CommFault, DamagedChunksAreNamed) {
  std::string job = freshJob();
  std::vector<std::string> texts(3);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      scalify_transport transport = openLocal(job, rank, 3, 20);
      if (rank == 2)
        transport = Damaging::wrap(transport);
      auto comm = makeCommunicator(transport, {20, nullptr, nullptr});
      try {
        allReduce(*comm, "fine");
        comm->beginStep(1, 0);
        allReduce(*comm, "torn");
        // Ranks that did not receive the damaged chunk may get this far.
        allReduce(*comm, "after");
      } catch (const std::exception &error) {
        texts[size_t(rank)] = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &text : texts)
    EXPECT_THAT(text, HasSubstr("step 1, all_reduce 'torn': a chunk of rank 2 "
                                "is damaged"));
}

TEST(CommFault, WaitingCanBeInterrupted) {
  std::vector<std::string> texts =
      runThreads(2, [](Communicator &comm) -> std::string {
        if (comm.rank() == 0) {
          comm.setPoll([](void *) { return 1; }, nullptr);
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
        }
        try {
          allReduce(comm, "long");
        } catch (const Error &error) {
          return std::to_string(error.status) + " " + error.what();
        }
        return "";
      });
  EXPECT_EQ(texts[0], "6 step 0, all_reduce 'long': interrupted");
  EXPECT_THAT(texts[1], HasSubstr("rank 0 stopped: "));
}

TEST(CommFault, CollectivesThatCannotBeAreRefused) {
  for (const std::string &found :
       runThreads(2, [](Communicator &comm) -> std::string {
         Collective c = among({0, 0}, Kind::AllGather, 4, "twice");
         std::vector<float> memory(16);
         comm.run(c, memory.data(), memory.data());
         return "";
       }))
    EXPECT_THAT(found, HasSubstr("rank 0 cannot be in a group of 2 ranks"));
}

/// Returns the error texts of two ranks that are started in these ways.
std::vector<std::string> joinAs(int32_t size0, int32_t rank1, int32_t size1,
                                double seconds) {
  std::string job = freshJob();
  std::vector<std::string> texts(2);
  auto join = [&](size_t i, int32_t rank, int32_t size) {
    try {
      scalify_transport transport = openLocal(job, rank, size, seconds);
      transport.close(transport.self);
    } catch (const Error &error) {
      texts[i] = error.what();
    }
  };
  std::thread other([&] { join(1, rank1, size1); });
  join(0, 0, size0);
  other.join();
  return texts;
}

TEST(CommFault, RanksThatCannotJoinSayWhy) {
  EXPECT_THAT(joinAs(2, 1, 3, 20),
              testing::Each(HasSubstr("a rank was started as one of 3, rank 0 "
                                      "as one of 2")));
  EXPECT_THAT(joinAs(3, 1, 3, 0.2)[0],
              testing::AllOf(HasSubstr("rank 2 has not joined job 'test-"),
                             HasSubstr("' within 0.200 s")));
  EXPECT_THAT(joinAs(3, 1, 3, 0.2)[1], HasSubstr("rank 0"));
  EXPECT_THAT(joinAs(1, 1, 2, 0.2)[1], HasSubstr("rank 0 has not opened job"));
}

TEST(CommFault, AStoppedRankZeroKeepsNobodyWaiting) {
  std::string job = freshJob();
  pid_t process = ::fork();
  if (process == 0) {
    openLocal(job, 0, 3, 60);
    ::_exit(0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ::kill(process, SIGSTOP);
  std::string text;
  try {
    openLocal(job, 1, 3, 0.2);
  } catch (const Error &error) {
    text = error.what();
  }
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  EXPECT_THAT(text, HasSubstr("rank 0 has not answered in job"));
}
} // namespace
