#include "comm/Launch.h"
#include "comm/Secret.h"
#include "support/Error.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

using namespace scalify::rt;

namespace {
/// Returns "" if the variable is not set.
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

/// The environment variables of one launcher.
struct Launcher {
  const char *rank, *size;
  /// This rank's number on its machine.
  const char *localRank;
  /// The number of ranks on this machine, and the number of machines. Without
  /// either variable all ranks are on this machine.
  const char *local, *machines;
  /// True if it names the job, which `local` needs.
  bool namesJob;
  /// The transport between machines: "mpi" if MPI started the ranks.
  const char *between;
};
// In the order of precedence: the innermost launcher wins.
constexpr Launcher launchers[] = {
    {"SCALIFY_RANK", "SCALIFY_SIZE", "SCALIFY_LOCAL_RANK", nullptr, nullptr,
     true, "tcp"},
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr, true,
     "tcp"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, true,
     "mpi"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", nullptr, nullptr, false, "mpi"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, "SLURM_NNODES",
     true, "tcp"},
};

/// `otherwise` if the launcher does not say.
bool isOnOneMachine(const Launcher &launcher, int32_t size, bool otherwise) {
  if (launcher.local && !read(launcher.local).empty())
    return readCount(launcher.local) == size;
  if (launcher.machines && !read(launcher.machines).empty())
    return readCount(launcher.machines) == 1;
  return otherwise;
}

/// Returns the launcher that started this rank, or null.
const Launcher *findLauncher() {
  for (const Launcher &launcher : launchers)
    if (!read(launcher.rank).empty() && !read(launcher.size).empty())
      return &launcher;
  return nullptr;
}

/// A batch script has the variables of a step's first task, but for the step.
bool isBatchScript(const Launcher &launcher) {
  return launcher.rank == std::string_view("SLURM_PROCID") &&
         !read("SLURM_JOB_ID").empty() && read("SLURM_STEP_ID").empty();
}

/// Returns the first of Slurm's nodes: "gpu07" of "gpu[07-09,12],login".
std::string firstNode(const std::string &list) {
  size_t open = list.find_first_of("[,");
  if (open == std::string::npos || list[open] == ',')
    return list.substr(0, open);
  size_t end = list.find_first_of("-,]", open + 1);
  return end == std::string::npos
             ? ""
             : list.substr(0, open) + list.substr(open + 1, end - open - 1);
}

/// Returns a port that is the same on all ranks and rarely another job's.
int32_t getSlurmPort() {
  int64_t job = readCount("SLURM_JOB_ID");
  int64_t step = read("SLURM_STEP_ID").empty() ? 0 : readCount("SLURM_STEP_ID");
  // Below the ephemeral ports.
  constexpr int64_t first = 20'000, end = 32'768;
  return int32_t(first + (job * 16 + step) % (end - first));
}

/// Returns "" if no variable names the job.
std::string findJob(bool withRestarts) {
  if (std::string job = read("SCALIFY_JOB"); !job.empty())
    return job;
  if (std::string port = read("MASTER_PORT"); !port.empty())
    return "torch:" + read("MASTER_ADDR") + ":" + port + ":" +
           read("TORCHELASTIC_RUN_ID") +
           (withRestarts ? ":" + read("TORCHELASTIC_RESTART_COUNT") : "");
  for (const char *name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})
    if (std::string job = read(name); !job.empty())
      return "mpi:" + job;
  if (std::string job = read("SLURM_JOB_ID"); !job.empty())
    return "slurm:" + job + "." + read("SLURM_STEP_ID");
  return "";
}
} // namespace

Launch scalify::rt::readLaunch() {
  if (read("SCALIFY_RANK").empty() != read("SCALIFY_SIZE").empty())
    badArgument("one of SCALIFY_RANK and SCALIFY_SIZE is set without the "
                "other");
  Launch launch;
  if (const Launcher *launcher = findLauncher()) {
    launch.rank = readCount(launcher->rank);
    launch.size = readCount(launcher->size);
    if (launch.rank >= launch.size)
      badArgument(std::string("the environment's ") + launcher->rank + " is " +
                  std::to_string(launch.rank) + " and " + launcher->size +
                  " is " + std::to_string(launch.size));
    if (launch.size > 1 && isBatchScript(*launcher))
      badArgument("SLURM_NTASKS is " + std::to_string(launch.size) +
                  ", and this process is none of these tasks, but their batch "
                  "script: start it by srun, or unset SLURM_NTASKS for one "
                  "rank");
    bool isLocal = launch.size == 1 ||
                   (launcher->namesJob && isOnOneMachine(*launcher, launch.size,
                                                         /*otherwise=*/true));
    launch.transport = isLocal ? "local" : launcher->between;
  }
  // A meeting point implies transport `tcp`.
  if (launch.size > 1 && !read("SCALIFY_RENDEZVOUS").empty())
    launch.transport = "tcp";
  if (std::string chosen = read("SCALIFY_TRANSPORT"); !chosen.empty())
    launch.transport = chosen;
  return launch;
}

std::optional<LocalRank> scalify::rt::readLocalRank() {
  const Launcher *launcher = findLauncher();
  if (!launcher)
    return std::nullopt;
  if (!read(launcher->localRank).empty())
    return LocalRank{readCount(launcher->localRank), launcher->localRank};
  // Ranks started by hand are on one machine unless SCALIFY_LOCAL_RANK is set.
  if (launcher == launchers)
    return LocalRank{readCount(launcher->rank), launcher->rank};
  return std::nullopt;
}

std::string scalify::rt::readJob() {
  if (std::string job = findJob(/*withRestarts=*/true); !job.empty())
    return job;
  badArgument(
      "ranks of transport 'local' find one another by the job's name: "
      "set SCALIFY_JOB, the same on all ranks and different for each launch");
}

Meeting scalify::rt::readMeeting() {
  Meeting meeting;
  meeting.secret = readSecret();
  meeting.interface = read("SCALIFY_INTERFACE");
  std::string &place = meeting.place;
  place = read("SCALIFY_RENDEZVOUS");
  bool isChosen = !place.empty();
  if (!read("MASTER_ADDR").empty() && !read("MASTER_PORT").empty() &&
      place.empty()) {
    // If this variable is set, torchrun's agent itself listens at MASTER_PORT.
    bool isTaken = read("TORCHELASTIC_USE_AGENT_STORE") == "True";
    place = read("MASTER_ADDR") + ":" +
            std::to_string(readCount("MASTER_PORT") + int32_t(isTaken));
  }
  std::string nodes = read("SLURM_STEP_NODELIST");
  if (nodes.empty())
    nodes = read("SLURM_JOB_NODELIST");
  if (place.empty() && !nodes.empty() && !read("SLURM_JOB_ID").empty())
    place = firstNode(nodes) + ":" + std::to_string(getSlurmPort());
  if (place.empty())
    badArgument("ranks of transport 'tcp' meet at rank 0: set "
                "SCALIFY_RENDEZVOUS, the same on all ranks, to its machine and "
                "a free port (HOST:PORT), or to file:PATH, a file that does "
                "not exist yet and that all machines see");
  // Each agent counts its own restarts: after one was replaced, the counts of
  // several machines differ.
  meeting.job = findJob(/*withRestarts=*/false);
  if (meeting.job.empty())
    meeting.job = place;
  const Launcher *launcher = findLauncher();
  meeting.isOneMachine =
      launcher && isOnOneMachine(*launcher, readCount(launcher->size), false);
  if (meeting.isOneMachine && !isChosen && meeting.interface.empty())
    place = "127.0.0.1" + place.substr(place.rfind(':'));
  return meeting;
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
