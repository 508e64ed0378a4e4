//===- AllTargets.cpp - Register all targets ------------------------------===//

#include "scalify/Target/AllTargets.h"

#include "scalify/Target/CPU/Passes.h"
#include "scalify/Target/CUDA/Passes.h"

void scalify::registerAllTargets() {
  static const bool once = [] {
    registerCPUTarget();
    registerCUDATargets();
    return true;
  }();
  (void)once;
}
