// Damaged artefacts: each gives an error that names the defect.
#include "TestArtefact.h"
#include "loader/CpuFeatures.h"
#include "loader/Manifest.h"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>

using namespace scalify::rt::test;

namespace {
std::string errorOf(const std::string &artefact) {
  Handle exe = load(artefact);
  EXPECT_FALSE(exe);
  return exe ? "" : scalify_rt_last_error();
}

/// Returns the error, "" if it loads.
std::string loadText(const std::string &artefact) {
  return load(artefact) ? "" : scalify_rt_last_error();
}

/// A small artefact without kernels, so that all lengths can be tested.
std::string smallArtefact() {
  Json m = tinyManifest(16);
  m["functions"]["step"] = {
      {{"op", "copy"}, {"src", 0}, {"dst", 3}, {"bytes", 64}}};
  return pack(m, "", "");
}
} // namespace

TEST(Artefact, TruncatedAtEveryLength) {
  std::string whole = smallArtefact();
  ASSERT_TRUE(load(whole)) << scalify_rt_last_error();
  for (size_t size = 0; size < whole.size(); ++size) {
    std::string error = errorOf(whole.substr(0, size));
    ASSERT_TRUE(contains(error, "truncated")) << size << ": " << error;
  }
  EXPECT_TRUE(contains(errorOf(whole + "x"), "bytes too many"));
}

TEST(Artefact, AnyFlippedByteIsNoticed) {
  std::string whole = smallArtefact();
  for (size_t at = 0; at < whole.size(); ++at)
    for (int mask : {0x01, 0x80, 0xff}) {
      std::string bad = whole;
      bad[at] = char(bad[at] ^ mask);
      ASSERT_FALSE(errorOf(bad).empty()) << at;
    }
}

// With a corrected checksum the manifest's own checks must hold: with any byte
// changed, loading must give an error or an executable that runs without
// leaving its buffers (the build with sanitizers checks this).
TEST(Artefact, FlippedManifestWithRightChecksum) {
  std::string whole = tinyArtefact(64);
  uint64_t manifestSize = uint8_t(whole[8]) | uint8_t(whole[9]) << 8;
  int loaded = 0;
  for (size_t at = 32; at < 32 + manifestSize; ++at)
    for (char byte : {'0', '9', '-', '"', '{', ']', ',', '\0', '\xff'}) {
      std::string bad = whole;
      bad[at] = byte;
      reseal(bad);
      scalify_rt_executable *raw = nullptr;
      scalify_rt_options options = {};
      options.threads = 1;
      options.device = SCALIFY_RT_DEVICE_NULL;
      scalify_rt_status status =
          scalify_rt_load_memory(bad.data(), bad.size(), &options, &raw);
      Handle exe(raw);
      ASSERT_EQ(status == SCALIFY_RT_OK, raw != nullptr);
      if (!exe)
        ASSERT_STRNE(scalify_rt_last_error(), "");
      loaded += exe != nullptr;
    }
  EXPECT_GT(loaded, 0); // names may change freely
}

TEST(Artefact, HeaderLies) {
  std::string bad = smallArtefact();
  bad[15] = '\x7f'; // manifest length
  EXPECT_TRUE(contains(errorOf(bad), "claims a manifest of"));
  EXPECT_TRUE(contains(errorOf(std::string(64, 'x')), "'SCALIFY1'"));
  EXPECT_TRUE(contains(errorOf(packText("{", "")), "not JSON"));
  EXPECT_TRUE(contains(errorOf(packText("[]", "")), "must be an object"));
  EXPECT_TRUE(contains(errorOf(packText("{}", "")), "version is missing"));
  std::string deep(200000, '[');
  EXPECT_TRUE(contains(errorOf(packText(deep, "")), "not JSON"));
}

