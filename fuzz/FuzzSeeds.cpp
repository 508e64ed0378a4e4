// FuzzSeeds FOLDER writes seeds for the fuzz targets: the manifests of the
// runtime's tests, and messages as ranks send them.
#include "NcclRanks.h"
#include "Wrap.h"
#include "comm/Message.h"
#include "comm/tcp/Greeting.h"
#include "comm/tcp/Link.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
std::filesystem::path folder;

void write(const char *kind, const std::string &name, const std::string &text) {
  std::filesystem::create_directories(folder / kind);
  std::ofstream(folder / kind / name, std::ios::binary) << text;
}

int numBad = 0;

/// A seed that does not load would hide what lies behind.
void writeManifest(const std::string &name, const Json &manifest) {
  write("ArtefactFuzz", name, manifest.dump());
  if (load(scalify::fuzz::wrap(manifest, ""), 1, SCALIFY_RT_DEVICE_NULL))
    return;
  ++numBad;
  std::fprintf(stderr, "FuzzSeeds: %s: %s\n", name.c_str(),
               scalify_rt_last_error());
}

template <typename T> std::string bytesOf(const T &message) {
  return {reinterpret_cast<const char *>(&message), sizeof(message)};
}

Json withStep(Json manifest, Json commands) {
  manifest["functions"]["step"] = std::move(commands);
  return manifest;
}

/// A product with a mask of its ReLU, and one with a bias.
Json epilogueManifest() {
  const int64_t room = 1 << 14;
  Json m = gpuManifest();
  m["arena_bytes"] = 6 * room;
  m["buffers"] = {buffer("temp", 0, {room / 2}, "bf16"),
                  buffer("temp", room, {room / 2}, "bf16"),
                  buffer("temp", 2 * room, {room / 2}, "bf16"),
                  buffer("temp", 3 * room, {128}, "bf16"),
                  buffer("temp", 4 * room, {32, 16}, "ui8")};
  Json gemm = {{"op", "gemm"},
               {"m", 32},
               {"n", 48},
               {"k", 64},
               {"a", 0},
               {"b", 1},
               {"c", 2},
               {"batch", Json::array()},
               {"a_strides", {64, 1}},
               {"b_strides", {1, 64}},
               {"c_strides", {48, 1}},
               {"epilogue", "relu"},
               {"aux", 4}};
  Json biased = gemm;
  biased.erase("aux");
  biased.update({{"epilogue", "bias_gelu"}, {"bias", 3}, {"bias_off", 16}});
  return withStep(m, {gemm, biased});
}

Json attentionManifest() {
  const int64_t room = 1 << 14;
  Json m = gpuManifest();
  m["arena_bytes"] = 5 * room;
  m["buffers"] = Json::array();
  for (int64_t i = 0; i < 5; ++i)
    m["buffers"].push_back(i == 4
                               ? buffer("temp", i * room, {room / 4})
                               : buffer("temp", i * room, {room / 2}, "bf16"));
  Json command = {{"op", "attention"}, {"sizes", {2, 4, 2, 16, 16, 32}},
                  {"scale", 0.125},    {"causal", true},
                  {"gradient", false}, {"reads", {0, 1, 2}},
                  {"writes", {3, 4}}};
  for (int matrix = 0; matrix < 4; ++matrix)
    for (int number : {0, 1024, 32, 64})
      command["windows"].push_back(number);
  return withStep(m, Json::array({command}));
}

/// A step of two stages, of one rank each, on a CPU.
Json pipelineManifest() {
  Json message = {{"op", "collective"}, {"kind", "message"}, {"to", 1},
                  {"src", 0},           {"dst", 3},          {"name", "next"}};
  Json m = withStep(tinyManifest(16), Json::array({message}));
  m["mesh"] = Json::array({{"stages", 2}});
  m["pipeline"] = {{"stages", 2}};
  return m;
}

Json hostCallManifest() {
  Json call = {{"op", "host_call"},
               {"reads", {0}},
               {"writes", {3}},
               {"shapes", Json::array()},
               {"callback", 0}};
  return withStep(tinyManifest(16), Json::array({call}));
}

