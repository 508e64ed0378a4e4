//===- MachineCode.h - Helpers for LLVM code generators ---------*- C++ -*-===//

#ifndef SCALIFY_CODEGEN_MACHINECODE_H
#define SCALIFY_CODEGEN_MACHINECODE_H

#include "mlir/Support/LLVM.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace scalify {

/// Returns the code generator of a triple whose target is registered, or null
/// with the reason in `error`. `contraction` states whether a product and the
/// sum that reads it may fuse into one rounding: `Fast`, or never (`Strict`).
std::unique_ptr<llvm::TargetMachine> createTargetMachine(
    llvm::StringRef triple, llvm::StringRef cpu, llvm::StringRef features,
    std::optional<llvm::Reloc::Model> relocation, llvm::CodeGenOptLevel level,
    llvm::FPOpFusion::FPOpFusionMode contraction, std::string &error);

/// Sets the module's target, optimises the module by a pipeline as `opt
/// -passes` takes it, and emits an object file or assembly. False if the code
/// generator cannot emit this kind of file.
bool emitMachineCode(llvm::Module &module, llvm::TargetMachine &machine,
                     llvm::StringRef pipeline, llvm::CodeGenFileType kind,
                     llvm::SmallVectorImpl<char> &code);

} // namespace scalify

#endif // SCALIFY_CODEGEN_MACHINECODE_H
