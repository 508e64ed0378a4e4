//===- AnywhereInliner.h - Ops that may be inlined anywhere -----*- C++ -*-===//

#ifndef SCALIFY_DIALECT_STABLEHLO_ANYWHEREINLINER_H
#define SCALIFY_DIALECT_STABLEHLO_ANYWHEREINLINER_H

#include "mlir/Transforms/InliningUtils.h"

namespace scalify {

/// For dialects no op of which depends on its parent function: every op and
/// region may be inlined.
struct AnywhereInliner : mlir::DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(mlir::Operation *, mlir::Operation *, bool) const final {
    return true;
  }
  bool isLegalToInline(mlir::Region *, mlir::Region *, bool,
                       mlir::IRMapping &) const final {
    return true;
  }
  bool isLegalToInline(mlir::Operation *, mlir::Region *, bool,
                       mlir::IRMapping &) const final {
    return true;
  }
};

} // namespace scalify

#endif // SCALIFY_DIALECT_STABLEHLO_ANYWHEREINLINER_H
