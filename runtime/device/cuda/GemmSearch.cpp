#include "device/cuda/GemmSearch.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
constexpr const char *variable = "SCALIFY_GEMM_SEARCH";
constexpr size_t algoWords = sizeof(MatmulAlgo::data) / sizeof(uint64_t);

/// Returns the path in the XDG cache folder, which is created if needed.
std::string cacheFile() {
  const char *cache = std::getenv("XDG_CACHE_HOME");
  const char *home = std::getenv("HOME");
  std::string folder = cache && *cache ? cache
                       : home && *home ? std::string(home) + "/.cache"
                                       : "";
  if (folder.empty())
    return "";
  mkdir(folder.c_str(), 0700);
  folder += "/scalify";
  mkdir(folder.c_str(), 0700);
  return folder + "/gemm.json";
}

std::map<std::string, std::vector<uint64_t>>
readCache(const std::string &path) {
  std::map<std::string, std::vector<uint64_t>> out;
  std::ifstream in(path);
  nlohmann::json tree = nlohmann::json::parse(in, nullptr, false);
  if (!tree.is_object())
    return out;
  for (const auto &[key, value] : tree.items()) {
    bool isAlgo = value.is_array() && value.size() == algoWords &&
                  std::all_of(value.begin(), value.end(), [](const auto &word) {
                    return word.is_number_unsigned();
                  });
    if (isAlgo)
      out[key] = value.template get<std::vector<uint64_t>>();
  }
  return out;
}
} // namespace

int cuda::getNumCandidates() {
  const char *text = std::getenv(variable);
  if (!text || !*text)
    return 1;
  char *end = nullptr;
  long count = std::strtol(text, &end, 10);
  if (*end || count < 1 || count > 100)
    badArgument(std::string(variable) + " must be 1 to 100, not '" + text +
                "'");
  return int(count);
}

AlgorithmCache::AlgorithmCache() : path(cacheFile()) {
  if (!path.empty())
    known = readCache(path);
}

int AlgorithmCache::find(const std::string &key,
                         const std::vector<HeuristicResult> &candidates) const {
  auto found = known.find(key);
  for (size_t i = 0; found != known.end() && i < candidates.size(); ++i)
    if (std::equal(found->second.begin(), found->second.end(),
                   candidates[i].algo.data))
      return int(i);
  return -1;
}

void AlgorithmCache::keep(const std::string &key, const MatmulAlgo &algo) {
  known[key].assign(algo.data, algo.data + algoWords);
  if (path.empty())
    return;
  // Keeps the results of other processes. A reader sees the old file or the new
  // one.
  auto all = readCache(path);
  all[key] = known[key];
  std::string draft = path + "." + std::to_string(getpid());
  std::ofstream(draft) << nlohmann::json(all).dump(1) << "\n";
  if (std::rename(draft.c_str(), path.c_str()) != 0)
    std::remove(draft.c_str());
}

double cuda::measureTime(const Session &session, StreamHandle stream,
                         const std::function<void()> &issue) {
  const Driver &driver = *session.driver;
  Owned<EventHandle> before = session.makeEvent(), after = session.makeEvent();
  issue(); // loads the kernel
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    session.check(driver.cuEventRecord(before.get(), stream), "cuEventRecord");
    issue();
    session.check(driver.cuEventRecord(after.get(), stream), "cuEventRecord");
    session.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
    float milliseconds = 0;
    session.check(
        driver.cuEventElapsedTime(&milliseconds, before.get(), after.get()),
        "cuEventElapsedTime");
    best = i == 0 ? milliseconds : std::min<double>(best, milliseconds);
  }
  return best;
}
