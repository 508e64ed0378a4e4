#include "Safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

using namespace scalify::rt;
using Json = nlohmann::json;

namespace {
struct Spelling {
  const char *name;
  DType type;
};
constexpr Spelling spellings[] = {
    {"BOOL", DType::I1},        {"I8", DType::I8},
    {"I16", DType::I16},        {"I32", DType::I32},
    {"I64", DType::I64},        {"U8", DType::U8},
    {"U16", DType::U16},        {"U32", DType::U32},
    {"U64", DType::U64},        {"F8_E4M3", DType::F8E4M3FN},
    {"F8_E5M2", DType::F8E5M2}, {"BF16", DType::BF16},
    {"F16", DType::F16},        {"F32", DType::F32},
    {"F64", DType::F64},        {"C64", DType::C64},
};

const char *spell(DType type) {
  for (const Spelling &entry : spellings)
    if (entry.type == type)
      return entry.name;
  return "";
}

std::optional<DType> parse(const std::string &name) {
  for (const Spelling &entry : spellings)
    if (name == entry.name)
      return entry.type;
  return std::nullopt;
}

[[noreturn]] void fail(const std::string &path, const std::string &what) {
  throw std::runtime_error("safetensors file '" + path + "' " + what);
}

std::vector<char> readAll(const std::string &path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in)
    fail(path, std::string("cannot be opened: ") + std::strerror(errno));
  std::streamoff size = in.tellg();
  if (size < 0)
    fail(path, "cannot be read: it is not a regular file");
  std::vector<char> bytes(static_cast<size_t>(size));
  in.seekg(0);
  if (!in.read(bytes.data(), size))
    fail(path, "cannot be read to its end");
  return bytes;
}

uint64_t headerLength(const std::vector<char> &bytes) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<uint8_t>(bytes[size_t(i)]);
  return length;
}

/// Reads one entry of the header; checks it against the `size` bytes of data.
FileTensor readEntry(const std::string &path, const std::string &name,
                     const Json &entry, const char *data, uint64_t size) {
  auto bad = [&](const std::string &what) {
    fail(path, "has a bad entry for tensor '" + name + "': " + what);
  };
  if (!entry.is_object() || !entry.contains("dtype") ||
      !entry["dtype"].is_string() || !entry.contains("shape") ||
      !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
    bad("it needs dtype, shape and two data_offsets");
  auto dtypeName = entry["dtype"].get<std::string>();
  std::optional<DType> dtype = parse(dtypeName);
  if (!dtype)
    bad("dtype '" + dtypeName + "' is not supported");
  std::vector<int64_t> shape;
  for (const Json &extent : entry["shape"]) {
    if (!extent.is_number_unsigned() ||
        extent.get<uint64_t>() > uint64_t(INT64_MAX))
      bad("its shape holds something that is no extent");
    shape.push_back(extent.get<int64_t>());
  }
  std::optional<TensorType> type = makeTensorType(*dtype, std::move(shape));
  const Json &offsets = entry["data_offsets"];
  if (!type || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    bad("its size or offsets are out of range");
  auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  if (begin > end || end - begin != uint64_t(type->bytes))
    bad("its offsets span " + std::to_string(end - begin) + " bytes, " +
        toString(*type) + " takes " + std::to_string(type->bytes));
  if (end > size)
    fail(path, "is truncated: tensor '" + name + "' ends at byte " +
                   std::to_string(end) + " of " + std::to_string(size) +
                   " bytes of data");
  return {std::move(*type), data + begin};
}
} // namespace

SafetensorsFile::SafetensorsFile(const std::string &path)
    : bytes(readAll(path)) {
  if (bytes.size() < 8)
    fail(path, "is truncated: it has " + std::to_string(bytes.size()) +
                   " bytes, the header's length alone takes 8");
  uint64_t length = headerLength(bytes);
  if (length > bytes.size() - 8)
    fail(path, "is truncated, or not a safetensors file: its header should "
               "have " +
                   std::to_string(length) + " bytes and the file has " +
                   std::to_string(bytes.size()));
  const char *header = bytes.data() + 8;
  Json json = Json::parse(header, header + length, nullptr, false);
  if (!json.is_object())
    fail(path, "is not a safetensors file: its header is no JSON object");
  uint64_t size = bytes.size() - 8 - length;
  for (const auto &[name, entry] : json.items())
    if (name != "__metadata__")
      tensors[name] = readEntry(path, name, entry, header + length, size);
}

const FileTensor *SafetensorsFile::find(const std::string &name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

void scalify::rt::writeSafetensors(const std::string &path,
                                   std::vector<NamedTensor> tensors) {
  // Wide elements first: then every tensor is aligned to its element.
  auto key = [](const NamedTensor &tensor) {
    return std::make_pair(-byteWidth(tensor.type.dtype), tensor.name);
  };
  std::sort(tensors.begin(), tensors.end(),
            [&](const NamedTensor &a, const NamedTensor &b) {
              return key(a) < key(b);
            });
  Json header = Json::object();
  int64_t at = 0;
  for (const NamedTensor &tensor : tensors) {
    header[tensor.name] = {{"dtype", spell(tensor.type.dtype)},
                           {"shape", tensor.type.shape},
                           {"data_offsets", {at, at + tensor.type.bytes}}};
    at += tensor.type.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string part = path + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  uint64_t length = text.size();
  char word[8];
  for (char &byte : word) {
    byte = static_cast<char>(length & 0xff);
    length >>= 8;
  }
  out.write(word, 8);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const NamedTensor &tensor : tensors)
    out.write(static_cast<const char *>(tensor.data), tensor.type.bytes);
  out.close();
  if (!out || std::rename(part.c_str(), path.c_str()) != 0) {
    std::string reason = std::strerror(errno);
    std::remove(part.c_str());
    fail(path, "cannot be written: " + reason);
  }
}
