//===- scalify-opt.cpp - mlir-opt with Scalify's dialects and passes ------===//

#include "Explain.h"

#include "scalify/Dialect/StableHLO/BooleanBlobs.h"
#include "scalify/Pipeline/InitAll.h"
#include "scalify/Pipeline/Nesting.h"
#include "scalify/Pipeline/ProgramFile.h"
#include "scalify/Scaling/Passes.h"
#include "scalify/Scaling/Rules.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

static bool asksForHelp(int argc, char **argv) {
  return std::any_of(argv + 1, argv + argc, [](llvm::StringRef argument) {
    return argument == "--help" || argument == "-help" || argument == "-h";
  });
}

/// Adds a first pass that sets the priors.
static void usePriors(mlir::MlirOptMainConfig &config,
                      llvm::ArrayRef<std::string> names) {
  scalify::SetPriorsOptions options;
  options.use.assign(names.begin(), names.end());
  config.setPassPipelineSetupFn([config, options](mlir::PassManager &manager) {
    manager.addPass(scalify::createSetPriors(options));
    return config.setupPassPipeline(manager);
  });
}

/// Runs mlir-opt, on text that later MLIR versions may have printed.
static llvm::LogicalResult run(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  scalify::registerAllDialects(registry);
  scalify::registerAllPasses();
  // Among the hundreds of MLIR's passes nobody would find them.
  if (asksForHelp(argc, argv)) {
    llvm::outs() << "Scalify's own passes, before those of MLIR:\n\n";
    mlir::printRegisteredPasses();
    llvm::outs() << "\n";
  }
  mlir::registerAllPasses();
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "scalify-opt " << SCALIFY_VERSION << "\n";
  });
  llvm::cl::opt<bool> listRules(
      "scalify-list-rules",
      llvm::cl::desc("Print the table of scale rules and exit"));
  llvm::cl::list<std::string> priors(
      "scalify-priors", llvm::cl::CommaSeparated, llvm::cl::value_desc("names"),
      llvm::cl::desc("Guesses about training that predictions use, by name, "
                     "or none, or default, in place of the recipe's"));
  llvm::cl::opt<int64_t> nestingLimit(
      "scalify-nesting-limit", llvm::cl::init(scalify::kNestingLimit),
      llvm::cl::value_desc("levels"),
      llvm::cl::desc("Levels of brackets, aliases and operators within one "
                     "another in the text (default: 512)"));
  auto [inputName, outputName] = mlir::registerAndParseCLIOptions(
      argc, argv, "Scalify: scale propagation for StableHLO\n", registry);
  if (listRules) {
    mlir::MLIRContext context(registry);
    return scalify::listScaleRules(context, llvm::outs());
  }
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (!priors.empty())
    usePriors(config, priors);
  if (config.shouldShowDialects()) {
    llvm::interleaveComma(registry.getDialectNames(), llvm::outs());
    return llvm::success();
  }
  if (config.shouldListPasses()) {
    mlir::printRegisteredPasses();
    return llvm::success();
  }

  std::string error;
  auto program = scalify::readProgram(inputName);
  if (!program) {
    llvm::errs() << llvm::toString(program.takeError()) << "\n";
    return llvm::failure();
  }
  std::unique_ptr<llvm::MemoryBuffer> input = std::move(*program);
  // Of text only: bytecode is MLIR's own.
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  if (!input->getBuffer().starts_with("ML\xefR") &&
      llvm::failed(scalify::checkNesting(input->getBuffer(),
                                         input->getBufferIdentifier(),
                                         nestingLimit, context)))
    return llvm::failure();
  auto output = mlir::openOutputFile(outputName, &error);
  if (!output) {
    llvm::errs() << error << "\n";
    return llvm::failure();
  }
  if (auto packed = scalify::stablehlo::packBooleanBlobs(input->getBuffer()))
    input = llvm::MemoryBuffer::getMemBufferCopy(*packed,
                                                 input->getBufferIdentifier());
  bool explains = scalify::wantsExplanation();
  if (explains && llvm::failed(scalify::explain(std::move(input), registry,
                                                config, output->os())))
    return llvm::failure();
  if (!explains && llvm::failed(mlir::MlirOptMain(
                       output->os(), std::move(input), registry, config)))
    return llvm::failure();
  output->keep();
  return llvm::success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  return mlir::asMainReturnCode(run(argc, argv));
}
