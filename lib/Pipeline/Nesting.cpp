//===- Nesting.cpp - The depth of a text before it is parsed --------------===//

#include "scalify/Pipeline/Nesting.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace scalify;
using llvm::StringRef;

/// Of resources: a page.
static constexpr int64_t kMostAligned = 4096;

namespace {
/// Reads text once, without a tree of it.
class NestingScan {
public:
  NestingScan(StringRef text, int64_t limit) : text(text), limit(limit) {}

  std::optional<NestingFault> run() {
    while (at < text.size()) {
      size_t begin = at;
      step();
      if (depth() > limit)
        return NestingFault{begin, limit, NestingFault::Depth};
      if (expanded > mostExpanded())
        return NestingFault{begin, mostExpanded(), NestingFault::Aliases};
      if (!isAligned)
        return NestingFault{begin, kMostAligned, NestingFault::Alignment};
    }
    return std::nullopt;
  }

private:
  struct Alias {
    int64_t depth = 0, size = 0;
  };

  /// Of aliases that a definition uses: a text may use each of its own once.
  /// Tuples may have 65,536 elements (scalify-flatten-tuples), and an error of
  /// its own says so.
  int64_t mostExpanded() const {
    int64_t most = defined.starts_with("!") ? 1 << 21 : 1 << 16;
    return std::max(most, int64_t(text.size()));
  }
  int64_t depth() { return int64_t(levels.size()) + below + top() + aliased; }
  bool follows(char c) const { return at < text.size() && text[at] == c; }

  void step() {
    aliased = 0;
    char c = text[at++];
    if (llvm::isSpace(c))
      return;
    if (c == '/' && follows('/')) {
      at = std::min(text.find('\n', at), text.size());
      return;
    }
    endDefinition(c);
    switch (c) {
    case '"':
      if (isEntry)
        checkAlignment();
      skipString();
      break;
    case '(':
    case '[':
    case '{':
      open();
      break;
    case '<':
      if (!follows('='))
        open();
      break;
    case ')':
    case ']':
    case '}':
      close();
      break;
    case '>':
      if (!follows('='))
        close();
      break;
    case '-':
      if (follows('>'))
        ++at;
      else
        ++top();
      break;
    case '+':
    case '*':
      ++top();
      break;
    case ',':
    case '=':
    case ':':
      top() = 0;
      break;
    case '#':
    case '!':
      readAlias();
      break;
    default:
      if (llvm::isAlpha(c) || c == '_')
        readWord();
    }
    deepest = std::max(deepest, depth());
    size += isCounted;
    isValueNext = c == '=' || c == ':' || (c == '-' && text[at - 1] == '>');
    isEntry = c == ':';
  }

  /// What a definition stands for ends where a word, a string or a value
  /// outside of brackets continues neither it nor its type: an op begins.
  void endDefinition(char c) {
    bool begins = llvm::isAlpha(c) || c == '_' || c == '"' || c == '%';
    if (levels.empty() && begins && !isValueNext)
      isCounted = false;
  }

  void skipString() {
    while (at < text.size() && text[at] != '"' && text[at] != '\n')
      at += text[at] == '\\' ? 2 : 1;
    at = std::min(at + 1, text.size());
  }

  /// Of a resource, whose first four bytes they are: the least significant one
  /// comes first. Strings stand after a colon nowhere else.
  void checkAlignment() {
    StringRef digits = text.substr(at, 10);
    if (!digits.consume_front("0x") || digits.size() < 8 ||
        !llvm::all_of(digits, llvm::isHexDigit))
      return;
    int64_t alignment = 0;
    for (size_t i : {6, 4, 2, 0})
      alignment =
          alignment << 8 | llvm::hexFromNibbles(digits[i], digits[i + 1]);
    isAligned = alignment > 0 && alignment <= kMostAligned;
  }

  /// Operators since the last comma, within the innermost bracket.
  int64_t &top() { return levels.empty() ? outside : levels.back(); }

  void open() {
    below += top();
    levels.push_back(0);
  }
  void close() {
    if (levels.empty())
      return;
    levels.pop_back();
    below -= top();
  }

  StringRef word() {
    StringRef rest = text.substr(at);
    StringRef found = rest.take_while([](char c) {
      return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.';
    });
    at += found.size();
    return found;
  }

  void readWord() {
    --at;
    StringRef found = word();
    if (found == "mod" || found == "floordiv" || found == "ceildiv")
      ++top();
  }

  /// A use is as deep as the definition, which stands before it. What follows
  /// a definition counts as part of it up to the next one, or its first use.
  void readAlias() {
    size_t begin = at - 1;
    word();
    StringRef name = text.slice(begin, at);
    bool isDefinition =
        levels.empty() && text.substr(at).ltrim().starts_with("=");
    if (isDefinition || name == defined) {
      aliases[defined] = {deepest, size + expanded};
      defined = isDefinition ? name : StringRef();
      isCounted = isDefinition;
      expanded = 0;
    }
    if (isDefinition) {
      deepest = outside = size = 0;
      return;
    }
    auto found = aliases.find(name);
    if (found == aliases.end())
      return;
    aliased = found->second.depth;
    if (isCounted)
      expanded += found->second.size;
  }

  StringRef text, defined;
  int64_t limit;
  size_t at = 0;
  llvm::SmallVector<int64_t> levels; // operators in each open bracket
  int64_t outside = 0, below = 0;    // of no bracket, of all but the innermost
  int64_t aliased = 0, deepest = 0;
  /// Of the definition: its own tokens, and those of the aliases that it uses,
  /// each time anew.
  int64_t size = 0, expanded = 0;
  bool isCounted = false, isValueNext = false, isEntry = false;
  bool isAligned = true;
  llvm::StringMap<Alias> aliases;
};
} // namespace

std::optional<NestingFault> scalify::findDeepNesting(StringRef text,
                                                     int64_t limit) {
  return NestingScan(text, limit).run();
}

llvm::LogicalResult scalify::checkNesting(StringRef text, StringRef name,
                                          int64_t limit, MLIRContext &context) {
  std::optional<NestingFault> fault = findDeepNesting(text, limit);
  if (!fault)
    return llvm::success();
  StringRef before = text.take_front(fault->place);
  auto line = unsigned(before.count('\n') + 1);
  auto column = unsigned(fault->place - (before.rfind('\n') + 1) + 1);
  InFlightDiagnostic error =
      emitError(FileLineColLoc::get(&context, name, line, column));
  switch (fault->kind) {
  case NestingFault::Depth:
    error << "the text nests more than " << fault->limit
          << " levels here: raise the nesting limit if its program is meant";
    break;
  case NestingFault::Aliases:
    error << "the aliases in this one stand for more than " << fault->limit
          << " tokens: name fewer aliases in one another";
    break;
  case NestingFault::Alignment:
    error << "the resource asks for an alignment of 0 bytes, or of more than "
          << fault->limit
          << ": its first four bytes must be the alignment of its elements, "
             "such as 0x04000000";
  }
  return error;
}

/// Of brackets outside of strings.
static bool isDeep(StringRef json) {
  int64_t depth = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    else if (c == '"')
      while (++i < json.size() && json[i] != '"')
        i += json[i] == '\\';
    if (depth > kNestingLimit)
      return true;
  }
  return false;
}

llvm::Expected<llvm::json::Value> scalify::parseJSON(StringRef text) {
  if (isDeep(text))
    return llvm::createStringError("it nests more than " +
                                   llvm::Twine(kNestingLimit) + " levels");
  return llvm::json::parse(text);
}
