#include "NcclRanks.h"
#include "GpuArtefact.h"
#include "device/cuda/CudaDevice.h"
#include "support/Error.h"

#include <sstream>

using namespace scalify::rt;
using namespace scalify::rt::test;

Json test::collectiveOf(const char *kind, const char *join, Json groups) {
  return {{"op", "collective"}, {"kind", kind},
          {"join", join},       {"groups", std::move(groups)},
          {"src", 0},           {"dst", 1},
          {"name", "x"},        {"loc", "step/x"}};
}

Json test::gpuCollective(const Json &collective, int64_t results,
                         int64_t ranks) {
  Json number = {{"kind", "rank"}, {"shape", Json::array()}, {"dtype", "ui32"}};
  Json m = gpuManifest();
  m["arena_bytes"] = 64;
  m["mesh"] = Json::array({{"data", ranks}});
  m["args"] = Json::array({{{"name", "x"}, {"shape", {4}}, {"dtype", "f32"}}});
  m["results"] = Json::array(
      {{{"name", "y"}, {"shape", {results}}, {"dtype", "f32"}},
       {{"name", "rank"}, {"shape", Json::array()}, {"dtype", "ui32"}}});
  m["buffers"] =
      Json::array({buffer("arg", 0, {4}), buffer("result", 0, {results}),
                   number, buffer("result", 1, {}, "ui32"),
                   buffer("temp", 0, {4}), buffer("temp", 0, {4})});
  m["counters"] = Json::array();
  m["functions"] = {
      {"step",
       Json::array({collective,
                    {{"op", "copy"}, {"src", 2}, {"dst", 3}, {"bytes", 4}}})}};
  return m;
}

GpuRank::GpuRank(const Json &manifest, Communicator *comm,
                 std::shared_ptr<cuda::Fabric> fabric,
                 const std::shared_ptr<cuda::RecordingDriver> &recording)
    : driver(recording ? recording
                       : std::make_shared<cuda::RecordingDriver>()) {
  driver->fabric = std::move(fabric);
  std::string artefact = pack(manifest, gpuKernels(), gpuConstants());
  exe = std::make_unique<Executable>(
      Image::fromMemory(artefact.data(), artefact.size()),
      [&](const Program &program) {
        return cuda::makeCudaDevice(driver, 0, program);
      },
      comm);
  y.resize(size_t(exe->program().results[0].type.elements), -1.0f);
}

void GpuRank::run(std::vector<float> x) {
  void *args[] = {x.data()}, *results[] = {y.data(), &number};
  exe->run("step", args, 1, results, 2);
}

std::string GpuRank::newLines() {
  std::stringstream in(driver->trace());
  driver->clearTrace();
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (line.rfind("cuMemAlloc", 0) && line.rfind("cuEventRecord", 0) &&
        line.rfind("cuMemcpy", 0))
      out += line + "\n";
  return out;
}

std::string test::errorOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}
