//===- DecidedFormats.h - What scalify-decide-formats decided ---*- C++ -*-===//

#ifndef SCALIFY_PRECISION_DECIDEDFORMATS_H
#define SCALIFY_PRECISION_DECIDEDFORMATS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <string>
#include <vector>

namespace scalify {

/// Returns the formats of each dot on floats between scalify-decide-formats and
/// scalify-quantize, in program order: `f8E4M3FN x f8E5M2`, or the types of the
/// operands of a dot that is not cast.
std::vector<std::string> listDecidedFormats(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_PRECISION_DECIDEDFORMATS_H
