//===- ImportPipeline.h - The passes of Import, in their order --*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_IMPORTPIPELINE_H
#define SCALIFY_LIB_PIPELINE_IMPORTPIPELINE_H

#include "scalify/Pipeline/Stages.h"

namespace scalify {

/// Calls, callbacks' tokens and chlo ops hide what is sharded.
void buildFlat(mlir::OpPassManager &module);
/// The phases and roles of a step.
void buildRoles(mlir::OpPassManager &module);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_IMPORTPIPELINE_H
