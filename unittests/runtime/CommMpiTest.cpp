// Ranks that mpirun starts: over MPI, and over `local`, which finds them by
// mpirun's environment variables.
#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>

using testing::ContainsRegex;
using testing::HasSubstr;

#ifdef SCALIFY_MPIRUN
namespace {
struct Outcome {
  int status;
  std::string output;
};

Outcome run(const std::string &command) {
  // NOLINTNEXTLINE(bugprone-command-processor): the command is ours.
  std::FILE *pipe = ::popen(command.c_str(), "r");
  std::string output;
  char line[1024];
  while (std::fgets(line, sizeof(line), pipe))
    output += line;
  int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

Outcome launch(int ranks, const std::string &arguments,
               const std::string &environment = "") {
  // Allows root, and more ranks than cores.
  return run("OMPI_ALLOW_RUN_AS_ROOT=1 "
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
             "OMPI_MCA_rmaps_base_oversubscribe=1 " +
             environment + " timeout 60 " SCALIFY_MPIRUN " -n " +
             std::to_string(ranks) + " " SCALIFY_COMM_RANK " " + arguments +
             " 2>&1");
}

void expectFine(const Outcome &outcome, int ranks) {
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_THAT(outcome.output,
                HasSubstr("rank " + std::to_string(rank) + ": fine"));
}

TEST(CommMpi, RanksGetWhatAPlainComputationGives) {
  expectFine(launch(4, "mpi check"), 4);
}

TEST(CommMpi, LocalRanksAreFoundByMpirunsJob) {
  if (run(SCALIFY_MPIRUN " --version").output.find("HYDRA") !=
      std::string::npos)
    GTEST_SKIP() << "MPICH's mpirun does not name its job";
  expectFine(launch(3, "local pass"), 3);
}

TEST(CommMpi, LateRanksAreNamed) {
  Outcome outcome = launch(3, "mpi late", "SCALIFY_COMM_TIMEOUT=0.5");
  EXPECT_NE(outcome.status, 0);
  for (const char *rank : {"rank 0", "rank 1"})
    EXPECT_THAT(
        outcome.output,
        ContainsRegex(std::string(rank) +
                      ": step 3, all_reduce 'grads': [^\n]*rank 2 is late"));
}

TEST(CommMpi, LateRanksAreNamedByThoseWhoWaitForOthers) {
  // Rank 1 starts to wait for rank 2 after rank 0 has waited for most of its
  // timeout.
  Outcome outcome = launch(3, "mpi chain", "SCALIFY_COMM_TIMEOUT=1.5");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, ContainsRegex("rank 0: step 3, permute 'chain': "
                                            "[^\n]*rank 2 is late"));
  EXPECT_THAT(outcome.output, testing::Not(HasSubstr("rank 1 is late")));
}

TEST(CommMpi, RanksThatDoNotJoinAreNamed) {
  // On the second communicator: MPI_Init itself waits for processes that do not
  // start.
  Outcome outcome = launch(3, "mpi absent", "SCALIFY_COMM_TIMEOUT=0.5");
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.status, 124) << "it hangs: " << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("rank 0: transport 'mpi': rank 2 has not joined "
                        "within 0.500 s"));
  EXPECT_THAT(outcome.output,
              HasSubstr("rank 1: transport 'mpi': rank 0 stopped: rank 2 has "
                        "not joined within 0.500 s"));
}

TEST(CommMpi, AnInterruptedRankJoinsAgain) {
  // The memory of its first receives is gone when rank 0 answers.
  Outcome outcome = launch(2, "mpi interrupt", "SCALIFY_COMM_TIMEOUT=2");
  for (const char *rank : {"rank 0", "rank 1"})
    EXPECT_THAT(outcome.output, HasSubstr(std::string(rank) + ": fine"));
}

TEST(CommMpi, RanksHearWhyAnotherGaveUp) {
  Outcome outcome = launch(3, "mpi abort");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("rank 2: a weight is NaN"));
  for (const char *rank : {"rank 0", "rank 1"})
    EXPECT_THAT(outcome.output, HasSubstr(std::string(rank) +
                                          ": step 3, all_reduce 'grads': "
                                          "rank 2 stopped: a weight is NaN"));
}

/// The rank is named before mpirun ends the job, after a second.
void expectNamed(const Outcome &outcome, int killed, int ranks) {
  EXPECT_EQ(outcome.status, 128 + 9) << outcome.output;
  EXPECT_THAT(outcome.output, testing::Not(HasSubstr("fine")));
  std::string named = "rank " + std::to_string(killed) + " died \\(process ";
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != killed)
      EXPECT_THAT(outcome.output,
                  ContainsRegex("rank " + std::to_string(rank) +
                                ": step 3, all_reduce 'grads': [^\n]*" +
                                named));
}

TEST(CommMpi, AKilledRankIsNamedByAllOthers) {
  expectNamed(launch(4, "mpi kill"), 3, 4);
}

TEST(CommMpi, TheFirstRankIsNamedWhereItIsKilled) {
  expectNamed(launch(3, "mpi kill0"), 0, 3);
}

// As between machines, where Open MPI's own connections break too.
TEST(CommMpi, AKilledRankIsNamedOverConnections) {
  expectNamed(launch(4, "mpi kill", "OMPI_MCA_btl=tcp,self"), 3, 4);
  expectNamed(launch(3, "mpi kill0", "OMPI_MCA_btl=tcp,self"), 0, 3);
}
} // namespace
#else
TEST(CommMpi, RanksGetWhatAPlainComputationGives) {
  GTEST_SKIP() << "MPI was not found when this was configured";
}
#endif
