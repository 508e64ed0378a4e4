// Mutates MLIR text by lines and tokens, so that many results still parse.
#ifndef SCALIFY_FUZZ_TEXTMUTATOR_H
#define SCALIFY_FUZZ_TEXTMUTATOR_H

#include <string>

namespace scalify::fuzz {

std::string mutate(const std::string &text, unsigned seed);

/// Returns lines of both texts.
std::string cross(const std::string &a, const std::string &b, unsigned seed);

} // namespace scalify::fuzz

#endif // SCALIFY_FUZZ_TEXTMUTATOR_H
