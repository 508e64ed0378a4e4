//===- BodyPhases.h - Phases inside of loops and branches -------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_PHASES_BODYPHASES_H
#define SCALIFY_LIB_IMPORT_PHASES_BODYPHASES_H

#include "Phases.h"

namespace scalify::import {

/// Tells apart the phases inside of loops whose ops all have the phase of the
/// loop.
void refineBodies(mlir::func::FuncOp main, PhaseMap &phases);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_PHASES_BODYPHASES_H
