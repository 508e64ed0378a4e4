//===- SimulatedGrid.h - A GPU's kernels on threads of the host -*- C++ -*-===//

#ifndef SCALIFY_UNITTESTS_CODEGEN_SIMULATEDGRID_H
#define SCALIFY_UNITTESTS_CODEGEN_SIMULATEDGRID_H

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// Runs the kernels of a program on the CPU and on grids of several sizes.
/// Expects the same elements, sums within their rounding, and the same counts.
/// `timesCounted`: the number of times that the CPU's kernels compute, and so
/// count, an element of a cast.
void checkProgram(llvm::StringRef text, bool isPlan = false,
                  uint64_t timesCounted = 1);

} // namespace scalify

#endif // SCALIFY_UNITTESTS_CODEGEN_SIMULATEDGRID_H
