#include "CommChecks.h"
#include "support/FloatFormats.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace scalify::rt;
using namespace scalify::test;

namespace {
using Kind = Collective::Kind;
using Bytes = std::vector<uint8_t>;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185;
  x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44d;
  return x ^ (x >> 33);
}

/// Writes element `i` of a rank's source. Floats have several binary orders of
/// magnitude and both signs, so that the order of a sum shows in its bits.
void putElement(DType type, int32_t rank, int64_t i, void *out) {
  uint64_t random = mix(uint64_t(rank) * 1000003 + uint64_t(i) + 17);
  float scale = 1.0f / float(4 << (random >> 40 & 7));
  float value = (float(random % 2001) - 1000.0f) * scale;
  double wide = double(value) * 1.0000001;
  switch (type) {
  case DType::I1:
    *static_cast<uint8_t *>(out) = random & 1;
    break;
  case DType::F64:
    std::memcpy(out, &wide, 8);
    break;
  default:
    if (isNarrowFloat(type))
      convertFromF32(type, &value, out, 1);
    else
      std::memcpy(out, &random, size_t(byteWidth(type)));
  }
}

Bytes sourceOf(DType type, int32_t rank, int64_t elements) {
  int64_t width = byteWidth(type);
  Bytes bytes(static_cast<size_t>(elements * width));
  for (int64_t i = 0; i < elements; ++i)
    putElement(type, rank, i, bytes.data() + i * width);
  return bytes;
}

template <typename T> T joined(Join join, T a, T b) {
  switch (join) {
  case Join::Sum:
    return T(a + b);
  case Join::Product:
    return T(a * b);
  case Join::Max:
    return std::max(a, b);
  case Join::Min:
    return std::min(a, b);
  default:
    break;
  }
  if constexpr (std::is_integral_v<T>)
    return join == Join::And ? a & b : a | b;
  return a;
}

template <typename T>
void foldAs(Join join, const std::vector<Bytes> &parts, size_t offset,
            uint8_t *out) {
  T all, next;
  std::memcpy(&all, &parts[0][offset], sizeof(T));
  for (size_t i = 1; i < parts.size(); ++i) {
    std::memcpy(&next, &parts[i][offset], sizeof(T));
    all = joined(join, all, next);
  }
  std::memcpy(out, &all, sizeof(T));
}

/// Reduces element `i` of all parts, in their order.
void fold(Join join, DType type, const std::vector<Bytes> &parts, int64_t i,
          uint8_t *out) {
  auto offset = size_t(i * byteWidth(type));
  bool isExtreme = join == Join::Max || join == Join::Min;
  switch (type) {
  case DType::I1:
    return foldAs<uint8_t>(join, parts, offset, out);
  case DType::I32: // sums wrap
    return isExtreme ? foldAs<int32_t>(join, parts, offset, out)
                     : foldAs<uint32_t>(join, parts, offset, out);
  case DType::F32:
    return foldAs<float>(join, parts, offset, out);
  case DType::F64:
    return foldAs<double>(join, parts, offset, out);
  default:
    break;
  }
  float all = 0, next = 0;
  convertToF32(type, &parts[0][offset], &all, 1);
  for (size_t r = 1; r < parts.size(); ++r) {
    convertToF32(type, &parts[r][offset], &next, 1);
    all = joined(join, all, next);
  }
  convertFromF32(type, &all, out, 1);
}

/// Returns elements [begin, end), reduced.
Bytes foldAll(const Collective &c, const std::vector<Bytes> &parts,
              int64_t begin, int64_t end) {
  int64_t width = byteWidth(c.type);
  Bytes bytes(static_cast<size_t>((end - begin) * width));
  for (int64_t i = begin; i < end; ++i)
    fold(c.join, c.type, parts, i, bytes.data() + (i - begin) * width);
  return bytes;
}

