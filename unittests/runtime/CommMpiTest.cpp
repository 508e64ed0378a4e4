// Ranks that mpirun starts: over MPI, and over `local`, which finds them by
// what mpirun says in the environment.
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

Outcome launch(int ranks, const std::string &arguments,
               const std::string &environment = "") {
  // For tests: root, and more ranks than cores.
  std::string command = "OMPI_ALLOW_RUN_AS_ROOT=1 "
                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                        "OMPI_MCA_rmaps_base_oversubscribe=1 " +
                        environment + " timeout 60 " SCALIFY_MPIRUN " -n " +
                        std::to_string(ranks) + " " SCALIFY_COMM_RANK " " +
                        arguments + " 2>&1";
  // NOLINTNEXTLINE(bugprone-command-processor): the command is ours.
  std::FILE *pipe = ::popen(command.c_str(), "r");
  std::string output;
  char line[1024];
  while (std::fgets(line, sizeof(line), pipe))
    output += line;
  int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
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
  Outcome outcome = launch(3, "local pass");
  if (outcome.output.find("set SCALIFY_JOB") != std::string::npos)
    GTEST_SKIP() << "this MPI's mpirun does not name its job";
  expectFine(outcome, 3);
}

TEST(CommMpi, LateRanksAreNamed) {
  Outcome outcome = launch(3, "mpi late", "SCALIFY_COMM_TIMEOUT=0.5");
  EXPECT_NE(outcome.status, 0);
  for (const char *rank : {"rank 0", "rank 1"})
    EXPECT_THAT(
        outcome.output,
        ContainsRegex(std::string(rank) +
                      ": step 3, all_reduce 'grads': .*rank 2 is late"));
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

TEST(CommMpi, AKilledRankEndsTheJob) {
  Outcome outcome = launch(3, "mpi kill");
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.status, 124) << "it hangs: " << outcome.output;
}
} // namespace
#else
TEST(CommMpi, RanksGetWhatAPlainComputationGives) {
  GTEST_SKIP() << "MPI was not found when this was configured";
}
#endif