TEST(Artefact, ManifestLies) {
  auto error = [](auto edit) {
    Json m = tinyManifest(64);
    edit(m);
    return errorOf(pack(m, kernels(), ""));
  };
  auto step = [](Json &m) -> Json & { return m["functions"]["step"]; };
  struct Case {
    std::string got, want;
  } cases[] = {
      {error([](Json &m) { m["version"] = 1; }), "manifest version 1"},
      {error([](Json &m) { m["device"] = "tpu"; }), "device 'tpu'"},
      {error([](Json &m) { m["mcpu"] = "native"; }), "CPU 'native'"},
      {error([](Json &m) { m["args"][0]["shape"] = {-1}; }),
       "args[0].shape[0] must be at least 0"},
      {error([](Json &m) {
         m["args"][1]["shape"] = {int64_t(1) << 40, int64_t(1) << 40};
       }),
       "more bytes than fit"},
      {error([](Json &m) { m["args"][0]["dtype"] = "f31"; }),
       "'f31' is not a known element type"},
      {error([](Json &m) { m["args"][0]["alias_result"] = 1; }),
       "alias_result"},
      {error([](Json &m) { m["results"][0]["alias_arg"] = 1; }),
       "whose alias_result is -1"},
      {error([](Json &m) { m["results"][0]["dtype"] = "i32"; }),
       "shares memory with an argument of type f32[64]"},
      {error([](Json &m) { m["buffers"][3]["offset"] = 64; }),
       "past the end of its 256 bytes of temp memory"},
      {error([](Json &m) { m["buffers"][3]["offset"] = 4; }), "multiple of 64"},
      {error([](Json &m) { m["buffers"][0]["offset"] = 2; }),
       "buffers[0].offset must be a multiple of 4"},
      {error([](Json &m) { m["buffers"][0]["index"] = 7; }),
       "buffers[0].index is 7, but there are 2 args"},
      {error([](Json &m) { m["buffers"][0]["kind"] = "heap"; }),
       "'heap' is none of"},
      {error([&](Json &m) { step(m)[0]["symbol"] = "absent"; }),
       "no symbol 'absent'"},
      {error([&](Json &m) { step(m)[0]["bufs"] = {0, 1, 9}; }),
       "functions.step[0].bufs[2] is 9, but there are 5 buffers"},
      {error([&](Json &m) { step(m)[0]["grain"] = 0; }), "grain must be"},
      {error([&](Json &m) { step(m)[1]["counters"] = {1}; }),
       "there are 1 counters"},
      {error([&](Json &m) { step(m)[0]["op"] = "gather"; }),
       "command 'gather'"},
      {error([](Json &m) {
         m["mesh"] = Json::array({{"stages", 2}});
         m["pipeline"] = {{"stages", int64_t(1) << 32}}; // 0 in 32 bits
       }),
       "pipeline.stages do not divide the 2 ranks"},
      // Four threads would have 2^64 bytes, which are 0 in 64 bits.
      {error([](Json &m) { m["tile_bytes"] = int64_t(1) << 62; }),
       "tile_bytes is more than 2^46"},
      {error([&](Json &m) {
         step(m) = {{{"op", "collective"},
                     {"kind", "message"},
                     {"to", 0},
                     {"src", 0},
                     {"dst", 3}}};
       }),
       "'message', which needs a pipeline"},
      {error([](Json &m) { m["arena_bytes"] = int64_t(1) << 61; }),
       "cannot allocate the arena"},
      // Its caller passes memory of the sizes that the root gives.
      {error([&](Json &m) {
         step(m) = {{"arena_bytes", m["arena_bytes"]},
                    {"args", m["args"]},
                    {"results", m["results"]},
                    {"buffers", m["buffers"]},
                    {"commands", step(m)}};
         step(m)["args"][1]["shape"] = {int64_t(1) << 40};
       }),
       "functions.step must be a list of commands"},
  };
  for (const Case &c : cases)
    EXPECT_TRUE(contains(c.got, c.want)) << c.got << "\nwanted: " << c.want;
}

// What the user of a step did not donate may be read by others, and what a loop
// passes may be constant.
TEST(Artefact, WritesNoArgumentThatIsNotDonated) {
  auto fill = [](int64_t buffer) {
    return Json{{"op", "fill"}, {"dst", buffer}, {"bytes", 64}, {"byte", 0}};
  };
  auto loadStep = [](Json commands) {
    Json m = tinyManifest(16);
    m["functions"]["step"] = Json::array({std::move(commands)});
    return loadText(pack(m, kernels(), ""));
  };
  const char want[] = "step[0].dst is written to, but buffer 1 is argument 1, "
                      "which is not donated";
  EXPECT_EQ(loadStep(fill(0)), "");
  EXPECT_TRUE(contains(loadStep(fill(1)), want)) << loadStep(fill(1));
  Json m = tinyManifest(16);
  Json body = setLoopInterface(m, 4, 16);
  body["commands"] = Json::array({fill(1)});
  m["buffers"][1] = buffer("const", 0, {16});
  m["functions"] = {{"body", body},
                    {"step",
                     {{{"op", "loop"},
                       {"function", "body"},
                       {"carries", {0}},
                       {"reads", {1}},
                       {"arena", 2},
                       {"trips", 1}}}}};
  std::string error = loadText(pack(m, kernels(), std::string(64, 0)));
  EXPECT_TRUE(contains(error, "body.commands[0].dst is written to, but buffer "
                              "1 is argument 1, which is not donated"))
      << error;
}