/// Returns the expected result on `rank`.
Bytes expectedOf(const Collective &c, int32_t rank) {
  int64_t width = byteWidth(c.type);
  auto count = int64_t(c.members.size());
  int64_t place =
      std::find(c.members.begin(), c.members.end(), rank) - c.members.begin();
  if (c.kind == Kind::Permute)
    return c.from < 0 ? Bytes(size_t(c.elements * width))
                      : sourceOf(c.type, c.from, c.elements);
  std::vector<Bytes> sources;
  for (int32_t member : c.members)
    sources.push_back(sourceOf(c.type, member, c.elements));
  Bytes result;
  auto append = [&](const Bytes &more) {
    result.insert(result.end(), more.begin(), more.end());
  };
  int64_t part = c.elements / count;
  switch (c.kind) {
  case Kind::AllReduce:
    return foldAll(c, sources, 0, c.elements);
  case Kind::ReduceScatter:
    return foldAll(c, sources, place * part, (place + 1) * part);
  case Kind::AllGather:
    for (const Bytes &source : sources)
      append(source);
    break;
  case Kind::Broadcast:
    return sources[0];
  default:
    for (const Bytes &source : sources)
      append(Bytes(source.begin() + place * part * width,
                   source.begin() + (place + 1) * part * width));
  }
  return result;
}

/// Runs the collective and compares; also in place if sizes allow.
std::string check(Communicator &comm, Collective c) {
  c.name = "tested";
  Bytes source = sourceOf(c.type, comm.rank(), c.elements);
  Bytes expected = expectedOf(c, comm.rank());
  std::string what = std::string(name(c.kind)) + " " + name(c.join) + " of " +
                     std::to_string(c.elements) + " " + name(c.type) +
                     " on rank " + std::to_string(comm.rank());
  Bytes result(expected.size(), 0xa5);
  uint64_t before = comm.bytesSent();
  comm.run(c, source.data(), result.data());
  if (int64_t(comm.bytesSent() - before) != bytesSent(c, comm.rank()))
    return what + ": sent " + std::to_string(comm.bytesSent() - before) +
           " bytes, not " + std::to_string(bytesSent(c, comm.rank()));
  if (result != expected)
    return what + ": other elements";
  if (source != sourceOf(c.type, comm.rank(), c.elements))
    return what + ": the source has changed";
  if (source.size() == expected.size()) {
    comm.run(c, source.data(), source.data());
    if (source != expected)
      return what + ": other elements in place";
  }
  return "";
}

Collective collective(Kind kind, Join join, DType type, int64_t elements,
                      std::vector<int32_t> members) {
  Collective c;
  c.kind = kind;
  c.join = join;
  c.type = type;
  c.elements = elements;
  c.members = std::move(members);
  return c;
}

/// Groups that partition the ranks.
using Groups = std::vector<std::vector<int32_t>>;
std::vector<int32_t> groupOf(const Groups &groups, int32_t rank) {
  for (const std::vector<int32_t> &group : groups)
    if (std::count(group.begin(), group.end(), rank))
      return group;
  return {rank};
}

