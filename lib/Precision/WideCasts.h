//===- WideCasts.h - Casts left out since they clipped ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_WIDECASTS_H
#define SCALIFY_LIB_PRECISION_WIDECASTS_H

#include "scalify/Precision/CastScales.h"

namespace scalify {

/// The module's `scalify.wide_casts`: casts that clipped in an earlier run, and
/// that this compilation leaves out.
class WideCasts {
public:
  explicit WideCasts(mlir::ModuleOp module);

  bool empty() const { return entries.empty(); }
  /// Returns why the cast of `root` with the name `cast` is left out; empty if
  /// it is not.
  std::string match(llvm::StringRef cast, mlir::Value root);
  /// Removes the attribute. Fails, naming an entry, if no entry matched a cast.
  /// If some did, emits a remark for each entry that did not.
  llvm::LogicalResult checkAllMet(mlir::ModuleOp module) const;

private:
  std::vector<WideCast> entries;
  std::vector<bool> met;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_WIDECASTS_H
