#include "TestArtefact.h"

#include <cstring>
#include <fstream>
#include <sstream>

using namespace scalify::rt::test;

std::string scalify::rt::test::readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

namespace {
void putWord(std::string &bytes, size_t at, uint64_t word) {
  std::memcpy(&bytes[at], &word, 8);
}

size_t align(size_t offset) { return (offset + 4095) / 4096 * 4096; }
} // namespace

void scalify::rt::test::reseal(std::string &artefact) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 32; i < artefact.size(); ++i)
    hash = (hash ^ uint8_t(artefact[i])) * 1099511628211u;
  putWord(artefact, 16, artefact.size());
  putWord(artefact, 24, hash);
}

std::string scalify::rt::test::packText(const std::string &manifest,
                                        const std::string &tail) {
  std::string bytes = "SCALIFY1" + std::string(24, '\0') + manifest + tail;
  putWord(bytes, 8, manifest.size());
  reseal(bytes);
  return bytes;
}

std::string scalify::rt::test::pack(Json manifest, const std::string &kernels,
                                    const std::string &constants,
                                    const std::string &cubin) {
  // The manifest's length depends on the offsets in it: reserve space for them.
  size_t first = align(32 + manifest.dump().size() + 384);
  size_t second = align(first + kernels.size());
  size_t third = align(second + constants.size());
  manifest["sections"] = {
      {"kernels", {{"offset", first}, {"size", kernels.size()}}},
      {"constants", {{"offset", second}, {"size", constants.size()}}}};
  if (!cubin.empty())
    manifest["sections"]["cubin"] = {{"offset", third}, {"size", cubin.size()}};
  std::string text = manifest.dump();
  std::string tail(first - 32 - text.size(), '\0');
  tail += kernels;
  tail.resize(second - 32 - text.size());
  tail += constants;
  if (!cubin.empty()) {
    tail.resize(third - 32 - text.size());
    tail += cubin;
  }
  return packText(text, tail);
}

Json scalify::rt::test::buffer(const char *kind, int64_t at,
                               std::vector<int64_t> shape, const char *dtype) {
  bool byIndex = !std::strcmp(kind, "arg") || !std::strcmp(kind, "result");
  return {{"kind", kind},
          {byIndex ? "index" : "offset", at},
          {"dtype", dtype},
          {"shape", shape}};
}

Json scalify::rt::test::value(const char *name, std::vector<int64_t> shape,
                              Json alias, const char *key, const char *dtype) {
  return {{"name", name}, {"shape", shape}, {"dtype", dtype}, {key, alias}};
}

Json scalify::rt::test::setLoopInterface(Json &m, int64_t rows, int64_t width) {
  Json none = nullptr;
  m["arena_bytes"] = 64;
  m["args"] = {value("sum", {width}, 0, "alias_result"),
               value("stack", {rows, width}, none, "alias_result"),
               value("goes on", {}, 1, "alias_result", "i1"),
               value("next", {}, none, "alias_result", "i1")};
  m["results"] = {value("sum", {width}, 0, "alias_arg"),
                  value("goes on", {}, 2, "alias_arg", "i1")};
  m["buffers"] = {buffer("result", 0, {width}), buffer("arg", 1, {rows, width}),
                  buffer("temp", 0, {64}, "i8"), buffer("result", 1, {}, "i1"),
                  buffer("arg", 3, {}, "i1")};
  Json body;
  body["arena_bytes"] = 64;
  body["args"] = {value("sum", {width}, 0, "alias_result"),
                  value("row", {width}, none, "alias_result")};
  body["results"] = {value("sum", {width}, 0, "alias_arg")};
  body["buffers"] = {buffer("arg", 0, {width}), buffer("arg", 1, {width}),
                     buffer("temp", 0, {width}), buffer("result", 0, {width})};
  return body;
}

