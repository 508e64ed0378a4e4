//===- MeasureState.h - Scales from a file of initial values ----*- C++ -*-===//

#ifndef SCALIFY_TOOLS_SCALIFY_COMPILE_MEASURESTATE_H
#define SCALIFY_TOOLS_SCALIFY_COMPILE_MEASURESTATE_H

#include "scalify/Pipeline/Compiler.h"

namespace scalify {

/// Returns the scale of each tensor of a safetensors file, by name: the power
/// of two nearest to its root mean square; kZeroScale for an all-zero tensor.
/// Tensors that are not finite, not floating point, or of rank 0 have none.
llvm::Expected<std::vector<ArgumentScale>> measureState(llvm::StringRef path);

} // namespace scalify

#endif // SCALIFY_TOOLS_SCALIFY_COMPILE_MEASURESTATE_H
