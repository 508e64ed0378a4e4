//===- CheckOptions.cpp - Check options and their combinations ------------===//

#include "CheckOptions.h"

#include "scalify/Dialect/Plan/PlanStreams.h"
#include "scalify/Dialect/Scalify/Targets.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace mlir;
using namespace scalify;

StringRef scalify::resolveTarget(StringRef name) {
  const Target *target = findTarget(name);
  return target ? StringRef(target->getInfo().name) : name;
}

static LogicalResult checkWord(StringRef what, StringRef given,
                               ArrayRef<StringRef> known, Location location) {
  if (llvm::is_contained(known, given))
    return success();
  auto words = llvm::make_filter_range(
      known, [](StringRef word) { return !word.empty(); });
  return emitError(location)
         << "unknown " << what << " '" << given << "': expected one of "
         << llvm::join(words, ", ");
}

static LogicalResult checkWords(const CompileOptions &options,
                                Location location) {
  if (options.target != "stablehlo" && !findTarget(options.target))
    return emitError(location)
           << "unknown target '" << options.target << "': expected one of "
           << getTargetNames() << ", stablehlo";
  for (const PlainOption &option : getPlainOptions()) {
    if (option.words.empty())
      continue;
    SmallVector<StringRef> words;
    option.words.split(words, ", ");
    std::string name =
        option.flag.empty() ? option.key.str() : option.flag.str();
    std::replace(name.begin(), name.end(), '-', ' ');
    auto member = std::get<std::string PlainOptions::*>(option.member);
    if (failed(checkWord(name, options.*member, words, location)))
      return failure();
  }
  return success();
}

static LogicalResult checkBytes(const CompileOptions &options,
                                Location location) {
  bool toStableHLO = options.target == "stablehlo";
  if (options.memoryLimit < 0)
    return emitError(location) << "the memory limit must be 0 bytes or more, "
                                  "not "
                               << options.memoryLimit;
  if (options.memoryLimit > 0 && (toStableHLO || options.simulateRanks))
    return emitError(location)
           << "a memory limit applies to a rank's plan, and "
           << (toStableHLO ? "StableHLO has none"
                           : "one process has the memory of all ranks")
           << ": leave out the limit of " << options.memoryLimit << " bytes";
  if (options.memoryLimit > 0 && options.pipelineStages > 0)
    return emitError(location)
           << "pipeline stages keep what they gather: leave out the memory "
              "limit of "
           << options.memoryLimit << " bytes";
  if (options.bucketBytes && *options.bucketBytes < 0)
    return emitError(location)
           << "buckets must have 0 bytes or more, not " << *options.bucketBytes;
  return success();
}

/// LLVM ends the process if it does not know the CPU's name.
static LogicalResult checkProcessor(StringRef name, Location location) {
  if (llvm::X86::parseArchX86(name, /*Only64Bit=*/true) == llvm::X86::CK_None)
    return emitError(location)
           << "unknown CPU '" << name
           << "': expected one of LLVM's names, such as x86-64-v3, x86-64-v4, "
              "znver4, sapphirerapids";
  SmallVector<StringRef> features;
  llvm::X86::getFeaturesForCPU(name, features);
  if (!llvm::is_contained(features, "fma"))
    return emitError(location)
           << "CPU '" << name
           << "' multiplies and adds in two roundings, where kernels have one: "
              "take x86-64-v3 or a newer one";
  return success();
}

static LogicalResult checkMachine(const CompileOptions &options,
                                  Location location) {
  bool isGPU = isGPUTarget(options.target);
  if (options.target == "cpu" && failed(checkProcessor(options.mcpu, location)))
    return failure();
  if (options.sums == "nccl" && !isGPU)
    return emitError(location)
           << "target '" << options.target
           << "' has no NCCL: its ranks sum in their order; leave out the sums";
  if (options.streams < 1 || options.streams > plan::kMaxStreams)
    return emitError(location) << "streams must be 1 to " << plan::kMaxStreams
                               << ", not " << options.streams;
  if (options.streams > 1 && !isGPU)
    return emitError(location)
           << "target '" << options.target
           << "' has no streams: only GPUs run commands side by side";
  return success();
}

static LogicalResult checkPipeline(const CompileOptions &options,
                                   Location location) {
  if (options.pipelineStages < 0 || options.pipelineVirtual < 1)
    return emitError(location)
           << "a pipeline needs stages and at least one chunk on each";
  if (options.pipelineStages == 0)
    return success();
  if (options.target == "stablehlo")
    return emitError(location)
           << "target 'stablehlo' has no pipelines: stages are cut in the plan";
  if (options.simulateRanks)
    return emitError(location)
           << "one process that simulates ranks has no stages: leave out one "
              "of the two";
  return success();
}

LogicalResult scalify::checkOptions(const CompileOptions &options,
                                    Location location) {
  if (failed(checkWords(options, location)) ||
      failed(checkBytes(options, location)) ||
      failed(checkMachine(options, location)) ||
      failed(checkPipeline(options, location)))
    return failure();
  if (options.compileFrom >= options.compileTo)
    return emitError(location)
           << "there is no stage after '" << stringifyStage(options.compileFrom)
           << "' and up to '" << stringifyStage(options.compileTo) << "'";
  return success();
}