/// Collectives of one rank, which copy.
Json singleRankManifest() {
  Json m = tinyManifest(16);
  m["arena_bytes"] = 256;
  m["buffers"] = {buffer("arg", 0, {16}), buffer("temp", 0, {16}),
                  buffer("temp", 64, {16}), buffer("temp", 128, {32})};
  Json gather = {{"op", "collective"}, {"kind", "all_gather"},
                 {"groups", {{0}}},    {"src", 1},
                 {"dst", 2},           {"name", "whole"}};
  return withStep(m, Json::array({gather}));
}

/// sum = the rows of `stack`, one after the other; then as a loop of a
/// condition, which the body replaces by the fourth argument.
Json loopManifest(bool isOpen) {
  Json m = tinyManifest(16);
  m["counters"] = Json::array();
  Json body = setLoopInterface(m, 4, 16);
  body["commands"] = {{{"op", "copy"}, {"src", 1}, {"dst", 3}, {"bytes", 64}}};
  Json loop = {{"op", "loop"},
               {"function", "body"},
               {"carries", {0}},
               {"reads", {1}},
               {"arena", 2},
               {"trips", 6},
               {"slices", {1, 0, 64, 192}}};
  if (isOpen) {
    body["args"] = {value("sum", {16}, 0, "alias_result"),
                    value("goes on", {}, 1, "alias_result", "i1"),
                    value("row", {16}, nullptr, "alias_result"),
                    value("next", {}, nullptr, "alias_result", "i1")};
    body["results"].push_back(value("goes on", {}, 1, "alias_arg", "i1"));
    body["buffers"][1]["index"] = 2;
    body["buffers"].push_back(buffer("result", 1, {}, "i1"));
    body["buffers"].push_back(buffer("arg", 3, {}, "i1"));
    body["commands"].push_back(
        {{"op", "copy"}, {"src", 5}, {"dst", 4}, {"bytes", 1}});
    loop["carries"] = {0, 3};
    loop["reads"] = {1, 4};
    loop["slices"] = {2, 128, -64, 192};
    loop.erase("trips");
    loop["while"] = 1;
  }
  m["functions"] = {{"body", body}, {"step", Json::array({loop})}};
  return m;
}

/// A product of products, the first in memory of one tile.
Json tilesManifest() {
  Json m = tinyManifest(16);
  m["arena_bytes"] = 0;
  m["tile_bytes"] = 64;
  Json none = nullptr;
  m["args"] = {value("a", {8, 4, 4}, none, "alias_result"),
               value("b", {8, 4, 4}, none, "alias_result")};
  m["results"] = {value("c", {8, 4, 4}, none, "alias_arg")};
  Json tile = buffer("tile", 0, {8, 4, 4});
  tile["tiles"] = 8;
  m["buffers"] = {buffer("arg", 0, {8, 4, 4}), buffer("arg", 1, {8, 4, 4}),
                  tile, buffer("result", 0, {8, 4, 4})};
  Json first = {{"op", "gemm"},
                {"m", 4},
                {"n", 4},
                {"k", 4},
                {"a", 0},
                {"b", 1},
                {"c", 2},
                {"a_strides", {4, 1}},
                {"tiles", {8, 0}},
                {"b_strides", {4, 1}},
                {"c_strides", {4, 1}}};
  first["batch"] = {{{"n", 8}, {"a", 16}, {"b", 16}, {"c", 16}}};
  Json second = first;
  second["a"] = 2;
  second["c"] = 3;
  return withStep(m, {first, second});
}

/// Cholesky factors of two matrices.
Json lapackManifest() {
  Json m = tinyManifest(16);
  m["arena_bytes"] = 4096;
  m["buffers"] = {buffer("arg", 0, {16}), buffer("temp", 0, {2, 2, 2}),
                  buffer("temp", 64, {2, 2, 2}),
                  buffer("temp", 128, {2}, "i32"), buffer("temp", 192, {256})};
  Json call = {{"op", "lapack"}, {"routine", "potrf"},
               {"letters", "L"}, {"sizes", {2, 2, 2, 0}},
               {"reads", {1}},   {"writes", {2, 3}},
               {"work", 4}};
  return withStep(m, Json::array({call}));
}

