// Collectives of ranks as threads and processes, and reductions of elements.
#include "CommChecks.h"
#include "CommRanks.h"
#include "comm/JoinParts.h"
#include "support/Error.h"
#include "support/FloatFormats.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace scalify::rt;
using namespace scalify::test;

namespace {
void expectNoFaults(const std::vector<std::string> &texts) {
  for (const std::string &text : texts)
    EXPECT_EQ(text, "");
}

TEST(Comm, ThreadsGetWhatAPlainComputationGives) {
  for (int32_t size : {1, 2, 3, 8})
    expectNoFaults(runThreads(size, checkSmall));
}

TEST(Comm, ProcessesGetWhatAPlainComputationGives) {
  for (int32_t size : {1, 2, 3, 8})
    expectNoFaults(runProcesses(size, checkSmall));
}

TEST(Comm, MessagesMayBeLongerThanAllBuffers) {
  expectNoFaults(runProcesses(2, checkLong));
  expectNoFaults(runThreads(3, checkLong));
}

TEST(Comm, SumsOfNarrowFormatsAreRoundedOnce) {
  // 256 + 1 + 1 + ... in BF16: rounding after each addition would stay at 256.
  std::vector<uint16_t> parts(9, f32ToBF16(1.0f));
  parts[0] = f32ToBF16(256.0f);
  std::vector<const void *> pointers;
  for (const uint16_t &part : parts)
    pointers.push_back(&part);
  uint16_t sum = 0;
  joinParts(Join::Sum, DType::BF16, pointers, &sum, 1);
  EXPECT_EQ(bf16ToF32(sum), 264.0f);

  // FP8 saturates: 448 is E4M3FN's largest.
  std::vector<uint8_t> large(2, f32ToF8E4M3FN(448.0f));
  uint8_t result = 0;
  joinParts(Join::Sum, DType::F8E4M3FN, {&large[0], &large[1]}, &result, 1);
  EXPECT_EQ(f8E4M3FNToF32(result), 448.0f);
}

TEST(Comm, ExtremesPropagateNaNAndOrderZeros) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> a = {nan, 1, 0.0f, -0.0f, -1};
  std::vector<float> b = {1, nan, -0.0f, 0.0f, -2};
  std::vector<float> high(5), low(5);
  joinParts(Join::Max, DType::F32, {a.data(), b.data()}, high.data(), 5);
  joinParts(Join::Min, DType::F32, {a.data(), b.data()}, low.data(), 5);
  for (size_t i : {0, 1}) {
    EXPECT_TRUE(std::isnan(high[i]));
    EXPECT_TRUE(std::isnan(low[i]));
  }
  for (size_t i : {2, 3}) {
    EXPECT_FALSE(std::signbit(high[i]));
    EXPECT_TRUE(std::signbit(low[i]));
  }
  EXPECT_EQ(high[4], -1);
  EXPECT_EQ(low[4], -2);
}

TEST(Comm, TruthValuesJoinAsLogicHasIt) {
  const std::vector<uint8_t> a = {0, 0, 1, 1}, b = {0, 1, 0, 1};
  const std::vector<uint8_t> both = {0, 0, 0, 1}, either = {0, 1, 1, 1};
  for (Join join :
       {Join::And, Join::Or, Join::Sum, Join::Product, Join::Max, Join::Min}) {
    std::vector<uint8_t> result(4);
    joinParts(join, DType::I1, {a.data(), b.data()}, result.data(), 4);
    bool isAnd =
        join == Join::And || join == Join::Product || join == Join::Min;
    EXPECT_EQ(result, isAnd ? both : either) << name(join);
  }
  EXPECT_THROW(requireReduction(Join::And, DType::F32), Error);
}

TEST(Comm, BytesAreThoseOfTheFormula) {
  // 10 elements for 4 members are pieces of 3, 3, 2 and 2.
  std::vector<int32_t> all = {0, 1, 2, 3};
  auto sent = [&](Collective::Kind kind, int64_t elements, int32_t rank) {
    Collective c;
    c.kind = kind;
    c.elements = elements;
    c.members = all;
    return bytesSent(c, rank);
  };
  EXPECT_EQ(sent(Collective::Kind::AllReduce, 10, 0), (7 + 3 * 3) * 4);
  EXPECT_EQ(sent(Collective::Kind::AllReduce, 10, 3), (8 + 3 * 2) * 4);
  EXPECT_EQ(sent(Collective::Kind::ReduceScatter, 12, 1), 9 * 4);
  EXPECT_EQ(sent(Collective::Kind::AllGather, 3, 1), 9 * 4);
  EXPECT_EQ(sent(Collective::Kind::AllToAll, 12, 2), 9 * 4);
  EXPECT_EQ(sent(Collective::Kind::Broadcast, 5, 0), 15 * 4);
  EXPECT_EQ(sent(Collective::Kind::Broadcast, 5, 1), 0);
}
} // namespace
