//===- SimulatedGrid.h - A GPU's kernels on threads of the host -*- C++ -*-===//

#ifndef SCALIFY_UNITTESTS_CODEGEN_SIMULATEDGRID_H
#define SCALIFY_UNITTESTS_CODEGEN_SIMULATEDGRID_H

#include "llvm/ADT/StringRef.h"

namespace scalify {

/// Runs the kernels of a program on the CPU and on grids of several sizes:
/// expects the same elements, sums within their rounding, and the same counts.
/// `timesCounted`: how often the CPU's kernels meet an element of a cast, which
/// they count each time.
void checkProgram(llvm::StringRef text, bool isPlan = false,
                  uint64_t timesCounted = 1);

} // namespace scalify

#endif // SCALIFY_UNITTESTS_CODEGEN_SIMULATEDGRID_H
