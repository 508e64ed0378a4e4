// Calls of LAPACK stay within the work space that their shapes give: OpenBLAS
// writes there without a sanitizer, so that guards stand behind it.
#include "blas/Lapack.h"

#include "gtest/gtest.h"

#include <random>

using namespace scalify::rt;

namespace {
constexpr int64_t guards = 64;

/// All combinations of a routine's letters.
std::vector<std::string> lettersOf(LapackRoutine routine) {
  std::vector<std::string> all = {""};
  for (std::string_view option : traitsOf(routine).letters) {
    std::vector<std::string> longer;
    for (const std::string &begun : all)
      for (char letter : option)
        longer.push_back(begun + letter);
    if (!longer.empty())
      all = std::move(longer);
  }
  return all;
}

/// The buffers of a call, whose work space and integers end in guards.
template <typename T> struct Call {
  LapackCall call;
  std::vector<std::vector<T>> floats;
  std::vector<std::vector<int32_t>> numbers;
  std::vector<void *> buffers;
  std::vector<T> work;
  std::vector<int32_t> integers;

  void add(const LapackOperand &operand, std::mt19937 &random) {
    std::uniform_real_distribution<T> uniform(-1, 1);
    for (int64_t part = 0; part < operand.parts(); ++part) {
      if (operand.isInteger) {
        numbers.emplace_back(operand.elements() + 1, 0);
        buffers.push_back(numbers.back().data());
        continue;
      }
      std::vector<T> &buffer = floats.emplace_back(operand.elements() + 1);
      for (T &one : buffer)
        one = uniform(random);
      // A diagonal that lets every factorization succeed.
      for (int64_t i = 0; part == 0 && i < operand.rows && i < operand.cols;
           ++i)
        buffer[i * operand.cols + i] += T(2) * operand.cols;
      buffers.push_back(buffer.data());
    }
  }

  void run() {
    std::mt19937 random(7);
    for (const auto *operands : {&call.signature.reads, &call.signature.writes})
      for (const LapackOperand &operand : *operands)
        add(operand, random);
    call.isDouble = sizeof(T) == 8;
    call.tasks = 1;
    call.function = findLapackRoutine(call.shape, call.isDouble);
    work.assign(call.signature.floats() + guards, T(-77));
    integers.assign(call.signature.integers() + guards, -77);
    buffers.push_back(work.data());
    runLapackTask(call, buffers.data(), integers.data(), 0);
    for (int64_t i = 0; i < guards; ++i) {
      EXPECT_EQ(work[work.size() - 1 - i], T(-77));
      EXPECT_EQ(integers[integers.size() - 1 - i], -77);
    }
  }
};

template <typename T> void runAll(LapackShape shape) {
  Call<T> made;
  made.call.shape = shape;
  if (!makeLapackSignature(shape, made.call.signature).empty())
    return;
  SCOPED_TRACE(std::string(traitsOf(shape.routine).name) + " " + shape.letters +
               (shape.isComplex ? " complex " : " ") + std::to_string(shape.m) +
               " x " + std::to_string(shape.n));
  made.run();
}
} // namespace

TEST(Lapack, CallsStayWithinTheirWorkSpace) {
  for (size_t index = 0; index < lapackTraits.size(); ++index) {
    auto routine = static_cast<LapackRoutine>(index);
    for (const std::string &letters : lettersOf(routine))
      for (bool isComplex : {false, true})
        // Sizes around the widths of blocks, high and wide.
        for (auto [m, n] : std::vector<std::pair<int64_t, int64_t>>{
                 {0, 0}, {1, 1}, {2, 2}, {5, 3}, {3, 5}, {70, 70}, {130, 66}}) {
          LapackShape shape;
          shape.routine = routine;
          shape.batch = 1;
          shape.m = m;
          shape.n = n;
          shape.k = std::min(m, n);
          shape.letters = letters;
          shape.isComplex = isComplex;
          runAll<float>(shape);
          runAll<double>(shape);
        }
  }
}
