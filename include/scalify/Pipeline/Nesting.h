//===- Nesting.h - The depth of a text before it is parsed ------*- C++ -*-===//
//
// MLIR's parser, its walks and LLVM's parser of JSON recurse, so that a text
// of one bracket in another a hundred thousand times overflows the stack.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_PIPELINE_NESTING_H
#define SCALIFY_PIPELINE_NESTING_H

#include "scalify/Pipeline/PlainOptions.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/LogicalResult.h"

#include <optional>

namespace scalify {

/// A place in a text that nests too deep, whose aliases stand for too much, or
/// where a resource asks for an alignment that no memory has.
struct NestingFault {
  enum Kind { Depth, Aliases, Alignment };
  size_t place = 0;
  int64_t limit = 0;
  Kind kind = Depth;
};

/// Returns where in MLIR text brackets, aliases of attributes and types within
/// one another, and the operators of affine expressions are more than `limit`
/// deep together; or where the aliases that a definition names, each in full
/// wherever it stands, are much longer than the text. What walks attributes,
/// types or locations as trees would not come to an end: forty aliases that
/// each name the one before twice are a tree of 2^40. The parser allocates what
/// a resource asks for, and ends the process where it cannot.
std::optional<NestingFault> findDeepNesting(llvm::StringRef text,
                                            int64_t limit);

/// Emits an error at that position.
llvm::LogicalResult checkNesting(llvm::StringRef text, llvm::StringRef name,
                                 int64_t limit, mlir::MLIRContext &context);

/// llvm::json::parse of text that is at most kNestingLimit deep.
llvm::Expected<llvm::json::Value> parseJSON(llvm::StringRef text);

} // namespace scalify

#endif // SCALIFY_PIPELINE_NESTING_H
