// Mutates programs as IR, so that nearly all results verify: what Import reads
// has other operands, attributes and ops than any test has.
#ifndef SCALIFY_FUZZ_IRMUTATOR_H
#define SCALIFY_FUZZ_IRMUTATOR_H

#include "mlir/IR/DialectRegistry.h"

#include <optional>
#include <string>

namespace scalify::fuzz {

/// The dialects of programs.
const mlir::DialectRegistry &getRegistry();

/// Returns the program after a few changes of operands, attributes and ops, of
/// which some come from `other`. Nothing if `text` is no program that verifies.
std::optional<std::string> mutateIR(const std::string &text,
                                    const std::string &other, unsigned seed);

} // namespace scalify::fuzz

#endif // SCALIFY_FUZZ_IRMUTATOR_H
