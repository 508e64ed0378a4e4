//===- LargeConstants.h - Constants beyond a format -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PRECISION_LARGECONSTANTS_H
#define SCALIFY_LIB_PRECISION_LARGECONSTANTS_H

#include "scalify/Dialect/Scalify/Scalify.h"

#include <string>

namespace scalify {

/// Why the value of `hint` cannot be cast to `format`: a finite constant stands
/// among its elements that would saturate at its scale. Empty if none does;
/// else it starts with `!`: this is not the recipe's choice.
std::string describeLargeConstant(SetScaleOp hint, mlir::FloatType format);

} // namespace scalify

#endif // SCALIFY_LIB_PRECISION_LARGECONSTANTS_H
