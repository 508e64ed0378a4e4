//===- ExceptionPatterns.h - A recipe's exceptions by name ------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_EXCEPTIONPATTERNS_H
#define SCALIFY_LIB_PRECISION_EXCEPTIONPATTERNS_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Regex.h"

#include <set>
#include <string>
#include <vector>

namespace scalify {

/// The part `where` of a recipe beside the dots of a module: which exception is
/// whose, and which of them is nobody's.
class ExceptionPatterns {
public:
  explicit ExceptionPatterns(RecipeAttr recipe);

  /// What applies to a dot; null where nothing does.
  struct Match {
    const FormatOverride *formats = nullptr, *accumulation = nullptr;
  };
  /// The first exceptions for a dot of that kind by the names in its location
  /// and that of its weight, which may be null.
  Match match(mlir::Operation *dot, mlir::Value weight,
              std::optional<DotKind> kind);
  /// Once all dots of the module are matched: a remark for each exception that
  /// met none, with the names that there are; an error if `strict`.
  llvm::LogicalResult checkAllMet(mlir::ModuleOp module, bool strict,
                                  bool remarks) const;

private:
  struct Entry {
    FormatOverride exception;
    std::optional<DotKind> only;
    llvm::Regex pattern;
    /// The kinds of dots whose names match, and whether one is of the right
    /// kind.
    std::set<DotKind> kinds;
    bool isNamed = false, isMet = false;
  };
  std::string describeUnmet(const Entry &entry) const;

  std::vector<Entry> entries;
  /// What dots can be called by.
  std::set<std::string> weights, places;
  std::set<DotKind> kinds;
  bool hasDots = false;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_EXCEPTIONPATTERNS_H
