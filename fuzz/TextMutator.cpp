#include "TextMutator.h"

#include <algorithm>
#include <cctype>
#include <random>
#include <vector>

namespace {
using Texts = std::vector<std::string>;

Texts linesOf(const std::string &text) {
  Texts lines(1);
  for (char c : text) {
    lines.back() += c;
    if (c == '\n')
      lines.emplace_back();
  }
  return lines;
}

/// Words (with %, @, ., _), numbers, and single other characters.
Texts tokensOf(const std::string &text) {
  auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' ||
           c == '.' || c == '%' || c == '@' || c == '#';
  };
  Texts tokens;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (isWord(text[i]) && end < text.size() && isWord(text[end]))
      ++end;
    tokens.push_back(text.substr(i, end - i));
    i = end;
  }
  return tokens;
}

std::string join(const Texts &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += part;
  return text;
}

bool isWord(const std::string &token) {
  return std::isalpha(static_cast<unsigned char>(token[0]));
}

/// The sizes and the element type of `4x8xf32`.
Texts split(const std::string &type) {
  size_t element = type.find_first_not_of("0123456789x");
  Texts parts(1);
  for (char c : type.substr(0, element)) {
    if (c == 'x')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  parts.back() += type.substr(element);
  return parts;
}

constexpr const char *complexType = "complex";

/// True for what a type has between its angle brackets, as `4x8xf32`, or before
/// those of a complex one.
bool isType(const std::string &token) {
  size_t start = token.find_first_not_of("0123456789x");
  if (start == std::string::npos)
    return false;
  std::string element = token.substr(start);
  if (element == complexType)
    return start > 0;
  std::string kind = element.substr(0, element.find_first_of("0123456789"));
  return kind != element &&
         (kind == "f" || kind == "bf" || kind == "i" || kind == "ui");
}

constexpr const char *elements[] = {
    "f32", "f64", "f16", "bf16", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN",
    "i1",  "i2",  "i4",  "i8",   "i32",      "i64",    "ui8",       "ui64"};
constexpr const char *sizes[] = {"0", "1",  "2",          "3",
                                 "7", "64", "4294967296", "3037000500"};

constexpr const char *words[] = {"0",
                                 "1",
                                 "2",
                                 "-1",
                                 "4294967296",
                                 "9223372036854775807",
                                 "f32",
                                 "f64",
                                 "bf16",
                                 "i1",
                                 "i32",
                                 "ui8",
                                 "complex",
                                 "tensor",
                                 "f8E4M3FN",
                                 "true",
                                 "dense",
                                 "?",
                                 "0x7FC00000",
                                 "64",
                                 "2147483648",
                                 "-9223372036854775808",
                                 "index",
                                 "none",
                                 "!stablehlo.token",
                                 "array",
                                 "unit",
                                 "splat",
                                 "loc",
                                 "private",
                                 "1.0e+400"};

class Mutator {
public:
  explicit Mutator(unsigned seed) : random(seed) {}
  size_t pick(size_t count) { return count ? random() % count : 0; }

  std::string changeLines(const std::string &text) {
    Texts lines = linesOf(text);
    size_t at = pick(lines.size()), other = pick(lines.size());
    switch (pick(4)) {
    case 0:
      lines.erase(lines.begin() + long(at));
      break;
    case 1:
      lines.insert(lines.begin() + long(at), std::string(lines[other]));
      break;
    default:
      std::swap(lines[at], lines[other]);
    }
    return join(lines);
  }

  /// Replaces a token by one of the text, or by one of ours.
  std::string changeTokens(const std::string &text) {
    Texts tokens = tokensOf(text);
    if (tokens.empty())
      return text;
    std::string &token = tokens[pick(tokens.size())];
    bool isNumber = std::isdigit(static_cast<unsigned char>(token[0]));
    if (isNumber || pick(4) == 0) {
      token = words[pick(std::size(words))];
      return join(tokens);
    }
    // Of its kind: a value for a value, an op for an op.
    for (int turn = 0; turn < 64; ++turn) {
      const std::string &other = tokens[pick(tokens.size())];
      bool isAlike = (other[0] == '%') == (token[0] == '%') &&
                     (other.find('.') == std::string::npos) ==
                         (token.find('.') == std::string::npos);
      if (isAlike && other != token) {
        token = std::string(other);
        break;
      }
    }
    return join(tokens);
  }

  /// Writes another element type, or another size, wherever one stands: most
  /// of the results still verify, and reach the passes.
  std::string changeTypes(const std::string &text) {
    Texts tokens = tokensOf(text), parts;
    for (const std::string &token : tokens)
      if (isType(token))
        for (std::string &part : split(token))
          if (part != complexType)
            parts.push_back(part);
    if (parts.empty())
      return text;
    std::string old = parts[pick(parts.size())];
    std::string made = isWord(old) ? elements[pick(std::size(elements))]
                                   : sizes[pick(std::size(sizes))];
    for (std::string &token : tokens) {
      if (!isType(token))
        continue;
      Texts changed = split(token);
      std::replace(changed.begin(), changed.end(), old, made);
      token = changed.front();
      for (size_t i = 1; i < changed.size(); ++i)
        token += 'x' + changed[i];
    }
    return join(tokens);
  }

  std::mt19937 random;
};
} // namespace

std::string scalify::fuzz::mutate(const std::string &text, unsigned seed) {
  Mutator mutator(seed);
  std::string result = text;
  for (size_t left = 1 + mutator.pick(3); left-- > 0;)
    switch (mutator.pick(8)) {
    case 0:
    case 1:
      result = mutator.changeLines(result);
      break;
    case 2:
    case 3:
      result = mutator.changeTypes(result);
      break;
    default:
      result = mutator.changeTokens(result);
    }
  return result;
}

std::string scalify::fuzz::cross(const std::string &a, const std::string &b,
                                 unsigned seed) {
  Mutator mutator(seed);
  Texts lines = linesOf(a), others = linesOf(b);
  for (size_t left = 1 + mutator.pick(3); left-- > 0;)
    lines.insert(lines.begin() + long(mutator.pick(lines.size())),
                 others[mutator.pick(others.size())]);
  return join(lines);
}
