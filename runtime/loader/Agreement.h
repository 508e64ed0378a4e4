// Checks that all ranks have loaded the same step.
#ifndef SCALIFY_RUNTIME_LOADER_AGREEMENT_H
#define SCALIFY_RUNTIME_LOADER_AGREEMENT_H

#include "comm/Communicator.h"
#include "loader/Image.h"
#include "loader/Program.h"

namespace scalify::rt {

/// Hashes that are equal for steps of one program, whatever the paths of its
/// sources.
struct Signature {
  uint64_t exchanges = 0; // the ranks' exchanges, in order
  uint64_t all = 0;       // functions, commands, arguments, constants too
  uint64_t machine = 0;   // target of the kernels
  uint64_t kernels = 0;   // the kernels' code, identical for one machine
};
Signature computeSignature(const Program &program, const Image &image);

/// Compares the signatures of all ranks, those of a pipeline's stages
/// separately; all ranks call it. Returns a hash of all of them, which is the
/// same on all ranks. Throws an Error that names a rank with another step.
uint64_t requireOneStep(const Program &program, const Image &image,
                        Communicator &comm);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_AGREEMENT_H
