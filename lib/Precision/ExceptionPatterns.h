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

/// Matches the exceptions of a recipe's part `where` with the dots of a module,
/// and reports those that match no dot.
class ExceptionPatterns {
public:
  explicit ExceptionPatterns(RecipeAttr recipe);

  /// The exceptions that apply to a dot; null where none does.
  struct Match {
    const FormatOverride *formats = nullptr, *accumulation = nullptr;
  };
  /// Returns the first exceptions that match a dot of that kind, by the names
  /// in its location and that of its weight, which may be null.
  Match match(mlir::Operation *dot, mlir::Value weight,
              std::optional<DotKind> kind);
  /// Reports each exception that matched none of the module's dots, with the
  /// known names: an error if `strict`, else a warning if `remarks`. Must be
  /// called after all dots are matched.
  llvm::LogicalResult checkAllMet(mlir::ModuleOp module, bool strict,
                                  bool remarks) const;

private:
  struct Entry {
    FormatOverride exception;
    std::optional<DotKind> only;
    llvm::Regex pattern;
    /// The kinds of dots whose names match; whether there are such dots, and
    /// whether one is of the right kind.
    std::set<DotKind> kinds;
    bool isNamed = false, isMet = false;
  };
  std::string describeUnmet(const Entry &entry) const;

  std::vector<Entry> entries;
  /// The names by which patterns can match dots.
  std::set<std::string> weights, places;
  std::set<DotKind> kinds;
  bool hasDots = false;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_EXCEPTIONPATTERNS_H
