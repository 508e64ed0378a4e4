//===- ProgramFile.h - Programs from files ----------------------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_PROGRAMFILE_H
#define SCALIFY_PIPELINE_PROGRAMFILE_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace scalify {

/// Reads a program from a file, or from standard input if the name is `-`. A
/// portable artefact of StableHLO and the bytes of `jax.export` are converted
/// to text by `python -m scalify.portable`, with the Python that the
/// environment's SCALIFY_PYTHON names, else `python3`.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readProgram(llvm::StringRef path);

} // namespace scalify

#endif // SCALIFY_PIPELINE_PROGRAMFILE_H