// Copies are done in parts, whose order must not matter.
TEST(Artefact, CopiesOntoThemselves) {
  auto copy = [](Json from, Json to, int64_t bytes) {
    Json m = tinyManifest(64);
    m["arena_bytes"] = 1024;
    m["buffers"] = {std::move(from), std::move(to)};
    m["functions"]["step"] = {
        {{"op", "copy"}, {"src", 0}, {"dst", 1}, {"bytes", bytes}}};
    return loadText(pack(m, kernels(), ""));
  };
  Json first = buffer("temp", 0, {32}), second = buffer("temp", 64, {32});
  const char want[] = "functions.step[0].dst is 64 bytes from 'src', and the "
                      "copied 128 bytes overlap";
  EXPECT_TRUE(contains(copy(first, second, 128), want));
  EXPECT_TRUE(contains(copy(second, first, 128), want));
  // A donated argument is its result's memory.
  Json arg = buffer("arg", 0, {32}), result = buffer("result", 0, {32});
  arg["offset"] = 64;
  EXPECT_TRUE(contains(copy(arg, result, 128), want));
  EXPECT_EQ(copy(first, second, 64), "");
  EXPECT_EQ(copy(first, first, 128), "");
  EXPECT_EQ(copy(buffer("arg", 1, {32}), result, 128), "");
}

// Tasks write a product's result at the same time.
TEST(Artefact, ProductsWriteAnElementOnce) {
  auto product = [](int64_t count, int64_t step, Json strides) {
    Json m = tinyManifest(64);
    m["functions"]["step"] = {{{"op", "gemm"},
                               {"m", 2},
                               {"n", 4},
                               {"k", 2},
                               {"a", 0},
                               {"b", 1},
                               {"c", 3},
                               {"a_strides", {2, 1}},
                               {"b_strides", {4, 1}},
                               {"c_strides", std::move(strides)}}};
    m["functions"]["step"][0]["batch"] = {
        {{"n", count}, {"a", 0}, {"b", 0}, {"c", step}}};
    return loadText(pack(m, kernels(), ""));
  };
  const char want[] = "step[0].c has strides by which elements are written "
                      "twice";
  EXPECT_TRUE(contains(product(int64_t(1) << 30, 0, {4, 1}), want));
  EXPECT_TRUE(contains(product(2, 4, {4, 1}), want));
  EXPECT_EQ(product(2, 8, {4, 1}), "");
  EXPECT_EQ(product(2, 4, {8, 1}), ""); // rows of a matrix in turn
  EXPECT_EQ(product(1, 0, {4, 1}), "");
}

// No machine has such arguments, but their sizes are added.
TEST(Artefact, BytesBeyond64Bits) {
  const int64_t most = int64_t(1) << 62;
  auto bytesOf = [&](Json command, const char *dtype) {
    Json m = tinyManifest(16);
    for (const char *kind : {"args", "results"})
      for (Json &one : m[kind])
        one["shape"] = {most / (dtype == std::string("ui8") ? 1 : 4)},
        one["dtype"] = dtype;
    m["buffers"] = Json::array();
    for (const char *kind : {"arg", "arg", "result"})
      m["buffers"].push_back(buffer(
          kind, kind == std::string("arg") ? int64_t(m["buffers"].size()) : 0,
          {m["args"][0]["shape"][0]}, dtype));
    m["functions"]["step"] = Json::array({std::move(command)});
    std::string artefact = pack(m, kernels(), "");
    size_t length = uint8_t(artefact[8]) | size_t(uint8_t(artefact[9])) << 8;
    return scalify::rt::parseManifest(artefact.substr(32, length),
                                      int64_t(artefact.size()))
        .functions[0]
        .commands[0]
        .bytes;
  };
  Json kernel = {{"op", "kernel"}, {"symbol", "add"}, {"bufs", {0, 1, 2}},
                 {"rows", 1},      {"grain", 1},      {"counters", {}}};
  EXPECT_EQ(bytesOf(kernel, "ui8"), INT64_MAX);
  Json gather = {{"op", "collective"}, {"kind", "all_gather"},
                 {"groups", {{0}}},    {"src", 1},
                 {"dst", 2},           {"name", "whole"}};
  EXPECT_EQ(bytesOf(gather, "ui8"), INT64_MAX);
  Json call = {{"op", "host_call"},
               {"reads", {0, 1}},
               {"writes", {2}},
               {"shapes", Json::array()},
               {"callback", 0}};
  EXPECT_EQ(bytesOf(call, "ui8"), INT64_MAX);
  Json gemm = {{"op", "gemm"},
               {"m", 1},
               {"n", 1},
               {"k", 1},
               {"a", 0},
               {"b", 1},
               {"c", 2},
               {"a_strides", {1, 1}},
               {"b_strides", {1, 1}},
               {"c_strides", {1, 1}}};
  EXPECT_EQ(bytesOf(gemm, "f32"), INT64_MAX);
}

