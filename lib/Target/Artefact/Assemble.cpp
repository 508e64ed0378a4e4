//===- Assemble.cpp - Assembly of artefacts -------------------------------===//

#include "scalify/Target/Artefact/Manifest.h"

#include "llvm/Support/Endian.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace json = llvm::json;

static constexpr size_t kHeaderBytes = 32;
static constexpr size_t kSectionAlignment = 4096;

static uint64_t fnv1a(StringRef bytes) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char byte : bytes)
    hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}

static void appendWord(std::string &out, uint64_t word) {
  char bytes[8];
  llvm::support::endian::write64le(bytes, word);
  out.append(bytes, 8);
}

static std::string toText(const json::Object &manifest) {
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(json::Object(manifest));
  return text;
}

/// Returns the first number in `value` that is infinite or NaN, and its place.
static std::string findNonFinite(const json::Value &value) {
  if (std::optional<double> number = value.getAsNumber())
    return std::isfinite(*number) ? "" : std::to_string(*number);
  if (const json::Object *object = value.getAsObject())
    for (auto &[key, member] : *object)
      if (std::string place = findNonFinite(member); !place.empty())
        return place + " in '" + key.str() + "'";
  if (const json::Array *array = value.getAsArray())
    for (const json::Value &member : *array)
      if (std::string place = findNonFinite(member); !place.empty())
        return place;
  return "";
}

static void setHash(json::Object &manifest, ArrayRef<Section> sections) {
  // A recipe's name is a label: equal contents under two names are one
  // artefact.
  json::Value recipe = *manifest.get("recipe");
  manifest.erase("recipe");
  std::string bytes = toText(manifest);
  for (const Section &section : sections)
    if (section.countsForHash)
      bytes += section.bytes;
  manifest["hash"] = llvm::utohexstr(fnv1a(bytes));
  manifest["recipe"] = std::move(recipe);
}

/// Returns the offsets of sections if the first begins at `offset`.
static SmallVector<size_t> placesOf(ArrayRef<Section> sections, size_t offset) {
  SmallVector<size_t> places;
  for (const Section &section : sections) {
    places.push_back(offset);
    offset = llvm::alignTo(offset + section.bytes.size(), kSectionAlignment);
  }
  return places;
}

static void writePlaces(json::Object &manifest, ArrayRef<Section> sections,
                        ArrayRef<size_t> places) {
  json::Object list;
  for (auto [section, offset] : llvm::zip(sections, places))
    list[section.name] =
        json::Object{{"offset", static_cast<int64_t>(offset)},
                     {"size", static_cast<int64_t>(section.bytes.size())}};
  manifest["sections"] = std::move(list);
}

// Offsets are part of the text whose length determines them, so the sections
// are placed after room for the longest text that offsets can give.
FailureOr<std::string> scalify::assembleArtefact(Location loc, PlanText &text,
                                                 ArrayRef<Section> sections) {
  json::Object &manifest = text.manifest;
  for (auto &[key, value] : manifest)
    if (std::string place = findNonFinite(value); !place.empty())
      return emitError(loc, "the artefact's manifest would hold ")
             << place << " at '" << key.str()
             << "', which JSON cannot represent";
  setHash(manifest, sections);
  writePlaces(manifest, sections, placesOf(sections, size_t(1) << 40));
  size_t first =
      llvm::alignTo(kHeaderBytes + toText(manifest).size(), kSectionAlignment);
  SmallVector<size_t> places = placesOf(sections, first);
  writePlaces(manifest, sections, places);
  std::string header = toText(manifest);
  std::string body = header;
  // The text may be a page shorter than its room.
  for (auto [section, offset] : llvm::zip(sections, places)) {
    body.resize(offset - kHeaderBytes);
    body += section.bytes;
  }
  std::string file = "SCALIFY1";
  appendWord(file, header.size());
  appendWord(file, kHeaderBytes + body.size());
  appendWord(file, fnv1a(body));
  return file + body;
}
