// Mutates JSON by its structure, so that most results are still manifests.
#ifndef SCALIFY_FUZZ_JSONMUTATOR_H
#define SCALIFY_FUZZ_JSONMUTATOR_H

#include <nlohmann/json.hpp>

namespace scalify::fuzz {

/// Changes one to four places of `json`: a number, a text, an entry that is
/// removed, repeated, or replaced by another one of the tree.
void mutate(nlohmann::json &json, unsigned seed);

} // namespace scalify::fuzz

#endif // SCALIFY_FUZZ_JSONMUTATOR_H
