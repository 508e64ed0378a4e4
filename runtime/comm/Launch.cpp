#include "comm/Launch.h"
#include "support/Error.h"

#include <cmath>
#include <cstdlib>
#include <limits>

using namespace scalify::rt;

namespace {
/// "" where it is not set.
std::string read(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

int32_t readCount(const char *name) {
  std::string text = read(name);
  char *end = nullptr;
  long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end || value < 0 ||
      value > std::numeric_limits<int32_t>::max())
    badArgument(std::string("the environment's ") + name + " is '" + text +
                "', not a number of ranks");
  return int32_t(value);
}

/// Where one way to launch says what.
struct Launcher {
  const char *rank, *size;
  /// How many of the ranks are on this machine, or how many machines there are;
  /// null where it does not say, and then they are all on this one.
  const char *local, *machines;
  /// Whether it names the job, which `local` needs.
  bool namesJob;
};
// In the order of precedence: what starts a rank last says more than what it
// was itself started by.
constexpr Launcher launchers[] = {
    {"SCALIFY_RANK", "SCALIFY_SIZE", nullptr, nullptr, true},
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", nullptr, true},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, true},
    {"PMI_RANK", "PMI_SIZE", nullptr, nullptr, false},
    {"SLURM_PROCID", "SLURM_NTASKS", nullptr, "SLURM_NNODES", true},
};

bool isOnOneMachine(const Launcher &launcher, int32_t size) {
  if (launcher.local && !read(launcher.local).empty())
    return readCount(launcher.local) == size;
  if (launcher.machines && !read(launcher.machines).empty())
    return readCount(launcher.machines) == 1;
  return true;
}
} // namespace

Launch scalify::rt::readLaunch() {
  Launch launch;
  for (const Launcher &launcher : launchers) {
    bool hasRank = !read(launcher.rank).empty();
    if (hasRank != !read(launcher.size).empty() && &launcher == launchers)
      badArgument("one of SCALIFY_RANK and SCALIFY_SIZE is set without the "
                  "other");
    if (!hasRank || read(launcher.size).empty())
      continue;
    launch.rank = readCount(launcher.rank);
    launch.size = readCount(launcher.size);
    if (launch.rank >= launch.size)
      badArgument(std::string("the environment's ") + launcher.rank + " is " +
                  std::to_string(launch.rank) + " and " + launcher.size +
                  " is " + std::to_string(launch.size));
    bool isLocal = launch.size == 1 ||
                   (launcher.namesJob && isOnOneMachine(launcher, launch.size));
    launch.transport = isLocal ? "local" : "mpi";
    break;
  }
  if (std::string chosen = read("SCALIFY_TRANSPORT"); !chosen.empty())
    launch.transport = chosen;
  return launch;
}

std::string scalify::rt::readJob() {
  if (std::string job = read("SCALIFY_JOB"); !job.empty())
    return job;
  if (std::string port = read("MASTER_PORT"); !port.empty())
    return "torch:" + read("MASTER_ADDR") + ":" + port + ":" +
           read("TORCHELASTIC_RUN_ID") + ":" +
           read("TORCHELASTIC_RESTART_COUNT");
  for (const char *name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})
    if (std::string job = read(name); !job.empty())
      return "mpi:" + job;
  if (std::string job = read("SLURM_JOB_ID"); !job.empty())
    return "slurm:" + job + "." + read("SLURM_STEP_ID");
  badArgument(
      "ranks of transport 'local' find one another by the job's name: "
      "set SCALIFY_JOB, alike on all ranks and another for each launch");
}

double scalify::rt::readTimeout() {
  std::string text = read("SCALIFY_COMM_TIMEOUT");
  if (text.empty())
    return 300;
  char *end = nullptr;
  double seconds = std::strtod(text.c_str(), &end);
  if (*end || !(seconds > 0) || std::isinf(seconds))
    badArgument("the environment's SCALIFY_COMM_TIMEOUT is '" + text +
                "', not a number of seconds");
  return seconds;
}
