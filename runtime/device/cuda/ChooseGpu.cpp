#include "device/cuda/ChooseGpu.h"
#include "comm/Launch.h"
#include "support/Error.h"

#include <cstdlib>
#include <limits>
#include <string>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
int32_t readNumber(const char *name, const std::string &text) {
  char *end = nullptr;
  long number = std::strtol(text.c_str(), &end, 10);
  if (*end || number < 0 || number > std::numeric_limits<int32_t>::max())
    badArgument(std::string("the environment's ") + name + " is '" + text +
                "', not the number of a GPU");
  return int32_t(number);
}

std::string read(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}
} // namespace

int32_t cuda::chooseGpu(const Driver &driver, int32_t asked) {
  if (asked != 0)
    return asked;
  if (std::string chosen = read("SCALIFY_GPU"); !chosen.empty())
    return readNumber("SCALIFY_GPU", chosen);
  std::optional<LocalRank> local = readLocalRank();
  int count = 0;
  // Without GPUs, opening the device reports the error.
  if (!local || driver.cuInit(0) != Success ||
      driver.cuDeviceGetCount(&count) != Success || count == 0)
    return 0;
  if (local->rank < count)
    return local->rank;
  if (count == 1 && !read("CUDA_VISIBLE_DEVICES").empty())
    return 0;
  // Ranks started by hand are assumed to be on one machine.
  std::string wayOut;
  if (local->variable == "SCALIFY_RANK")
    wayOut = ", or, on several machines, set each rank's number on its machine "
             "by SCALIFY_LOCAL_RANK";
  badArgument("there is no GPU for this rank, number " +
              std::to_string(local->rank) + " on its machine by " +
              local->variable + ": the driver shows " + std::to_string(count) +
              "; start at most one rank per GPU, or name each rank's GPU by "
              "SCALIFY_GPU" +
              wayOut);
}
