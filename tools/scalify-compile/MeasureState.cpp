//===- MeasureState.cpp - Scales from a file of initial values ------------===//
//
// A safetensors file is a little-endian u64 length, a JSON header of that
// length, and the tensors' bytes; offsets count from the header's end.
//
//===----------------------------------------------------------------------===//

#include "MeasureState.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Pipeline/Nesting.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace scalify;

static Error makeError(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

/// Returns null for types that are not floating point.
static const fltSemantics *getSemantics(StringRef dtype) {
  return StringSwitch<const fltSemantics *>(dtype)
      .Case("F64", &APFloat::IEEEdouble())
      .Case("F32", &APFloat::IEEEsingle())
      .Case("F16", &APFloat::IEEEhalf())
      .Case("BF16", &APFloat::BFloat())
      .Case("F8_E4M3", &APFloat::Float8E4M3FN())
      .Case("F8_E5M2", &APFloat::Float8E5M2())
      .Default(nullptr);
}

static double readElement(const fltSemantics &semantics, const char *bytes) {
  unsigned width = APFloat::getSizeInBits(semantics);
  uint64_t bits = 0;
  for (unsigned i = 0; i < width / 8; ++i)
    bits |= uint64_t(uint8_t(bytes[i])) << (8 * i);
  APFloat value(semantics, APInt(width, bits));
  return value.convertToDouble();
}

/// Like `scalify.measure` in Python.
static std::optional<ArgumentScale> measure(const fltSemantics &semantics,
                                            StringRef data) {
  unsigned size = APFloat::getSizeInBits(semantics) / 8;
  size_t count = data.size() / size;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < count; ++i) {
    double x = readElement(semantics, data.data() + i * size);
    sum += x;
    squares += x * x;
  }
  double square = count ? squares / count : 0;
  if (!std::isfinite(square))
    return std::nullopt;
  if (square <= 0)
    return ArgumentScale{"", kZeroScale};
  double mean = sum / count;
  bool isCarried = std::abs(mean) >= 0.5 * std::sqrt(square);
  ArgumentScale scale{
      "",
      std::clamp<int32_t>(std::llround(0.5 * std::log2(square)), -120, 120)};
  if (isCarried)
    scale.moments = {mean, std::sqrt(std::max(0.0, square - mean * mean))};
  return scale;
}

/// Adds the scale of one entry of the header.
static Error addTensor(std::vector<ArgumentScale> &scales, StringRef name,
                       const json::Value &value, StringRef data) {
  const json::Object *entry = value.getAsObject();
  const json::Array *offsets =
      entry ? entry->getArray("data_offsets") : nullptr;
  const json::Array *shape = entry ? entry->getArray("shape") : nullptr;
  std::optional<StringRef> dtype;
  if (entry)
    dtype = entry->getString("dtype");
  std::optional<int64_t> begin, end;
  if (offsets && offsets->size() == 2) {
    begin = (*offsets)[0].getAsInteger();
    end = (*offsets)[1].getAsInteger();
  }
  if (!dtype || !shape || !begin || !end || *begin < 0 || *end < *begin ||
      uint64_t(*end) > data.size())
    return makeError("the entry of tensor '" + name + "' is malformed");
  const fltSemantics *semantics = getSemantics(*dtype);
  if (!semantics || shape->empty())
    return Error::success();
  if (std::optional<ArgumentScale> scale =
          measure(*semantics, data.slice(*begin, *end))) {
    scale->argument = name.str();
    scales.push_back(std::move(*scale));
  }
  return Error::success();
}

Expected<std::vector<ArgumentScale>> scalify::measureState(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> file = MemoryBuffer::getFile(
      path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return makeError("cannot open '" + path +
                     "': " + file.getError().message());
  StringRef bytes = (*file)->getBuffer();
  uint64_t length =
      bytes.size() < 8 ? 0 : support::endian::read64le(bytes.data());
  if (bytes.size() < 8 || length > bytes.size() - 8)
    return makeError("'" + path + "' is no safetensors file, or truncated");
  Expected<json::Value> header = parseJSON(bytes.substr(8, length));
  if (!header)
    return makeError("the header of '" + path +
                     "' is malformed: " + toString(header.takeError()));
  const json::Object *entries = header->getAsObject();
  if (!entries)
    return makeError("the header of '" + path + "' is no JSON object");
  std::vector<ArgumentScale> scales;
  for (const auto &[name, entry] : *entries)
    if (StringRef(name) != "__metadata__")
      if (Error error =
              addTensor(scales, name, entry, bytes.substr(8 + length)))
        return makeError("'" + path + "': " + toString(std::move(error)));
  llvm::sort(scales, [](const ArgumentScale &a, const ArgumentScale &b) {
    return a.argument < b.argument;
  });
  return scales;
}
