//===- MachineCode.cpp - Helpers for LLVM code generators -----------------===//

#include "scalify/Codegen/MachineCode.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"

std::unique_ptr<llvm::TargetMachine> scalify::createTargetMachine(
    llvm::StringRef triple, llvm::StringRef cpu, llvm::StringRef features,
    std::optional<llvm::Reloc::Model> relocation, llvm::CodeGenOptLevel level,
    llvm::FPOpFusion::FPOpFusionMode contraction, std::string &error) {
  llvm::Triple parsed(triple);
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(parsed, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = contraction;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      parsed, cpu, features, options, relocation, std::nullopt, level));
}

static void optimise(llvm::Module &module, llvm::TargetMachine &machine,
                     llvm::StringRef pipeline) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, pipeline));
  passes.run(module, modules);
}

bool scalify::emitMachineCode(llvm::Module &module,
                              llvm::TargetMachine &machine,
                              llvm::StringRef pipeline,
                              llvm::CodeGenFileType kind,
                              llvm::SmallVectorImpl<char> &code) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  optimise(module, machine, pipeline);
  llvm::raw_svector_ostream os(code);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr, kind))
    return false;
  passes.run(module);
  return true;
}