/// Kernels with a constructor, which sets an environment variable when the
/// dynamic linker loads them.
std::string kernelsThatRunAtLoad() {
  return readFile(SCALIFY_RUNNING_TEST_KERNELS);
}

bool hasRun() { return std::getenv("SCALIFY_TEST_RAN") != nullptr; }

TEST(Artefact, NothingOfItRunsBeforeItsChecks) {
  ::unsetenv("SCALIFY_TEST_RAN");
  const std::string code = kernelsThatRunAtLoad();
  const std::string whole = pack(tinyManifest(16), code, "");
  std::string damaged = whole;
  damaged.back() = char(damaged.back() ^ 1);
  EXPECT_TRUE(contains(errorOf(damaged), "checksum does not match"));
  EXPECT_TRUE(
      contains(errorOf(whole.substr(0, whole.size() - 1)), "truncated"));
  const std::function<void(Json &)> lies[] = {
      [](Json &m) { m["version"] = 1; },
      [](Json &m) { m["mcpu"] = "sapphirerapids-of-tomorrow"; },
      [](Json &m) { m["device"] = "cuda", m["capability"] = 90; },
      [](Json &m) { m["buffers"].back()["offset"] = 1 << 20; },
      // The last command, after those that are fine.
      [](Json &m) { m["functions"]["step"].back()["bufs"] = {0, 99}; }};
  for (const auto &lie : lies) {
    Json manifest = tinyManifest(16);
    lie(manifest);
    EXPECT_NE(errorOf(pack(manifest, code, "")), "");
    EXPECT_FALSE(hasRun()) << manifest;
  }
  // The test sees it if it runs.
  EXPECT_TRUE(load(whole)) << scalify_rt_last_error();
  EXPECT_TRUE(hasRun());
}

TEST(Artefact, KernelsThatAreNoSharedObject) {
  EXPECT_TRUE(contains(errorOf(pack(tinyManifest(16), "not elf", "")),
                       "not an ELF shared object"));
  std::string cut = kernels().substr(0, 200);
  EXPECT_TRUE(contains(errorOf(pack(tinyManifest(16), cut, "")),
                       "cannot load the kernels"));
}

TEST(Artefact, Files) {
  scalify_rt_executable *exe = nullptr;
  EXPECT_EQ(scalify_rt_load_file("/absent/step.scalify", nullptr, &exe),
            SCALIFY_RT_IO);
  EXPECT_TRUE(contains(scalify_rt_last_error(), "/absent/step.scalify"));
  EXPECT_EQ(scalify_rt_load_file("/tmp", nullptr, &exe), SCALIFY_RT_IO);
  std::string path = testing::TempDir() + "/runtime-test.scalify";
  std::ofstream(path, std::ios::binary) << tinyArtefact(16);
  ASSERT_EQ(scalify_rt_load_file(path.c_str(), nullptr, &exe), SCALIFY_RT_OK);
  EXPECT_TRUE(contains(scalify_rt_manifest(exe), "\"recipe\":\"fp8\""));
  scalify_rt_free(exe);
  std::remove(path.c_str());
}

TEST(Artefact, TasksDependOnTheKernelAlone) {
  using scalify::rt::chooseRowsPerTask;
  EXPECT_EQ(chooseRowsPerTask(0, 16, 1 << 20), 1);
  EXPECT_EQ(chooseRowsPerTask(7, 16, 1 << 20), 7);
  EXPECT_EQ(chooseRowsPerTask(2048, 16, 0), 32);
  EXPECT_EQ(chooseRowsPerTask(2048, 16, 1000), 2048);
  for (int64_t rows : {17, 1000, 2048, 123457})
    for (int64_t grain : {1, 8, 16, 100})
      for (int64_t bytes : {0, 100000, 1 << 30}) {
        int64_t chunk = chooseRowsPerTask(rows, grain, bytes);
        EXPECT_TRUE(chunk >= rows || chunk % grain == 0);
        EXPECT_LE((rows - 1) / chunk + 1, 64);
      }
}

TEST(Artefact, CpuLevels) {
  using namespace scalify::rt;
  EXPECT_EQ(levelOf("x86-64-v3"), 3);
  EXPECT_EQ(levelOf("haswell"), 3);
  EXPECT_EQ(levelOf("native"), -1);
  EXPECT_EQ(hostLevel() >= 3, bool(__builtin_cpu_supports("avx2")));
  EXPECT_EQ(hostLevel() >= 4, bool(__builtin_cpu_supports("avx512bw")));
}
