// Runs a compiled step from the command line. Links the runtime only, so that
// artefacts can be run and timed on machines without compiler libraries.
#include "Profile.h"
#include "StepRunner.h"

#include <algorithm>
#include <cstdio>
#include <exception>

using namespace scalify::rt;

namespace {
void runSteps(StepRunner &runner, const Options &options) {
  double total = 0, best = 0;
  for (int step = 0; step < options.steps; ++step) {
    double seconds = runner.run(step);
    total += seconds;
    best = step == 0 ? seconds : std::min(best, seconds);
    std::printf("step %d%s\n", step + 1, runner.scalars().c_str());
    if (options.rescaleEvery && (step + 1) % options.rescaleEvery == 0)
      if (int64_t moved = runner.rescale())
        std::printf("rescale: %lld scales moved\n",
                    static_cast<long long>(moved));
  }
  std::string where = scalify_rt_device_name(runner.handle());
  if (where.empty())
    where = std::to_string(scalify_rt_threads(runner.handle())) + " threads";
  std::printf("%d steps, mean %.3f ms, best %.3f ms, %s\n", options.steps,
              1e3 * total / options.steps, 1e3 * best, where.c_str());
}

/// Returns the tool's exit code.
int report(const StepRunner::Checks &checks) {
  if (checks.count == 0)
    return 0;
  std::printf("%schecks: %d passed, %d failed\n", checks.text.c_str(),
              checks.count - checks.failed, checks.failed);
  return checks.failed ? 1 : 0;
}

int runTool(const Options &options) {
  StepRunner runner(options);
  runner.bind();
  check(scalify_rt_set_profiling(runner.handle(), options.profile));
  runSteps(runner, options);
  if (options.profile)
    std::printf("%s", profileTable(runner.handle()).c_str());
  if (options.health)
    std::printf("%s", healthTable(runner.handle()).c_str());
  if (options.trace)
    std::printf("%s", scalify_rt_trace(runner.handle()));
  if (!options.output.empty())
    runner.write(options.output);
  return report(runner.checks());
}
} // namespace

int main(int argc, char **argv) {
  try {
    Options options = parseOptions(argc, argv);
    if (options.help)
      std::printf("%s", usage);
    else if (options.version)
      std::printf("scalify-run %s\n", scalify_rt_version());
    else
      return runTool(options);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "scalify-run: error: %s\n", error.what());
    return 1;
  }
}
