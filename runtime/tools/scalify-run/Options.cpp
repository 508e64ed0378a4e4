#include "Options.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <stdexcept>

using namespace scalify::rt;

const char *const scalify::rt::usage =
    R"(usage: scalify-run STEP.scalify [options]

Runs a compiled step on tensors from a file.

  --in FILE        safetensors with one tensor per argument, by the argument's
                   name or as arg0, arg1, ...; an argument that is not donated
                   may have one dimension more, then step i reads slice i
  --out FILE       writes the results: donated ones under their argument's name,
                   so that the file can be the next run's input
  --steps N        runs N steps, feeding donated results back (default 1)
  --device D       cpu (default), cuda (an NVIDIA GPU), or null, which computes
                   nothing and, with --trace, says what it would do
  --threads N      threads to use (default: one per core)
  --rescale-every N  after every N steps, moves the scales of casts by what they
                   counted (artefacts with a function rescale); the scales are
                   in the output
  --function NAME  function of the artefact (default step)
  --profile        prints where the time went
  --trace          prints the null device's record
  --health         prints saturated and flushed counts of each quantizing cast
  --help           prints this text
  --version        prints the version
)";

namespace {
int number(const std::string &name, const std::string &text, int least) {
  char *end = nullptr;
  errno = 0;
  long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end || errno || value < least || value > INT_MAX)
    throw std::runtime_error("option " + name + " needs a number of at least " +
                             std::to_string(least) + ", not '" + text + "'");
  return static_cast<int>(value);
}

scalify_rt_device deviceOf(const std::string &text) {
  if (text == "cpu")
    return SCALIFY_RT_DEVICE_CPU;
  if (text == "cuda")
    return SCALIFY_RT_DEVICE_CUDA;
  if (text == "null")
    return SCALIFY_RT_DEVICE_NULL;
  throw std::runtime_error("option --device takes cpu, cuda or null, not '" +
                           text + "'");
}

/// Iterates over the arguments; a value follows `=` or is the next argument.
class Reader {
public:
  Reader(int argc, char **argv) : argc(argc), argv(argv) {}

  bool next() {
    if (++at >= argc)
      return false;
    name = argv[at];
    size_t equals = name.find('=');
    hasValue = name.rfind("--", 0) == 0 && equals != std::string::npos;
    if (hasValue) {
      inlineValue = name.substr(equals + 1);
      name.resize(equals);
    }
    return true;
  }
  std::string value() {
    if (hasValue) {
      hasValue = false;
      return inlineValue;
    }
    if (++at >= argc)
      throw std::runtime_error("option " + name + " needs a value");
    return argv[at];
  }
  void finish() const {
    if (hasValue)
      throw std::runtime_error("option " + name + " takes no value");
  }

  std::string name;

private:
  int argc;
  char **argv;
  int at = 0;
  bool hasValue = false;
  std::string inlineValue;
};
} // namespace

Options scalify::rt::parseOptions(int argc, char **argv) {
  Options options;
  Reader reader(argc, argv);
  while (reader.next()) {
    const std::string &name = reader.name;
    if (name == "--in")
      options.input = reader.value();
    else if (name == "--out")
      options.output = reader.value();
    else if (name == "--function")
      options.function = reader.value();
    else if (name == "--steps")
      options.steps = number(name, reader.value(), 1);
    else if (name == "--threads")
      options.threads = number(name, reader.value(), 0);
    else if (name == "--device")
      options.device = deviceOf(reader.value());
    else if (name == "--trace")
      options.trace = true;
    else if (name == "--rescale-every")
      options.rescaleEvery = number(name, reader.value(), 1);
    else if (name == "--profile")
      options.profile = true;
    else if (name == "--health")
      options.health = true;
    else if (name == "--help" || name == "-h")
      options.help = true;
    else if (name == "--version")
      options.version = true;
    else if (name.size() > 1 && name[0] == '-')
      throw std::runtime_error("unknown option '" + name + "'; see --help");
    else if (options.artefact.empty())
      options.artefact = name;
    else
      throw std::runtime_error("one artefact at a time: '" + options.artefact +
                               "' and '" + name + "'");
    reader.finish();
  }
  if (options.artefact.empty() && !options.help && !options.version)
    throw std::runtime_error("no artefact given; see --help");
  return options;
}
