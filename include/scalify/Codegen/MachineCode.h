//===- MachineCode.h - What LLVM's code generators share --------*- C++ -*-===//

#ifndef SCALIFY_CODEGEN_MACHINECODE_H
#define SCALIFY_CODEGEN_MACHINECODE_H

#include "mlir/Support/LLVM.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/OptimizationLevel.h"
#include "llvm/Target/TargetMachine.h"

namespace scalify {

/// The code generator of a triple whose target is registered; null, with the
/// reason, where there is none. `contraction` says whether a product and the
/// sum that reads it may round once: `Fast`, or never (`Strict`).
std::unique_ptr<llvm::TargetMachine> createTargetMachine(
    llvm::StringRef triple, llvm::StringRef cpu, llvm::StringRef features,
    std::optional<llvm::Reloc::Model> relocation, llvm::CodeGenOptLevel level,
    llvm::FPOpFusion::FPOpFusionMode contraction, std::string &error);

/// Gives a module its machine, optimises it, and writes it as an object or as
/// text. False where the code generator cannot write such a file.
bool emitMachineCode(llvm::Module &module, llvm::TargetMachine &machine,
                     llvm::OptimizationLevel level, llvm::CodeGenFileType kind,
                     llvm::SmallVectorImpl<char> &code);

} // namespace scalify

#endif // SCALIFY_CODEGEN_MACHINECODE_H
