//===- WideCasts.h - Casts that health keeps wide ---------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_WIDECASTS_H
#define SCALIFY_LIB_PRECISION_WIDECASTS_H

#include "scalify/Precision/CastScales.h"

namespace scalify {

/// The module's `scalify.wide_casts`: casts that an earlier run found to clip,
/// and that this compilation leaves out.
class WideCasts {
public:
  explicit WideCasts(mlir::ModuleOp module);

  bool empty() const { return entries.empty(); }
  /// Why the cast of that name of `root` is left out; empty if it is not.
  std::string match(llvm::StringRef cast, mlir::Value root);
  /// An error, naming it, for an entry that met no cast.
  llvm::LogicalResult checkAllMet(mlir::ModuleOp module) const;

private:
  std::vector<WideCast> entries;
  std::vector<bool> met;
};

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_WIDECASTS_H
