//===- BodyPhases.h - Phases inside loops and branches ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_BODYPHASES_H
#define SCALIFY_LIB_IMPORT_PHASES_BODYPHASES_H

#include "Phases.h"

namespace scalify::import {

/// Refines the phases inside loops whose ops all have the phase of the loop.
void refineBodies(mlir::func::FuncOp main, PhaseMap &phases);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_BODYPHASES_H
