//===- RecipeValues.cpp - The values of a recipe's parts ------------------===//

#include "RecipeValues.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify;

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

/// Returns null for a word that is no format.
static Type symbolizeFormat(StringRef word, MLIRContext *context) {
  if (word == "f8E4M3FN")
    return Float8E4M3FNType::get(context);
  if (word == "f8E5M2")
    return Float8E5M2Type::get(context);
  if (word == "f16")
    return Float16Type::get(context);
  if (word == "bf16")
    return BFloat16Type::get(context);
  return word == "f32" ? Float32Type::get(context) : Type();
}

ParseResult scalify::parseValue(AsmParser &parser, Type &format) {
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word)))
    return failure();
  format = symbolizeFormat(word, parser.getContext());
  return success(format || word == "given");
}

/// Reads one word of formats: `true`, `false`, `wide`, or a format for both.
static ParseResult readFormats(AsmParser &parser, StringRef word,
                               DotFormats &formats) {
  Type format = word == "false" || word == "wide"
                    ? parser.getBuilder().getF32Type()
                    : symbolizeFormat(word, parser.getContext());
  formats = {format, format};
  return success(format || word == "true");
}

/// `true`, `false`, `wide`, a format, or `[forward, gradient]`.
ParseResult scalify::parseValue(AsmParser &parser, DotFormats &formats) {
  auto parseFormat = [&](Type &format) -> ParseResult {
    StringRef word;
    if (failed(parser.parseOptionalKeyword(&word)))
      return failure();
    format = symbolizeFormat(word, parser.getContext());
    return success(format != nullptr);
  };
  if (succeeded(parser.parseOptionalLSquare()))
    return failure(
        parseFormat(formats.forward) || failed(parser.parseOptionalComma()) ||
        parseFormat(formats.gradient) || failed(parser.parseOptionalRSquare()));
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word)))
    return failure();
  return readFormats(parser, word, formats);
}

/// Parses formats, or an accumulation.
static ParseResult parseException(AsmParser &parser, FormatOverride &entry) {
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word)))
    return parseValue(parser, entry.formats);
  entry.accumulation = symbolizeAccumulation(word);
  return entry.accumulation ? success()
                            : readFormats(parser, word, entry.formats);
}

/// Parses `open element, ... close`; `parseElement` emits no error either.
static ParseResult parseList(AsmParser &parser,
                             llvm::function_ref<ParseResult()> parseClose,
                             llvm::function_ref<ParseResult()> parseElement) {
  if (succeeded(parseClose()))
    return success();
  do
    if (parseElement())
      return failure();
  while (succeeded(parser.parseOptionalComma()));
  return parseClose();
}

/// `{"pattern" = formats, ...}`
ParseResult scalify::parseValue(AsmParser &parser, Exceptions &exceptions) {
  exceptions.clear();
  if (failed(parser.parseOptionalLBrace()))
    return failure();
  return parseList(
      parser, [&] { return parser.parseOptionalRBrace(); },
      [&]() -> ParseResult {
        FormatOverride entry;
        std::string pattern;
        if (failed(parser.parseOptionalString(&pattern)) ||
            failed(parser.parseOptionalEqual()) ||
            parseException(parser, entry))
          return failure();
        entry.pattern = parser.getBuilder().getStringAttr(pattern);
        exceptions.push_back(entry);
        return success();
      });
}

/// `["place", ...]`
ParseResult scalify::parseValue(AsmParser &parser, Places &places) {
  places.clear();
  if (failed(parser.parseOptionalLSquare()))
    return failure();
  return parseList(
      parser, [&] { return parser.parseOptionalRSquare(); },
      [&]() -> ParseResult {
        std::string place;
        if (failed(parser.parseOptionalString(&place)))
          return failure();
        places.push_back(parser.getBuilder().getStringAttr(place));
        return success();
      });
}

/// `[a, b]`
ParseResult scalify::parseValue(AsmParser &parser, Sizes &sizes) {
  return failure(
      failed(parser.parseOptionalLSquare()) || parseValue(parser, sizes[0]) ||
      failed(parser.parseOptionalComma()) || parseValue(parser, sizes[1]) ||
      failed(parser.parseOptionalRSquare()));
}

ParseResult scalify::parseValue(AsmParser &parser, int64_t &number) {
  OptionalParseResult parsed = parser.parseOptionalInteger(number);
  return failure(!parsed.has_value() || failed(*parsed));
}

