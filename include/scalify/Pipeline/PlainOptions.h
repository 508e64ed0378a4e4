//===- PlainOptions.h - Options that are one word or number -----*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_PLAINOPTIONS_H
#define SCALIFY_PIPELINE_PLAINOPTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace scalify {

/// Levels of a text: far above what programs nest, and safe on a thread's
/// stack.
inline constexpr int64_t kNestingLimit = 512;

/// The members are the rows of PlainOptions.def.
struct PlainOptions {
  /// The table also names defaults that are empty, as those of std::string are.
  static std::string getText(const char *initial) { return initial; }
#define OPTION_FLAG(member, initial, flag, help) bool member = initial;
#define OPTION_TEXT(member, initial, flag, value, help)                        \
  std::string member = getText(initial);
#define OPTION_WORD(member, initial, flag, words, help)                        \
  std::string member = getText(initial);
#define OPTION_NUMBER(member, initial, flag, value, help)                      \
  int64_t member = initial;
#define OPTION_LIST(member, flag, value, help) std::vector<std::string> member;
#define PYTHON_FLAG(member, initial) bool member = initial;
#define PYTHON_TEXT(member, initial) std::string member = getText(initial);
#define PYTHON_WORD(member, initial, words)                                    \
  std::string member = getText(initial);
#define PYTHON_NUMBER(member, initial) int64_t member = initial;
#include "scalify/Pipeline/PlainOptions.def"

  /// True if steps carry the scales of casts whose values may grow.
  bool carriesScales() const {
    return carryScales && !measureCasts && !adaptScales;
  }
};

/// One row of the table.
struct PlainOption {
  llvm::StringLiteral key;
  std::variant<bool PlainOptions::*, std::string PlainOptions::*,
               int64_t PlainOptions::*,
               std::vector<std::string> PlainOptions::*>
      member;
  /// The tool's option and its help; empty if the tool has none.
  llvm::StringLiteral flag, value, help;
  /// The words that the option takes, separated by ", "; empty for any text.
  llvm::StringLiteral words;
};

/// Returns all rows, in the order of the table.
llvm::ArrayRef<PlainOption> getPlainOptions();

} // namespace scalify

#endif // SCALIFY_PIPELINE_PLAINOPTIONS_H