Groups whole(int32_t size) {
  std::vector<int32_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

std::string checkKinds(Communicator &comm, const Groups &groups, DType type,
                       Join join, int64_t perMember) {
  std::vector<int32_t> group = groupOf(groups, comm.rank());
  auto count = int64_t(group.size());
  std::string text;
  auto run = [&](Kind kind, int64_t elements) {
    if (text.empty())
      text = check(comm, collective(kind, join, type, elements, group));
  };
  // The pieces of an all_reduce may differ in length.
  run(Kind::AllReduce, perMember * count + (perMember ? 1 : 0));
  run(Kind::AllReduce, count / 2);
  run(Kind::ReduceScatter, perMember * count);
  run(Kind::AllGather, perMember);
  run(Kind::Broadcast, perMember);
  run(Kind::AllToAll, perMember * count);
  return text;
}

/// Sends from each rank to the next, the even ranks first: a sender's memory is
/// unchanged.
std::string checkMessages(Communicator &comm, DType type, int64_t elements) {
  Collective c = collective(Kind::Message, Join::Sum, type, elements, {});
  c.name = "tested";
  int32_t rank = comm.rank();
  for (int32_t turn : {0, 1}) {
    bool isSend = rank % 2 == turn;
    c.to = isSend && rank + 1 < comm.size() ? rank + 1 : -1;
    c.from = isSend ? -1 : rank - 1;
    if (c.to < 0 && c.from < 0)
      continue;
    Bytes own = sourceOf(type, rank, elements), memory = own;
    comm.run(c, memory.data(), memory.data());
    if (memory != (isSend ? own : sourceOf(type, c.from, elements)))
      return "message on rank " + std::to_string(rank) + ": other elements";
  }
  return "";
}

/// A ring, a shift without wrap-around, and a rank to itself.
std::string checkPermutes(Communicator &comm, DType type, int64_t elements) {
  int32_t rank = comm.rank(), size = comm.size();
  std::vector<std::pair<int32_t, int32_t>> pairs = {
      {(rank + 1) % size, (rank + size - 1) % size},
      {rank + 1 < size ? rank + 1 : -1, rank - 1},
      {rank, rank},
      {-1, -1}};
  std::string text;
  for (auto [to, from] : pairs) {
    Collective c = collective(Kind::Permute, Join::Sum, type, elements, {});
    c.to = to;
    c.from = from;
    if (text.empty())
      text = check(comm, c);
  }
  return text;
}

/// Every type with sums, every reduction with a few types, at small sizes.
std::string checkTypes(Communicator &comm) {
  Groups all = whole(comm.size());
  std::string text;
  for (DType type : {DType::I1, DType::I32, DType::F8E4M3FN, DType::F8E5M2,
                     DType::BF16, DType::F16, DType::F32, DType::F64})
    for (Join join : {Join::Sum, Join::Product, Join::Max, Join::Min, Join::And,
                      Join::Or}) {
      bool isInteger = type == DType::I32 || type == DType::I1;
      bool isLogical = join == Join::And || join == Join::Or;
      // Sums and extremes of booleans have a test of their own.
      if (isLogical ? !isInteger : type == DType::I1)
        continue;
      if (text.empty())
        text = checkKinds(comm, all, type, join, 37);
    }
  return text;
}
} // namespace

std::string scalify::test::checkGroups(Communicator &comm) {
  int32_t size = comm.size();
  std::vector<Groups> shapes = {whole(size)};
  std::vector<int32_t> descending(whole(size)[0]);
  std::reverse(descending.begin(), descending.end());
  shapes.push_back({descending});
  // Strided; of unequal sizes if the number of ranks is odd.
  Groups strided(2);
  for (int32_t rank = 0; rank < size; ++rank)
    strided[size_t(rank % 2)].push_back(rank);
  shapes.push_back(strided);
  shapes.push_back({}); // each rank alone
  std::string text;
  for (const Groups &groups : shapes)
    for (int64_t perMember : {0, 1, 1000})
      for (DType type : {DType::F32, DType::BF16})
        if (text.empty())
          text = checkKinds(comm, groups, type, Join::Sum, perMember);
  if (text.empty())
    text = checkMessages(comm, DType::BF16, 1001);
  return text.empty() ? checkPermutes(comm, DType::F32, 1000) : text;
}

std::string scalify::test::checkLong(Communicator &comm) {
  std::string text =
      checkKinds(comm, whole(comm.size()), DType::F32, Join::Sum, 200'000);
  if (text.empty())
    text = checkMessages(comm, DType::F32, 600'000);
  return text.empty() ? checkPermutes(comm, DType::F32, 600'000) : text;
}

std::string scalify::test::checkSmall(Communicator &comm) {
  std::string text = checkTypes(comm);
  return text.empty() ? checkGroups(comm) : text;
}