/// Parses one word for all kinds, or a list with one for each.
ParseResult scalify::parseValue(AsmParser &parser, DotSums &sums) {
  auto parseOne = [&](Accumulation &value) {
    return parseValue(parser, value);
  };
  if (succeeded(parser.parseOptionalLSquare()))
    return failure(
        parseOne(sums.kinds[0]) || failed(parser.parseOptionalComma()) ||
        parseOne(sums.kinds[1]) || failed(parser.parseOptionalComma()) ||
        parseOne(sums.kinds[2]) || failed(parser.parseOptionalRSquare()));
  if (parseOne(sums.kinds[0]))
    return failure();
  sums.kinds[1] = sums.kinds[2] = sums.kinds[0];
  return success();
}

StringRef scalify::extractValueText(const char *text) {
  unsigned depth = 0;
  bool isQuoted = false;
  const char *end = text;
  for (; *end && *end != '\n'; ++end) {
    char next = *end;
    if (next == '"')
      isQuoted = !isQuoted;
    if (isQuoted)
      continue;
    bool isEnd = next == ',' || next == '>' || next == ']' || next == '}';
    if (isEnd && depth == 0)
      break;
    if (next == '[' || next == '{' || next == '<')
      ++depth;
    else if (isEnd && next != ',')
      --depth;
  }
  return StringRef(text, end - text).trim();
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

llvm::json::Value scalify::toJSON(Type format) {
  if (!format)
    return "given";
  std::string word;
  llvm::raw_string_ostream(word) << format;
  return word;
}

llvm::json::Value scalify::toJSON(DotFormats formats) {
  if (!formats.forward && !formats.gradient)
    return true;
  if (formats.forward != formats.gradient)
    return llvm::json::Array{toJSON(formats.forward), toJSON(formats.gradient)};
  if (formats.forward.isF32())
    return false;
  return toJSON(formats.forward);
}

llvm::json::Value scalify::toJSON(const Exceptions &exceptions) {
  llvm::json::Array entries;
  for (const FormatOverride &entry : exceptions)
    entries.push_back(llvm::json::Array{
        entry.pattern.str(),
        entry.accumulation
            ? llvm::json::Value(stringifyAccumulation(*entry.accumulation))
            : toJSON(entry.formats)});
  return entries;
}

llvm::json::Value scalify::toJSON(const Places &places) {
  llvm::json::Array entries;
  for (StringAttr place : places)
    entries.push_back(place.str());
  return entries;
}

llvm::json::Value scalify::toJSON(Sizes sizes) {
  return llvm::json::Array{sizes[0], sizes[1]};
}

llvm::json::Value scalify::toJSON(int64_t number) { return number; }

llvm::json::Value scalify::toJSON(DotSums sums) {
  if (llvm::all_equal(sums.kinds))
    return stringifyAccumulation(sums.kinds.front());
  llvm::json::Array words;
  for (Accumulation value : sums.kinds)
    words.push_back(stringifyAccumulation(value));
  return words;
}

static void writeQuoted(llvm::raw_ostream &os, StringRef text) {
  os << '"';
  llvm::printEscapedString(text, os);
  os << '"';
}

/// Text that is no word is quoted, so that the parser sees one value.
static bool isWord(StringRef text) {
  return !text.empty() && !llvm::isDigit(text.front()) &&
         llvm::all_of(text,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

void scalify::writeValue(llvm::raw_ostream &os, const llvm::json::Value &value,
                         bool quotes) {
  if (std::optional<StringRef> text = value.getAsString()) {
    if (!quotes && isWord(*text))
      os << *text;
    else
      writeQuoted(os, *text);
    return;
  }
  const llvm::json::Array *list = value.getAsArray();
  if (!list) {
    os << value;
    return;
  }
  os << '[';
  llvm::interleaveComma(*list, os, [&](const llvm::json::Value &entry) {
    writeValue(os, entry, quotes);
  });
  os << ']';
}

void scalify::writeExceptions(llvm::raw_ostream &os,
                              const llvm::json::Value &value) {
  auto isPair = [](const llvm::json::Value &entry) {
    const llvm::json::Array *pair = entry.getAsArray();
    return pair && pair->size() == 2 && pair->front().getAsString();
  };
  const llvm::json::Array *list = value.getAsArray();
  if (!list || !llvm::all_of(*list, isPair))
    return writeValue(os, value);
  os << '{';
  llvm::interleaveComma(*list, os, [&](const llvm::json::Value &entry) {
    const llvm::json::Array &pair = *entry.getAsArray();
    writeQuoted(os, *pair.front().getAsString());
    os << " = ";
    writeValue(os, pair.back());
  });
  os << '}';
}
