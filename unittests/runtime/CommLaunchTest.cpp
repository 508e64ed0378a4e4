// The C interface, launch parameters from the environment, and the record.
#include "CommRanks.h"
#include "LaunchEnvironment.h"
#include "comm/Launch.h"
#include "comm/OpenCommunicator.h"
#include "comm/Secret.h"
#include "scalify/comm.h"
#include "support/Error.h"

#include <atomic>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::test;
using testing::HasSubstr;

namespace {
std::string launchOf(const std::map<std::string, std::string> &values) {
  Environment environment(values);
  try {
    Launch launch = readLaunch();
    return std::to_string(launch.rank) + "/" + std::to_string(launch.size) +
           " " + launch.transport;
  } catch (const Error &error) {
    return error.what();
  }
}

std::string jobOf(const std::map<std::string, std::string> &values) {
  Environment environment(values);
  try {
    return readJob();
  } catch (const Error &error) {
    return error.what();
  }
}

TEST(CommLaunch, TheEnvironmentSaysWhichRankThisIs) {
  EXPECT_EQ(launchOf({}), "0/1 local");
  EXPECT_EQ(launchOf({{"SCALIFY_RANK", "2"}, {"SCALIFY_SIZE", "4"}}),
            "2/4 local");
  EXPECT_EQ(launchOf({{"RANK", "3"},
                      {"WORLD_SIZE", "4"},
                      {"LOCAL_WORLD_SIZE", "4"},
                      {"SLURM_PROCID", "0"},
                      {"SLURM_NTASKS", "1"}}),
            "3/4 local");
  EXPECT_EQ(
      launchOf({{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}}),
      "3/8 tcp");
  EXPECT_EQ(launchOf({{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            "1/4 mpi");
  EXPECT_EQ(launchOf({{"SCALIFY_RANK", "2"},
                      {"SCALIFY_SIZE", "4"},
                      {"SCALIFY_RENDEZVOUS", "first:29500"}}),
            "2/4 tcp");
  EXPECT_EQ(launchOf({{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            "1/2 local");
  EXPECT_EQ(launchOf({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "1/2 mpi");
  EXPECT_EQ(launchOf({{"SLURM_PROCID", "1"},
                      {"SLURM_NTASKS", "2"},
                      {"SLURM_NNODES", "2"}}),
            "1/2 tcp");
  EXPECT_EQ(launchOf({{"SLURM_PROCID", "1"},
                      {"SLURM_NTASKS", "2"},
                      {"SLURM_NNODES", "2"},
                      {"SCALIFY_TRANSPORT", "local"}}),
            "1/2 local");
}

TEST(CommLaunch, EnvironmentsThatContradictThemselvesAreRefused) {
  EXPECT_THAT(launchOf({{"SCALIFY_RANK", "2"}}), HasSubstr("without the"));
  EXPECT_THAT(launchOf({{"SCALIFY_RANK", "2"}, {"SCALIFY_SIZE", "2"}}),
              HasSubstr("SCALIFY_RANK is 2 and SCALIFY_SIZE is 2"));
  EXPECT_THAT(launchOf({{"SCALIFY_RANK", "x"}, {"SCALIFY_SIZE", "2"}}),
              HasSubstr("'x', not a number"));
  // A batch script is no task of a step.
  Environment::Values script = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
  EXPECT_EQ(launchOf(script), "0/1 local");
  script["SLURM_NTASKS"] = "8";
  EXPECT_THAT(launchOf(script), HasSubstr("SLURM_NTASKS is 8"));
  script["RANK"] = "0", script["WORLD_SIZE"] = "1";
  EXPECT_EQ(launchOf(script), "0/1 local");
  Environment environment(Environment::Values{{"SCALIFY_COMM_TIMEOUT", "-3"}});
  EXPECT_THROW(readTimeout(), Error);
}

TEST(CommLaunch, JobsHaveTheLaunchersName) {
  EXPECT_EQ(jobOf({{"SCALIFY_JOB", "a"}, {"SLURM_JOB_ID", "7"}}), "a");
  EXPECT_EQ(jobOf({{"MASTER_ADDR", "h"},
                   {"MASTER_PORT", "29500"},
                   {"TORCHELASTIC_RUN_ID", "r"},
                   {"TORCHELASTIC_RESTART_COUNT", "2"}}),
            "torch:h:29500:r:2");
  EXPECT_EQ(jobOf({{"PMIX_NAMESPACE", "123"}}), "mpi:123");
  EXPECT_EQ(jobOf({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}}),
            "slurm:7.0");
  EXPECT_THAT(jobOf({}), HasSubstr("set SCALIFY_JOB"));
}

TEST(CommLaunch, RanksMeetWhereTheLaunchSays) {
  using Values = Environment::Values;
  auto meetingOf = [](const Values &values) {
    Environment environment(values);
    try {
      Meeting meeting = readMeeting();
      return meeting.place + " " + meeting.job;
    } catch (const Error &error) {
      return std::string(error.what());
    }
  };
  Values torch = {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(meetingOf(torch), "h:29500 torch:h:29500:");
  // The agent itself uses that port.
  torch["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(meetingOf(torch), "h:29501 torch:h:29500:");
  // A replaced agent counts restarts from zero again.
  torch["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_EQ(meetingOf(torch), "h:29501 torch:h:29500:");
  torch["SCALIFY_RENDEZVOUS"] = "file:/shared/here";
  EXPECT_EQ(meetingOf(torch), "file:/shared/here torch:h:29500:");
  Values slurm = {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "2"}};
  for (const auto &[nodes, first] : {std::pair("gpu[07-09,12],login", "gpu07"),
                                     {"a,b", "a"},
                                     {"a", "a"},
                                     {"n[3,5]", "n3"}}) {
    slurm["SLURM_STEP_NODELIST"] = nodes;
    EXPECT_EQ(meetingOf(slurm), std::string(first) + ":20114 slurm:7.2");
  }
  // The port is below 32768, where the ephemeral ports start.
  slurm["SLURM_JOB_ID"] = "900";
  EXPECT_EQ(meetingOf(slurm), "n3:21634 slurm:900.2");
  EXPECT_THAT(meetingOf({}), HasSubstr("set SCALIFY_RENDEZVOUS, the same on"));
}

TEST(CommLaunch, RanksOfOneMachineMeetAtItsLoopback) {
  auto meetingOf = [](Environment::Values values) {
    values.insert({{"RANK", "1"},
                   {"WORLD_SIZE", "4"},
                   {"MASTER_ADDR", "h"},
                   {"MASTER_PORT", "29500"}});
    Environment environment(values);
    Meeting meeting = readMeeting();
    return meeting.place + (meeting.isOneMachine ? " one" : "");
  };
  EXPECT_EQ(meetingOf({}), "h:29500");
  EXPECT_EQ(meetingOf({{"LOCAL_WORLD_SIZE", "2"}}), "h:29500");
  EXPECT_EQ(meetingOf({{"LOCAL_WORLD_SIZE", "4"}}), "127.0.0.1:29500 one");
  EXPECT_EQ(
      meetingOf({{"LOCAL_WORLD_SIZE", "4"}, {"SCALIFY_INTERFACE", "eth0"}}),
      "h:29500 one");
  EXPECT_EQ(
      meetingOf({{"LOCAL_WORLD_SIZE", "4"}, {"SCALIFY_RENDEZVOUS", "g:1"}}),
      "g:1 one");
}

TEST(CommLaunch, TheEnvironmentHasTheSecret) {
  auto secretOf = [](const Environment::Values &values) {
    Environment environment(values);
    try {
      return readSecret();
    } catch (const Error &error) {
      return std::string("error: ") + error.what();
    }
  };
  EXPECT_EQ(secretOf({}), "");
  const std::string secret = "Tg6vbQ4H0w2uFzX1";
  EXPECT_EQ(secretOf({{"SCALIFY_SECRET", secret}}), secret);
  EXPECT_THAT(secretOf({{"SCALIFY_SECRET", "Tg6vbQ4"}}),
              AllOf(HasSubstr("error: SCALIFY_SECRET has fewer than 16 "),
                    testing::Not(HasSubstr("Tg6"))));
  std::string path = testing::TempDir() + "/comm-launch-secret";
  std::ofstream(path) << secret << "\n";
  auto withMode = [&](mode_t mode) {
    ::chmod(path.c_str(), mode);
    return secretOf({{"SCALIFY_SECRET_FILE", path}});
  };
  EXPECT_EQ(withMode(0600), secret);
  EXPECT_EQ(withMode(0400), secret);
  for (mode_t mode : {0640, 0604, 0660})
    EXPECT_THAT(withMode(mode),
                AllOf(HasSubstr("is open to other users: it has mode 06"),
                      testing::Not(HasSubstr(secret))));
  ::chmod(path.c_str(), 0600);
  EXPECT_THAT(
      secretOf({{"SCALIFY_SECRET", secret}, {"SCALIFY_SECRET_FILE", path}}),
      HasSubstr("error: both SCALIFY_SECRET and SCALIFY_SECRET_FILE are set"));
  std::ofstream(path) << "short\n";
  EXPECT_THAT(secretOf({{"SCALIFY_SECRET_FILE", path}}),
              HasSubstr("SCALIFY_SECRET_FILE has fewer than 16 characters"));
  std::ofstream(path) << std::string(5000, 'x');
  EXPECT_THAT(secretOf({{"SCALIFY_SECRET_FILE", path}}),
              HasSubstr("has more than 4096 characters"));
  EXPECT_THAT(secretOf({{"SCALIFY_SECRET_FILE", path + ".absent"}}),
              HasSubstr("cannot be read: No such file"));
  EXPECT_THAT(secretOf({{"SCALIFY_SECRET_FILE", testing::TempDir()}}),
              HasSubstr("is no regular file"));
  ::unlink(path.c_str());
}

TEST(CommLaunch, TheEnvironmentSaysWhichOfItsMachineThisIs) {
  auto localOf = [](const Environment::Values &values) {
    Environment environment(values);
    std::optional<LocalRank> local = readLocalRank();
    return local ? std::to_string(local->rank) + " " + local->variable : "";
  };
  EXPECT_EQ(localOf({}), "");
  EXPECT_EQ(localOf({{"RANK", "9"}, {"WORLD_SIZE", "16"}, {"LOCAL_RANK", "1"}}),
            "1 LOCAL_RANK");
  EXPECT_EQ(localOf({{"OMPI_COMM_WORLD_RANK", "3"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}),
            "2 OMPI_COMM_WORLD_LOCAL_RANK");
  EXPECT_EQ(localOf({{"SLURM_PROCID", "3"},
                     {"SLURM_NTASKS", "4"},
                     {"SLURM_LOCALID", "0"}}),
            "0 SLURM_LOCALID");
  EXPECT_EQ(localOf({{"SCALIFY_RANK", "3"}, {"SCALIFY_SIZE", "4"}}),
            "3 SCALIFY_RANK");
  EXPECT_EQ(localOf({{"SCALIFY_RANK", "3"},
                     {"SCALIFY_SIZE", "4"},
                     {"SCALIFY_LOCAL_RANK", "1"}}),
            "1 SCALIFY_LOCAL_RANK");
  EXPECT_EQ(localOf({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), "");
}

TEST(CommLaunch, TheCInterfaceGathers) {
  std::string job = freshJob();
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      scalify_rt_comm_options options = {};
      options.transport = "local";
      options.rank = rank;
      options.size = 3;
      options.job = job.c_str();
      scalify_rt_comm *comm = nullptr;
      ASSERT_EQ(scalify_rt_comm_open(&options, &comm), SCALIFY_RT_OK)
          << scalify_rt_last_error();
      EXPECT_EQ(scalify_rt_comm_rank(comm), rank);
      EXPECT_EQ(scalify_rt_comm_size(comm), 3);
      EXPECT_STREQ(scalify_rt_comm_transport(comm), "local");
      EXPECT_EQ(scalify_rt_comm_barrier(comm), SCALIFY_RT_OK);
      EXPECT_EQ(scalify_rt_comm_bytes_sent(comm), 0u);
      std::string own = "rank" + std::to_string(rank), all(15, ' ');
      EXPECT_EQ(scalify_rt_comm_gather_bytes(comm, own.data(), 5, all.data()),
                SCALIFY_RT_OK);
      EXPECT_EQ(all, "rank0rank1rank2");
      EXPECT_EQ(scalify_rt_comm_bytes_sent(comm), 10u);
      // A rank that aborts before others are done ends their current calls.
      for (++done; done < 3;)
        std::this_thread::yield();
      if (rank == 1) {
        EXPECT_EQ(scalify_rt_comm_abort(comm, "enough"), SCALIFY_RT_OK);
      } else {
        EXPECT_EQ(scalify_rt_comm_barrier(comm), SCALIFY_RT_COMM);
        EXPECT_STREQ(scalify_rt_last_error(),
                     "step 0, all_gather 'barrier': rank 1 stopped: enough");
      }
      scalify_rt_comm_free(comm);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(CommLaunch, AloneThereIsOneRank) {
  Environment environment(Environment::Values{});
  scalify_rt_comm *comm = nullptr;
  ASSERT_EQ(scalify_rt_comm_open(nullptr, &comm), SCALIFY_RT_OK)
      << scalify_rt_last_error();
  EXPECT_EQ(scalify_rt_comm_size(comm), 1);
  char out = 0;
  EXPECT_EQ(scalify_rt_comm_gather_bytes(comm, "x", 1, &out), SCALIFY_RT_OK);
  EXPECT_EQ(out, 'x');
  scalify_rt_comm_free(comm);
}

TEST(CommLaunch, UnknownTransportsAreRefused) {
  scalify_rt_comm_options options = {};
  options.transport = "pigeon";
  scalify_rt_comm *comm = nullptr;
  EXPECT_EQ(scalify_rt_comm_open(&options, &comm), SCALIFY_RT_UNSUPPORTED);
  EXPECT_EQ(comm, nullptr);
  EXPECT_THAT(scalify_rt_last_error(), HasSubstr("libscalify_comm_pigeon.so"));
}

TEST(CommLaunch, TheRecordHasALineForEachCollective) {
  scalify_rt_comm_options options = {};
  options.transport = "record";
  options.rank = 1;
  options.size = 512;
  scalify_rt_comm *comm = nullptr;
  ASSERT_EQ(scalify_rt_comm_open(&options, &comm), SCALIFY_RT_OK);
  Communicator &communicator = getCommunicator(comm);
  Collective c;
  c.elements = 10;
  c.members = {0, 1, 2, 3};
  c.name = "grads";
  std::vector<float> source(10, 3.0f), result(40, 7.0f);
  communicator.run(c, source.data(), result.data());
  EXPECT_EQ(result[9], 3.0f);
  communicator.beginStep(5, 0);
  c.kind = Collective::Kind::AllGather;
  c.type = DType::BF16;
  c.name = "weights";
  communicator.run(c, source.data(), result.data());
  EXPECT_EQ(result[0], 0.0f);
  EXPECT_EQ(result[5], 3.0f);
  c.kind = Collective::Kind::Permute;
  c.to = 2;
  communicator.run(c, source.data(), result.data());
  EXPECT_STREQ(
      scalify_rt_comm_trace(comm),
      "step=0 all_reduce sum f32 elements=10 members=0,1,2,3 sent=64 'grads'\n"
      "step=5 all_gather bf16 elements=10 members=0,1,2,3 sent=60 'weights'\n"
      "step=5 permute bf16 elements=10 to=2 from=-1 sent=20 'weights'\n");
  EXPECT_EQ(scalify_rt_comm_bytes_sent(comm), 144u);
  scalify_rt_comm_free(comm);
}
} // namespace
