// Compares our declarations of NCCL with nccl.h, at compile time, if present;
// and looks up the library's symbols, if present.
#include "SameCall.h"
#include "device/cuda/Nccl.h"

#include <dlfcn.h>

#include <gtest/gtest.h>

#ifdef SCALIFY_NCCL_HEADERS
#include <nccl.h>

namespace ours = scalify::rt::cuda;

namespace {
using namespace scalify::rt::cuda;
using scalify::test::SameCall;

#define SCALIFY_CHECK(name, ...)                                               \
  static_assert(SameCall<__VA_ARGS__, decltype(::name)>::value, #name);
SCALIFY_NCCL_ENTRIES(SCALIFY_CHECK)
#undef SCALIFY_CHECK

#define SCALIFY_CHECK(name, real)                                              \
  static_assert(int(ours::name) == int(real), #name);
SCALIFY_CHECK(NcclSuccess, ncclSuccess)
SCALIFY_CHECK(NcclUnhandledCudaError, ncclUnhandledCudaError)
SCALIFY_CHECK(NcclSystemError, ncclSystemError)
SCALIFY_CHECK(NcclInternalError, ncclInternalError)
SCALIFY_CHECK(NcclInvalidArgument, ncclInvalidArgument)
SCALIFY_CHECK(NcclInvalidUsage, ncclInvalidUsage)
SCALIFY_CHECK(NcclRemoteError, ncclRemoteError)
SCALIFY_CHECK(NcclInProgress, ncclInProgress)
SCALIFY_CHECK(NcclInt8, ncclInt8)
SCALIFY_CHECK(NcclUint8, ncclUint8)
SCALIFY_CHECK(NcclInt32, ncclInt32)
SCALIFY_CHECK(NcclUint32, ncclUint32)
SCALIFY_CHECK(NcclInt64, ncclInt64)
SCALIFY_CHECK(NcclUint64, ncclUint64)
SCALIFY_CHECK(NcclFloat16, ncclFloat16)
SCALIFY_CHECK(NcclFloat32, ncclFloat32)
SCALIFY_CHECK(NcclFloat64, ncclFloat64)
SCALIFY_CHECK(NcclBfloat16, ncclBfloat16)
SCALIFY_CHECK(NcclFloat8e4m3, ncclFloat8e4m3)
SCALIFY_CHECK(NcclFloat8e5m2, ncclFloat8e5m2)
SCALIFY_CHECK(NcclSum, ncclSum)
SCALIFY_CHECK(NcclProd, ncclProd)
SCALIFY_CHECK(NcclMax, ncclMax)
SCALIFY_CHECK(NcclMin, ncclMin)
SCALIFY_CHECK(ncclVersionOfSplit, NCCL_VERSION(2, 18, 0))
SCALIFY_CHECK(ncclVersionOfFP8, NCCL_VERSION(2, 24, 0))
SCALIFY_CHECK(NcclConfig::unset, NCCL_CONFIG_UNDEF_INT)
#undef SCALIFY_CHECK

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
// A prefix of NCCL's struct: every field is at the offset that the library
// reads.
#define SCALIFY_CHECK(name)                                                    \
  static_assert(offsetof(NcclConfig, name) == offsetof(ncclConfig_t, name));
SCALIFY_CHECK(size)
SCALIFY_CHECK(magic)
SCALIFY_CHECK(version)
SCALIFY_CHECK(blocking)
SCALIFY_CHECK(cgaClusterSize)
SCALIFY_CHECK(minCTAs)
SCALIFY_CHECK(maxCTAs)
SCALIFY_CHECK(netName)
SCALIFY_CHECK(splitShare)
#undef SCALIFY_CHECK
static_assert(offsetof(NcclConfig, afterwards) ==
              offsetof(ncclConfig_t, trafficClass));
} // namespace

TEST(NcclAbi, IsThatOfNvidiasHeader) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const NcclConfig config;
  EXPECT_EQ(config.magic, theirs.magic);
  EXPECT_EQ(config.netName, theirs.netName);
  EXPECT_EQ(config.afterwards, theirs.trafficClass);
}
#else
TEST(NcclAbi, IsThatOfNvidiasHeader) {
  GTEST_SKIP() << "no nccl.h and cuda_runtime.h: nothing to compare with";
}
#endif

#ifdef SCALIFY_NCCL_LIBRARY
TEST(NcclAbi, LibraryHasTheEntries) {
  using namespace scalify::rt::cuda;
  void *library = dlopen(SCALIFY_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
#define SCALIFY_FIND(name, ...) EXPECT_TRUE(dlsym(library, #name)) << #name;
  SCALIFY_NCCL_ENTRIES(SCALIFY_FIND)
#undef SCALIFY_FIND
  auto getVersion =
      reinterpret_cast<NcclStatus (*)(int *)>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  EXPECT_EQ(getVersion(&version), NcclSuccess);
  EXPECT_GE(version, ncclVersionOfSplit);
}
#endif
