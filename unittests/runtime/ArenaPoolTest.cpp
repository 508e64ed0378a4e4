// Memory for temporaries that executables share.
#include "support/ArenaPool.h"

#include <gtest/gtest.h>

using namespace scalify::rt;

namespace {

constexpr size_t small = 1 << 12, large = 1 << 20;

/// Takes memory and gives it back; returns its address.
const uint8_t *borrow(ArenaPool &pool, size_t bytes) {
  PageMemory memory = pool.take(bytes);
  EXPECT_GE(memory.size(), bytes);
  memory.data()[bytes - 1] = 1;
  const uint8_t *address = memory.data();
  pool.giveBack(std::move(memory), bytes);
  return address;
}

TEST(ArenaPool, RunsAfterOneAnotherShareMemory) {
  ArenaPool pool;
  pool.join(small);
  pool.join(large);
  const uint8_t *first = borrow(pool, large);
  EXPECT_EQ(borrow(pool, small), first);
  EXPECT_EQ(borrow(pool, large), first);
}

TEST(ArenaPool, RunsAtOnceHaveMemoryOfTheirOwn) {
  ArenaPool pool;
  pool.join(large);
  pool.join(large);
  PageMemory one = pool.take(large), other = pool.take(large);
  ASSERT_NE(one.data(), other.data());
  const uint8_t *addresses[] = {one.data(), other.data()};
  pool.giveBack(std::move(one), large);
  pool.giveBack(std::move(other), large);
  PageMemory again = pool.take(large), both = pool.take(large);
  EXPECT_NE(again.data(), both.data());
  for (const PageMemory *memory : {&again, &both})
    EXPECT_TRUE(memory->data() == addresses[0] ||
                memory->data() == addresses[1]);
}

TEST(ArenaPool, FreesWhatNobodyNeeds) {
  ArenaPool pool;
  pool.join(small);
  pool.join(large);
  borrow(pool, large);
  pool.leave(large);
  // The large memory is gone: that of a small run is small.
  PageMemory memory = pool.take(small);
  EXPECT_EQ(memory.size(), small);
  // What is given back after its executable left is freed too.
  pool.leave(small);
  pool.giveBack(std::move(memory), small);
  pool.join(large);
  EXPECT_EQ(pool.take(large).size(), large);
}

TEST(ArenaPool, KeepsNoMoreThanTheSumOfNeeds) {
  ArenaPool pool;
  pool.join(large);
  pool.join(small);
  for (int turn : {0, 1}) {
    // In the first turn the small run takes the large memory.
    PageMemory one = pool.take(small), other = pool.take(large);
    EXPECT_EQ(one.size(), turn == 0 ? large : small);
    pool.giveBack(std::move(other), large);
    pool.giveBack(std::move(one), small);
    PageMemory again = pool.take(large), rest = pool.take(small);
    EXPECT_EQ(again.size(), large);
    EXPECT_EQ(rest.size(), small);
    pool.giveBack(std::move(rest), small);
    pool.giveBack(std::move(again), large);
  }
  // What is dropped no longer counts.
  pool.drop(pool.take(large));
  const uint8_t *first = borrow(pool, large);
  EXPECT_EQ(borrow(pool, large), first);
}

TEST(ArenaPool, KeepsTheErrorOfTooMuchMemory) {
  ArenaPool pool;
  constexpr size_t tooMuch = size_t(1) << 62;
  EXPECT_ANY_THROW(pool.join(tooMuch));
  pool.join(small);
  EXPECT_EQ(pool.take(small).size(), small);
}

} // namespace
