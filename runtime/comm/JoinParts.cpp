#include "comm/JoinParts.h"
#include "support/Error.h"
#include "support/FloatFormats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

using namespace scalify::rt;

namespace {
/// Elements reduced at a time, so that those of all parts fit the L1 cache.
constexpr int64_t blockElements = 1024;

bool isFloat(DType type) { return type == DType::F64 || isNarrowFloat(type); }

/// Returns the larger (for `Min` the smaller) of both by StableHLO's rules: NaN
/// if either is NaN, and -0 is less than +0.
template <bool Min, typename T> T extreme(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    T chosen = (Min ? a < b : a > b) ? a : b;
    T zero = Min == bool(std::signbit(a)) ? a : b;
    chosen = a == b ? zero : chosen;
    return a != a ? a : chosen;
  } else {
    return (Min ? a < b : a > b) ? a : b;
  }
}

template <typename T, typename Fn>
void accumulate(T *sum, const T *part, int64_t count, Fn fn) {
  for (int64_t i = 0; i < count; ++i)
    sum[i] = fn(sum[i], part[i]);
}

/// Computes sum[i] = sum[i] . part[i]. Integers wrap, which is defined for
/// unsigned ones only.
template <typename T>
void accumulate(Join join, T *sum, const T *part, int64_t count) {
  switch (join) {
  case Join::Max:
    return accumulate(sum, part, count, extreme<false, T>);
  case Join::Min:
    return accumulate(sum, part, count, extreme<true, T>);
  default:
    break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (join == Join::Sum)
      accumulate(sum, part, count, [](T a, T b) { return a + b; });
    else
      accumulate(sum, part, count, [](T a, T b) { return a * b; });
  } else {
    using U = std::make_unsigned_t<T>;
    // 16-bit operands would be multiplied in int, which overflows.
    using Wide = std::common_type_t<U, unsigned>;
    switch (join) {
    case Join::Sum:
      return accumulate(sum, part, count,
                        [](T a, T b) { return T(U(a) + U(b)); });
    case Join::Product:
      return accumulate(sum, part, count,
                        [](T a, T b) { return T(Wide(U(a)) * Wide(U(b))); });
    case Join::And:
      return accumulate(sum, part, count, [](T a, T b) { return T(a & b); });
    default:
      return accumulate(sum, part, count, [](T a, T b) { return T(a | b); });
    }
  }
}

template <typename T>
void joinAs(Join join, const std::vector<const void *> &parts,
            void *destination, int64_t elements) {
  T sum[blockElements];
  for (int64_t at = 0; at < elements; at += blockElements) {
    int64_t count = std::min(blockElements, elements - at);
    auto part = [&](size_t i) { return static_cast<const T *>(parts[i]) + at; };
    std::memcpy(sum, part(0), size_t(count) * sizeof(T));
    for (size_t i = 1; i < parts.size(); ++i)
      accumulate(join, sum, part(i), count);
    std::memcpy(static_cast<T *>(destination) + at, sum,
                size_t(count) * sizeof(T));
  }
}

void joinNarrow(Join join, DType type, const std::vector<const void *> &parts,
                void *destination, int64_t elements) {
  float sum[blockElements], next[blockElements];
  int64_t width = byteWidth(type);
  for (int64_t at = 0; at < elements; at += blockElements) {
    int64_t count = std::min(blockElements, elements - at);
    auto part = [&](size_t i) {
      return static_cast<const uint8_t *>(parts[i]) + at * width;
    };
    convertToF32(type, part(0), sum, count);
    for (size_t i = 1; i < parts.size(); ++i) {
      convertToF32(type, part(i), next, count);
      accumulate(join, sum, next, count);
    }
    convertFromF32(type, sum, static_cast<uint8_t *>(destination) + at * width,
                   count);
  }
}

/// For booleans sum and maximum mean "or", product and minimum "and".
Join getBooleanReduction(Join join) {
  bool isAnd = join == Join::And || join == Join::Product || join == Join::Min;
  return isAnd ? Join::And : Join::Or;
}
} // namespace

bool scalify::rt::canReduce(Join join, DType type) {
  return !isFloat(type) || (join != Join::And && join != Join::Or);
}

void scalify::rt::requireReduction(Join join, DType type) {
  if (!canReduce(join, type))
    badArgument(std::string("elements of ") + name(type) +
                " cannot be reduced by '" + name(join) + "'");
}

void scalify::rt::joinParts(Join join, DType type,
                            const std::vector<const void *> &parts,
                            void *destination, int64_t elements) {
  switch (type) {
  case DType::I1:
    return joinAs<uint8_t>(getBooleanReduction(join), parts, destination,
                           elements);
  case DType::I8:
    return joinAs<int8_t>(join, parts, destination, elements);
  case DType::I16:
    return joinAs<int16_t>(join, parts, destination, elements);
  case DType::I32:
    return joinAs<int32_t>(join, parts, destination, elements);
  case DType::I64:
    return joinAs<int64_t>(join, parts, destination, elements);
  case DType::U8:
    return joinAs<uint8_t>(join, parts, destination, elements);
  case DType::U16:
    return joinAs<uint16_t>(join, parts, destination, elements);
  case DType::U32:
    return joinAs<uint32_t>(join, parts, destination, elements);
  case DType::U64:
    return joinAs<uint64_t>(join, parts, destination, elements);
  case DType::F32:
    return joinAs<float>(join, parts, destination, elements);
  case DType::F64:
    return joinAs<double>(join, parts, destination, elements);
  default:
    return joinNarrow(join, type, parts, destination, elements);
  }
}
