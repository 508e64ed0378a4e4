// Ranks over TCP: their rendezvous, their exchanges, and the rank that is named
// after a failure.
#include "CommChecks.h"
#include "CommRanks.h"
#include "NcclRanks.h"
#include "comm/TransportCommunicator.h"
#include "comm/tcp/Sockets.h"
#include "comm/tcp/TcpTransport.h"
#include "support/Error.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::test;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

namespace {
std::string freePlace() {
  File file = tcp::listenAt("127.0.0.1", 0, 1);
  return "127.0.0.1:" + std::to_string(tcp::portOf(file));
}

/// Returns a file name that no other test has.
std::string freshFile() {
  return (std::filesystem::temp_directory_path() / freshJob()).string();
}

std::unique_ptr<Communicator> join(const std::string &place,
                                   const std::string &job, int32_t rank,
                                   int32_t size, double joining = 20,
                                   double seconds = 20) {
  scalify_transport_options options = {};
  options.version = SCALIFY_TRANSPORT_VERSION;
  options.rank = rank;
  options.size = size;
  options.job = job.c_str();
  options.wait.seconds = joining;
  return makeCommunicator(tcp::open(options, meetAt(place)),
                          {seconds, nullptr, nullptr});
}

/// Returns the text that each rank returned or threw.
std::vector<std::string> run(const std::string &place, int32_t size,
                             const Body &body, double seconds = 20) {
  std::string job = freshJob();
  std::vector<std::string> texts(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      texts[size_t(rank)] = scalify::rt::test::errorOf([&] {
        std::string text = body(*join(place, job, rank, size, 20, seconds));
        if (!text.empty())
          throw Error(SCALIFY_RT_COMM, text);
      });
    });
  for (std::thread &thread : threads)
    thread.join();
  return texts;
}

void allReduce(Communicator &comm, const char *name, int64_t elements = 1000) {
  Collective c;
  c.elements = elements;
  c.members.resize(size_t(comm.size()));
  std::iota(c.members.begin(), c.members.end(), 0);
  c.name = name;
  std::vector<float> source(size_t(elements), 1.0f), result = source;
  comm.run(c, source.data(), result.data());
}

TEST(CommTcp, RanksGetWhatAPlainComputationGives) {
  for (int32_t size : {1, 2, 3, 8})
    EXPECT_THAT(run(freePlace(), size, checkSmall), Each(""));
  EXPECT_THAT(run(freePlace(), 3, checkLong), Each(""));
}

TEST(CommTcp, RanksMeetByAFile) {
  std::string file = freshFile();
  // Twice with the same name: the file is removed when all ranks have joined.
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_THAT(run("file:" + file, 3, checkGroups), Each(""));
    EXPECT_FALSE(std::filesystem::exists(file));
  }
}

// Ranks of GPUs meet in this way to exchange NCCL's id.
TEST(CommTcp, TheIdOfNcclTravels) {
  auto fabric = std::make_shared<cuda::Fabric>();
  scalify::rt::test::Json step = scalify::rt::test::gpuCollective(
      scalify::rt::test::collectiveOf("all_gather", "none", {{0, 1}}), 8, 2);
  auto body = [&](Communicator &comm) -> std::string {
    scalify::rt::test::GpuRank rank(step, &comm, fabric);
    rank.run({1, 2, 3, float(comm.rank())});
    return rank.y == std::vector<float>{1, 2, 3, 0, 1, 2, 3, 1} ? "" : "wrong";
  };
  EXPECT_THAT(run(freePlace(), 2, body), Each(""));
}

TEST(CommTcp, RanksThatCannotJoinSayWhy) {
  std::string place = freePlace(), job = freshJob();
  auto joinOf = [&](int32_t rank, int32_t size, double seconds,
                    const std::string &at, const std::string &of) {
    return scalify::rt::test::errorOf(
        [&] { join(at, of, rank, size, seconds); });
  };
  EXPECT_THAT(joinOf(2, 3, 0.2, place, job),
              AllOf(HasSubstr("rank 2 cannot reach rank 0 at " + place +
                              " within 0.200 s: Connection refused"),
                    HasSubstr("name another HOST:PORT")));
  EXPECT_THAT(joinOf(1, 2, 0.2, "file:" + freshFile(), job),
              HasSubstr("within 0.200 s: the file does not exist"));
  EXPECT_THAT(joinOf(1, 2, 0.2, "nowhere", job),
              HasSubstr("is 'nowhere', not HOST:PORT"));
  std::string other;
  std::thread first([&] { other = joinOf(1, 3, 20, place, job); });
  EXPECT_THAT(joinOf(0, 3, 3, place, job),
              HasSubstr("rank 2 has not joined job '" + job + "' at " + place +
                        " within 3.000 s"));
  first.join();
  EXPECT_THAT(other, HasSubstr("rank 0 stopped: rank 2 has not joined job"));
}