void writeManifests() {
  writeManifest("loop", loopManifest(false));
  writeManifest("while", loopManifest(true));
  writeManifest("tiles", tilesManifest());
  writeManifest("lapack", lapackManifest());
  writeManifest("epilogue", epilogueManifest());
  writeManifest("attention", attentionManifest());
  writeManifest("pipeline", pipelineManifest());
  writeManifest("host_call", hostCallManifest());
  writeManifest("single", singleRankManifest());
  writeManifest("tiny", tinyManifest(64));
  writeManifest("overlap", overlapManifest(64));
  writeManifest("gpu", gpuManifest());
  for (const char *kind : {"all_gather", "all_reduce", "permute"}) {
    Json collective = collectiveOf(
        kind, kind == std::string("all_reduce") ? "sum" : "none", {{0, 1}});
    int64_t results = kind == std::string("all_gather") ? 8 : 4;
    writeManifest(kind, gpuCollective(collective, results, 2));
  }
  // Steps without kernels run: copies, fills, a product.
  writeManifest(
      "copy",
      withStep(tinyManifest(16),
               {{{"op", "copy"}, {"src", 0}, {"dst", 3}, {"bytes", 64}},
                {{"op", "fill"}, {"dst", 3}, {"bytes", 64}, {"byte", 0}}}));
  Json gemm = {{"op", "gemm"},
               {"a", 0},
               {"b", 1},
               {"c", 3},
               {"m", 4},
               {"n", 4},
               {"k", 4},
               {"a_strides", {4, 1}},
               {"b_strides", {4, 1}},
               {"c_strides", {4, 1}},
               {"alpha", 1.0},
               {"beta", 0.0},
               {"batch", Json::array()}};
  writeManifest("gemm", withStep(tinyManifest(16), Json::array({gemm})));
}

void writeMessages() {
  tcp::Hello hello = {};
  hello.magic = tcp::greetingMagic;
  hello.job = tcp::hashJobName("job");
  hello.rank = 1;
  hello.size = 2;
  write("MessageFuzz", "hello", std::string(2, '\0') + bytesOf(hello));
  std::string answers = bytesOf(tcp::Challenge()) + bytesOf(tcp::Verdict());
  write("MessageFuzz", "answers", "\1" + answers);
  tcp::Frame data, note;
  data.length = 64;
  note.kind = tcp::Frame::Stopped;
  note.rank = 2;
  note.length = 5;
  write("MessageFuzz", "frames",
        std::string("\2\x10\xff") + bytesOf(data) + std::string(65, '\0') +
            bytesOf(note) + "\xffworse");
  Collective collective;
  collective.elements = 8;
  collective.members = {0, 1};
  collective.name = "grads";
  write("MessageFuzz", "header", "\3" + bytesOf(makeHeader(collective, 3)));
  write("MessageFuzz", "notice",
        "\4scalify 29500 node1 " + std::to_string(tcp::hashJobName("job")) +
            " 0123456789abcdef\n");
}

void writeSafetensors() {
  auto file = [](const std::string &header, size_t bytes) {
    uint64_t length = header.size();
    return bytesOf(length) + header + std::string(bytes, '\x3f');
  };
  Json some;
  int64_t at = 0;
  auto add = [&](const char *dtype, std::vector<int64_t> shape, int64_t bytes) {
    some[std::string("params['") + dtype + "']"] = {
        {"dtype", dtype}, {"shape", shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  };
  add("F64", {2}, 16);
  add("F32", {2, 3}, 24);
  add("C64", {1}, 8);
  add("I64", {}, 8);
  add("BF16", {3}, 6);
  add("F16", {2}, 4);
  add("F8_E4M3", {4}, 4);
  add("F8_E5M2", {0, 4}, 0);
  add("BOOL", {1}, 1);
  write("SafetensorsFuzz", "some", file(some.dump(), size_t(at)));
  some["__metadata__"] = {{"format", "pt"}};
  write("SafetensorsFuzz", "metadata", file(some.dump() + "   ", size_t(at)));
  write("SafetensorsFuzz", "none", file("{}", 0));
}
} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: FuzzSeeds FOLDER\n");
    return 2;
  }
  folder = argv[1];
  writeManifests();
  writeMessages();
  writeSafetensors();
  return numBad ? 1 : 0;
}
