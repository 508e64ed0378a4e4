//===- LargeConstants.h - Constants that a format cannot hold ---*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_LARGECONSTANTS_H
#define SCALIFY_LIB_PRECISION_LARGECONSTANTS_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// Returns why the value of `hint` cannot be cast to `format`: one of its
/// elements is a finite constant that would saturate at its scale. Null if none
/// is.
DecisionAttr describeLargeConstant(ScaleHintOp hint, mlir::FloatType format);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_LARGECONSTANTS_H
