//===- AllTargets.h - Register all targets ----------------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_ALLTARGETS_H
#define SCALIFY_TARGET_ALLTARGETS_H

namespace scalify {

/// Registers the targets that artefacts can be compiled for; further calls do
/// nothing.
void registerAllTargets();

} // namespace scalify

#endif // SCALIFY_TARGET_ALLTARGETS_H
