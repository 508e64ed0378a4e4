//===- PlainOptions.cpp - The table of plain options ----------------------===//

#include "scalify/Pipeline/PlainOptions.h"

using namespace scalify;

llvm::ArrayRef<PlainOption> scalify::getPlainOptions() {
  static constexpr PlainOption options[] = {
#define OPTION_FLAG(member, initial, flag, help)                               \
  {#member, &PlainOptions::member, flag, "", help, ""},
#define OPTION_TEXT(member, initial, flag, value, help)                        \
  {#member, &PlainOptions::member, flag, value, help, ""},
#define OPTION_WORD(member, initial, flag, words, help)                        \
  {#member, &PlainOptions::member, flag, "word", help, words},
#define OPTION_NUMBER(member, initial, flag, value, help)                      \
  {#member, &PlainOptions::member, flag, value, help, ""},
#define OPTION_LIST(member, flag, value, help)                                 \
  {#member, &PlainOptions::member, flag, value, help, ""},
#define PYTHON_FLAG(member, initial)                                           \
  {#member, &PlainOptions::member, "", "", "", ""},
#define PYTHON_TEXT(member, initial)                                           \
  {#member, &PlainOptions::member, "", "", "", ""},
#define PYTHON_WORD(member, initial, words)                                    \
  {#member, &PlainOptions::member, "", "", "", words},
#define PYTHON_NUMBER(member, initial)                                         \
  {#member, &PlainOptions::member, "", "", "", ""},
#include "scalify/Pipeline/PlainOptions.def"
  };
  return options;
}
