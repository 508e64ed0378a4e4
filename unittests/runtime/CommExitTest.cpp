// Four processes over each transport. The last one fails: all others name it,
// with the collective and the step, and none exits with status 0.
#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

using testing::ContainsRegex;
using testing::HasSubstr;

namespace {
/// Returns the output of a shell command.
std::string run(const std::string &command) {
  // NOLINTNEXTLINE(bugprone-command-processor): the command is ours.
  std::FILE *pipe = ::popen(command.c_str(), "r");
  std::string output;
  char line[1024];
  while (std::fgets(line, sizeof(line), pipe))
    output += line;
  ::pclose(pipe);
  return output;
}

/// Returns the output of four ranks, with "rank R exits STATUS" for each.
std::string launch(const std::string &transport, const std::string &what) {
  std::string rank = SCALIFY_COMM_RANK " " + transport + " " + what;
  // Long enough that no rank is late.
  std::string common = "export SCALIFY_COMM_TIMEOUT=30; ";
  if (transport == "mpi") {
#ifdef SCALIFY_MPIRUN
    // A second after the first rank has failed, mpirun sends the others a
    // signal; the shell must survive it to print their status.
    return run(common +
               "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
               "OMPI_MCA_rmaps_base_oversubscribe=1 timeout 60 " SCALIFY_MPIRUN
               " -n 4 sh -c 'trap \"\" TERM; " +
               rank +
               "; s=$?; echo rank ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} exits $s; "
               // Output written last is lost if mpirun sees no process left.
               "sleep 0.5; exit $s' 2>&1");
#endif
  }
  std::string job = "exit-" + std::to_string(::getpid()) + transport + what;
  return run(common + "export SCALIFY_SIZE=4 SCALIFY_JOB=" + job +
             " SCALIFY_RENDEZVOUS=file:/tmp/" + job +
             "; for r in 0 1 2 3; do (SCALIFY_RANK=$r timeout 60 " + rank +
             "; echo rank $r exits $?) & done 2>&1; wait");
}

class CommExit : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
#ifndef SCALIFY_MPIRUN
    if (GetParam() == std::string("mpi"))
      GTEST_SKIP() << "MPI was not found when this was configured";
#endif
  }

  /// Checks that each other rank reports `text` of the last rank.
  static void check(const std::string &what, const std::string &text,
                    int status) {
    std::string output = launch(GetParam(), what);
    for (int rank = 0; rank < 3; ++rank) {
      std::string name = "rank " + std::to_string(rank);
      std::string pattern = name;
      pattern.append(": step 3, all_reduce 'grads': [^\n]*").append(text);
      EXPECT_THAT(output, ContainsRegex(pattern));
      EXPECT_THAT(output, HasSubstr(name + " exits 1"));
    }
    EXPECT_THAT(output, HasSubstr("rank 3 exits " + std::to_string(status)));
  }
};

TEST_P(CommExit, OfAKilledRank) { check("kill", "rank 3 died", 128 + 9); }
TEST_P(CommExit, OfATornChunk) {
  check("torn", "a chunk of rank 3 is damaged", 1);
}
TEST_P(CommExit, OfAChunkOfAnotherShape) {
  // Reported by the rank that looks first: a receiver of rank 3, or rank 3.
  check("shape", "rank 3.* 1200 f32", 1);
}

INSTANTIATE_TEST_SUITE_P(All, CommExit, testing::Values("local", "tcp", "mpi"),
                         [](const auto &one) { return one.param; });
} // namespace