Json scalify::rt::test::tinyManifest(int64_t n) {
  Json none = nullptr;
  return {
      {"version", 5},
      {"target", "cpu"},
      {"device", "cpu"},
      {"mcpu", "x86-64"},
      {"recipe", "fp8"},
      {"hash", "0"},
      {"arena_bytes", n * 4},
      {"buffers",
       {buffer("arg", 0, {n}), buffer("arg", 1, {n}), buffer("result", 0, {n}),
        buffer("temp", 0, {n}), buffer("result", 1, {})}},
      {"args",
       {{{"name", "params['w']"},
         {"shape", {n}},
         {"dtype", "f32"},
         {"role", "param"},
         {"scale_exp", none},
         {"alias_result", 0}},
        {{"name", "batch"},
         {"shape", {n}},
         {"dtype", "f32"},
         {"role", "batch"},
         {"scale_exp", none},
         {"alias_result", none}}}},
      {"results",
       {{{"name", "result[0]['w']"},
         {"shape", {n}},
         {"dtype", "f32"},
         {"alias_arg", 0}},
        {{"name", "result[1]"},
         {"shape", Json::array()},
         {"dtype", "f32"},
         {"alias_arg", none}}}},
      {"functions",
       {{"step",
         {{{"op", "kernel"},
           {"symbol", "add"},
           {"bufs", {0, 1, 2}},
           {"rows", n},
           {"grain", 16},
           {"counters", Json::array()},
           {"name", "add"},
           {"loc", "step/add"},
           {"bytes", 12 * n}},
          {{"op", "kernel"},
           {"symbol", "clip"},
           {"bufs", {2, 3}},
           {"rows", n},
           {"grain", 8},
           {"counters", {0}},
           {"name", "clip"},
           {"loc", "step/clip"},
           {"bytes", 8 * n}},
          {{"op", "kernel"},
           {"symbol", "total"},
           {"bufs", {3, 4}},
           {"rows", 1},
           {"grain", 1},
           {"counters", Json::array()},
           {"name", "total"},
           {"loc", "step/total"},
           {"bytes", 4 * n}}}}}},
      {"counters",
       {{{"cast", "w"},
         {"op", "scalify.quantize"},
         {"loc", "step/clip"},
         {"format", "f8E4M3FN"},
         {"elements", n}}}},
      {"report", Json::array()},
      {"remarks", Json::array()},
      {"assumptions", Json::array()}};
}

Json scalify::rt::test::overlapManifest(int64_t n) {
  Json m = tinyManifest(n);
  m["mesh"] = Json::array({{"data", 4}});
  m["arena_bytes"] = 8 * n;
  m["args"] = Json::array({{{"name", "x"}, {"shape", {n}}, {"dtype", "f32"}}});
  m["results"] =
      Json::array({{{"name", "beside"}, {"shape", {n}}, {"dtype", "f32"}},
                   {{"name", "whole"}, {"shape", {n}}, {"dtype", "f32"}}});
  m["buffers"] =
      Json::array({buffer("arg", 0, {n}), buffer("temp", 0, {n}),
                   buffer("temp", 4 * n, {n}), buffer("result", 0, {n}),
                   buffer("result", 1, {n})});
  auto add = [&](int a, int b, int out) -> Json {
    return {{"op", "kernel"}, {"symbol", "add"}, {"bufs", {a, b, out}},
            {"rows", n},      {"grain", 16},     {"counters", Json::array()}};
  };
  auto event = [](const char *op, int event, int stream) -> Json {
    return {{"op", op}, {"event", event}, {"stream", stream}};
  };
  Json sum = {{"op", "collective"}, {"kind", "all_reduce"},
              {"join", "sum"},      {"groups", {{0, 1, 2, 3}}},
              {"src", 1},           {"dst", 2},
              {"name", "sum"},      {"stream", 1}};
  m["counters"] = Json::array();
  m["functions"] = {
      {"step", Json::array({add(0, 0, 1), event("record", 0, 0),
                            event("wait", 0, 1), sum, event("record", 1, 1),
                            add(0, 1, 3), event("wait", 1, 0), add(2, 0, 4)})}};
  return m;
}

std::string scalify::rt::test::kernels() {
  return readFile(SCALIFY_TEST_KERNELS);
}

std::string scalify::rt::test::otherKernels() {
  return readFile(SCALIFY_OTHER_TEST_KERNELS);
}

std::string scalify::rt::test::tinyArtefact(int64_t n) {
  return pack(tinyManifest(n), kernels(), "");
}

Handle scalify::rt::test::load(const std::string &artefact, int threads,
                               scalify_rt_device device) {
  scalify_rt_options options = {};
  options.threads = threads;
  options.device = device;
  scalify_rt_executable *exe = nullptr;
  scalify_rt_load_memory(artefact.data(), artefact.size(), &options, &exe);
  return Handle(exe);
}
