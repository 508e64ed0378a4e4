//===- LargeConstants.h - Constants beyond a format -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_LARGECONSTANTS_H
#define SCALIFY_LIB_PRECISION_LARGECONSTANTS_H

#include "scalify/Dialect/Scalify/Scalify.h"

namespace scalify {

/// Why the value of `hint` cannot be cast to `format`: a finite constant stands
/// among its elements that would saturate at its scale. Null if none does.
DecisionAttr describeLargeConstant(ScaleHintOp hint, mlir::FloatType format);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_LARGECONSTANTS_H
