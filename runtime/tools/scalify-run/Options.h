// The command line of scalify-run.
#ifndef SCALIFY_RUNTIME_TOOLS_OPTIONS_H
#define SCALIFY_RUNTIME_TOOLS_OPTIONS_H

#include "scalify/runtime.h"

#include <string>

namespace scalify::rt {

struct Options {
  std::string artefact;
  std::string input;
  std::string output;
  std::string function = "step";
  int steps = 1;
  int threads = 0;
  scalify_rt_device device = SCALIFY_RT_DEVICE_CPU;
  int rescaleEvery = 0; // 0: never
  bool profile = false;
  bool health = false;
  bool trace = false;
  bool help = false, version = false;
};

/// Throws a std::runtime_error for unknown or malformed options.
Options parseOptions(int argc, char **argv);

extern const char *const usage;

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_TOOLS_OPTIONS_H
