// Whether all ranks have loaded one step.
#ifndef SCALIFY_RUNTIME_LOADER_AGREEMENT_H
#define SCALIFY_RUNTIME_LOADER_AGREEMENT_H

#include "comm/Communicator.h"
#include "loader/Image.h"
#include "loader/Program.h"

namespace scalify::rt {

/// What steps have alike that are of one program, wherever its sources lie.
struct Signature {
  uint64_t exchanges = 0; // what ranks do with each other, in order
  uint64_t all = 0;       // functions, commands, arguments, constants too
  uint64_t machine = 0;   // for which the kernels were compiled
  uint64_t kernels = 0;   // their code, which is the same for one machine
};
Signature signatureOf(const Program &program, const Image &image);

/// Compares with all ranks, those of a pipeline's stage among themselves; all
/// call it. Throws Error that names a rank with another step.
void requireOneStep(const Program &program, const Image &image,
                    Communicator &comm);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_AGREEMENT_H
