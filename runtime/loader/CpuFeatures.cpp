// The levels are those of the x86-64 psABI. An instruction set counts only if
// the operating system saves its registers, which XCR0 shows.
#include "loader/CpuFeatures.h"
#include "support/Error.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

using namespace scalify::rt;

#if defined(__x86_64__)
namespace {
struct Leaf {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  explicit Leaf(uint32_t leaf, uint32_t part = 0) {
    if (!__get_cpuid_count(leaf, part, &a, &b, &c, &d))
      a = b = c = d = 0;
  }
};

bool all(uint32_t word, std::initializer_list<int> bits) {
  for (int bit : bits)
    if (!(word >> bit & 1))
      return false;
  return true;
}

uint64_t savedState() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}
} // namespace

int scalify::rt::hostLevel() {
  Leaf one(1), seven(7), extended(0x80000001u);
  // ssse3, cmpxchg16b, sse4.1, sse4.2, popcnt, sse3; lahf.
  if (!all(one.c, {0, 9, 13, 19, 20, 23}) || !all(extended.c, {0}))
    return 1;
  // fma, movbe, osxsave, avx, f16c; bmi1, avx2, bmi2; lzcnt.
  if (!all(one.c, {12, 22, 27, 28, 29}) || !all(seven.b, {3, 5, 8}) ||
      !all(extended.c, {5}) || (savedState() & 0x6) != 0x6)
    return 2;
  // avx512 f, dq, cd, bw, vl; opmask and zmm state.
  if (!all(seven.b, {16, 17, 28, 30, 31}) || (savedState() & 0xe0) != 0xe0)
    return 3;
  return 4;
}

bool scalify::rt::hasBF16Unit() {
  // avx512_bf16; amx_bf16 comes with it on every processor so far.
  return hostLevel() >= 4 && all(Leaf(7, 1).a, {5});
}

bool scalify::rt::hasFastBF16Unit() {
  // "GenuineIntel". One core of Emerald Rapids with AMX hidden has 93 GFLOP/s
  // in vectors of BF16 and 190 in F32, one of Zen 5 twice as much as in F32
  // (benchmarks/peaks.cpp).
  Leaf vendor(0);
  bool isIntel = vendor.b == 0x756e6547 && vendor.d == 0x49656e69 &&
                 vendor.c == 0x6c65746e;
  return hasBF16Unit() && !isIntel;
}

bool scalify::rt::hasAmxBF16() {
  // amx_bf16, amx_tile; configuration and data of tiles.
  return hostLevel() >= 4 && all(Leaf(7).d, {22, 24}) &&
         (savedState() & 0x60000) == 0x60000;
}
#else
int scalify::rt::hostLevel() { return 0; }
bool scalify::rt::hasBF16Unit() { return false; }
bool scalify::rt::hasFastBF16Unit() { return false; }
bool scalify::rt::hasAmxBF16() { return false; }
#endif

int scalify::rt::levelOf(const std::string &mcpu) {
  struct Known {
    const char *name;
    int level;
  };
  // The compiler's default and other common names. Names that are not listed
  // are refused, since nothing can be checked for them.
  static constexpr Known known[] = {
      {"x86-64", 1},         {"x86-64-v2", 2},      {"x86-64-v3", 3},
      {"x86-64-v4", 4},      {"haswell", 3},        {"broadwell", 3},
      {"skylake", 3},        {"znver1", 3},         {"znver2", 3},
      {"znver3", 3},         {"skylake-avx512", 4}, {"cascadelake", 4},
      {"icelake-server", 4}, {"znver4", 4},
  };
  for (const Known &entry : known)
    if (mcpu == entry.name)
      return entry.level;
  return -1;
}

void scalify::rt::requireCpu(const std::string &mcpu) {
  int need = levelOf(mcpu);
  if (need < 0)
    unsupported("artefact was compiled for the CPU '" + mcpu +
                "', which this runtime cannot check; compile with "
                "--mcpu=x86-64, x86-64-v2, x86-64-v3 or x86-64-v4");
  int have = hostLevel();
  if (have < need)
    unsupported("artefact was compiled for '" + mcpu +
                "', this machine has level x86-64-v" + std::to_string(have) +
                "; compile with --mcpu=x86-64" +
                (have > 1 ? "-v" + std::to_string(have) : ""));
}