TEST(CommTcp, OtherJobsAreTurnedAway) {
  std::string place = freePlace(), job = freshJob(), stranger;
  std::thread host([&] { join(place, job, 0, 2); });
  stranger = scalify::rt::test::errorOf([&] { join(place, "another", 1, 2); });
  join(place, job, 1, 2);
  host.join();
  EXPECT_THAT(stranger, HasSubstr("rank 0 at " + place +
                                  " is of another job than 'another' of rank "
                                  "1; name another HOST:PORT"));
}

TEST(CommTcp, StaleFilesAreRefused) {
  std::string file = freshFile();
  auto joinOf = [&](int32_t rank, const std::string &job) {
    return scalify::rt::test::errorOf(
        [&] { join("file:" + file, job, rank, 2, 0.2); });
  };
  std::ofstream(file) << "scalify 1 localhost 5 -\n";
  EXPECT_THAT(joinOf(0, "a"), HasSubstr("rank 0 finds the file '" + file +
                                        "', which another launch has left"));
  EXPECT_THAT(joinOf(1, "a"), AllOf(HasSubstr("rank 1 finds the file '" + file +
                                              "' of another job than 'a'"),
                                    HasSubstr("remove it")));
  std::ofstream(file) << "notes\n";
  EXPECT_THAT(joinOf(1, "a"), HasSubstr("which rank 0 did not write"));
  std::filesystem::remove(file);
  // A rank 0 that times out removes its file.
  EXPECT_THAT(joinOf(0, "a"), HasSubstr("rank 1 has not joined job 'a'"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(CommTcp, KilledRanksAreNamedByAllOthers) {
  std::string place = freePlace(), job = freshJob();
  auto train = [&](int32_t rank) {
    auto comm = join(place, job, rank, 3);
    for (uint64_t step = 0;; ++step) {
      comm->beginStep(step, 0);
      // It dies within messages that are longer than the sockets' buffers.
      if (rank == 2 && step == 2)
        std::thread([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          ::kill(::getpid(), SIGKILL);
        }).detach();
      allReduce(*comm, "grads", 2'000'000);
    }
  };
  pid_t process = ::fork();
  if (process == 0) {
    scalify::rt::test::errorOf([&] { train(2); });
    ::_exit(1);
  }
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (int32_t rank : {0, 1})
    threads.emplace_back([&, rank] {
      texts[size_t(rank)] = scalify::rt::test::errorOf([&] { train(rank); });
    });
  for (std::thread &thread : threads)
    thread.join();
  ::waitpid(process, nullptr, 0);
  EXPECT_THAT(texts, Each(AllOf(HasSubstr(", all_reduce 'grads': "),
                                HasSubstr("rank 2 died (process " +
                                          std::to_string(process) + " on "))));
}

TEST(CommTcp, LateRanksAreNamedByThoseWhoWaitForOthers) {
  // Rank 0 waits for 1, and 1 for 2, which is late until both have timed out.
  std::atomic<int> waiting{2};
  auto body = [&](Communicator &comm) -> std::string {
    Collective c;
    c.kind = Collective::Kind::Permute;
    c.elements = 10;
    c.name = "chain";
    c.to = comm.rank() - 1;
    c.from = comm.rank() < 2 ? comm.rank() + 1 : -1;
    std::vector<float> source(10), result(10);
    for (int turn = 0; comm.rank() == 2 && waiting && turn < 2000; ++turn)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::string text = scalify::rt::test::errorOf([&] {
      if (comm.rank() == 1) {
        // Rank 1 passes data from 2 on to 0.
        c.to = -1;
        comm.run(c, source.data(), result.data());
        c.to = 0;
        c.from = -1;
      }
      comm.run(c, source.data(), result.data());
    });
    --waiting;
    return text;
  };
  std::vector<std::string> texts = run(freePlace(), 3, body, 2);
  for (size_t rank : {0, 1})
    EXPECT_THAT(texts[rank], HasSubstr("rank 2 is late"));
}

TEST(CommTcp, RanksHearWhyAnotherGaveUp) {
  // A rank that aborts while others are in the first collective is heard there.
  std::atomic<int> left{3};
  auto body = [&](Communicator &comm) -> std::string {
    allReduce(comm, "first");
    for (--left; comm.rank() == 1 && left;)
      std::this_thread::yield();
    comm.beginStep(3, 0);
    if (comm.rank() == 1)
      comm.abort("a weight is NaN");
    else
      allReduce(comm, "grads", 500'000);
    return "";
  };
  std::vector<std::string> texts = run(freePlace(), 3, body);
  for (size_t rank : {0, 2})
    EXPECT_EQ(texts[rank], "step 3, all_reduce 'grads': rank 1 stopped: a "
                           "weight is NaN");
}

TEST(CommTcp, OtherSizesAreTold) {
  auto body = [](Communicator &comm) -> std::string {
    allReduce(comm, comm.rank() ? "x" : "y", comm.rank() ? 100 : 300);
    return "";
  };
  std::vector<std::string> texts = run(freePlace(), 2, body);
  EXPECT_THAT(texts[0], HasSubstr("rank 1 sent 200 bytes of all_reduce 'x'"));
  EXPECT_THAT(texts[1], HasSubstr("rank 0 sent 600 bytes of all_reduce 'y'"));
}
} // namespace
