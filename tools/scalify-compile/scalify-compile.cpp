//===- scalify-compile.cpp - Compiler from StableHLO text to an artefact --===//

#include "MeasureState.h"
#include "scalify/Pipeline/Compiler.h"
#include "scalify/Pipeline/Why.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;
using namespace scalify;

static cl::OptionCategory category("scalify-compile options");

static cl::opt<std::string> input(cl::Positional, cl::Required,
                                  cl::desc("IN.mlir (- for standard input)"),
                                  cl::cat(category));
static cl::opt<std::string>
    output("o", cl::Required, cl::desc("output file (- for standard output)"),
           cl::value_desc("file"), cl::cat(category));
static cl::opt<std::string>
    recipe("recipe",
           cl::desc("a preset, or the text of a #scalify.recipe<...> "
                    "(default: the module's own, else none)"),
           cl::cat(category));
static cl::opt<std::string> target("target", cl::init("cpu"),
                                   cl::desc("cpu (default), sm_90a (also "
                                            "cuda, h100, h200), or stablehlo "
                                            "for text that XLA runs"),
                                   cl::cat(category));
static cl::opt<std::string>
    fp8Form("fp8-form", cl::init("wide"),
            cl::desc("with --target=stablehlo: the form of dots on FP8 "
                     "data: wide (default), xla-gpu, plain"),
            cl::value_desc("form"), cl::cat(category));
static cl::opt<std::string> mcpu(
    "mcpu", cl::init("x86-64-v3"),
    cl::desc("CPU whose instructions kernels may use (default: x86-64-v3)"),
    cl::cat(category));
static cl::opt<std::string>
    ptxas("ptxas",
          cl::desc("with --target=sm_90a: NVIDIA's assembler (default: on the "
                   "search path, or the CUDA toolkit's)"),
          cl::value_desc("program"), cl::cat(category));
static cl::opt<bool> strict("strict", cl::desc("turn fallbacks into errors"),
                            cl::cat(category));
static cl::opt<std::string>
    scalesFile("scales",
               cl::desc("JSON: a file of scalify.measure(...).save, an object "
                        "of argument names, or a list in "
                        "main's order, with log2 of each scale"),
               cl::value_desc("file"), cl::cat(category));
static cl::opt<std::string>
    stateFile("state",
              cl::desc("measure scales from the tensors of this safetensors "
                       "file that are named as arguments"),
              cl::value_desc("file"), cl::cat(category));
static cl::opt<bool> declaredScales(
    "declared-scales",
    cl::desc("arguments without a scale get 2^0 (an error with --strict); "
             "by default each step measures them"),
    cl::cat(category));
static cl::opt<std::string>
    compileFrom("compile-from", cl::init("input"),
                cl::desc("the input is the output of "
                         "this stage: import, scaling, precision, "
                         "distribution, fusion, codegen"),
                cl::value_desc("stage"), cl::cat(category));
static cl::opt<std::string> compileTo("compile-to", cl::init("target"),
                                      cl::desc("stop after this stage and "
                                               "write its IR"),
                                      cl::value_desc("stage"),
                                      cl::cat(category));
static cl::opt<std::string> snapshots("snapshots",
                                      cl::desc("write the IR after each stage "
                                               "into this folder"),
                                      cl::value_desc("folder"),
                                      cl::cat(category));
static cl::opt<std::string>
    report("scalify-report",
           cl::desc("print the report of every value: json or text"),
           cl::value_desc("format"), cl::cat(category));
static cl::alias reportAlias("report", cl::aliasopt(report),
                             cl::desc("the same as --scalify-report"),
                             cl::cat(category));
static cl::list<std::string>
    why("scalify-why",
        cl::desc("print the chain of rules behind the scale of a value ('%4', "
                 "an argument's name, a cast 'c0', a part of a location)"),
        cl::value_desc("name"), cl::cat(category));
static cl::opt<unsigned>
    whyDepth("scalify-why-depth", cl::init(6),
             cl::desc("steps that --scalify-why traces back (0: all)"),
             cl::value_desc("steps"), cl::cat(category));
static cl::opt<bool>
    keepReport("keep-report",
               cl::desc("keep the report of every value in the artefact"),
               cl::cat(category));
static cl::opt<bool>
    collectStatistics("collect-statistics",
                      cl::desc("with --target=stablehlo: main also returns "
                               "the statistics of every cast"),
                      cl::cat(category));
static cl::list<std::string>
    rescaleAt("rescale",
              cl::desc("places where the step measures scales: residual_grad, "
                       "residual, or a regular expression for JAX's names"),
              cl::value_desc("place"), cl::cat(category));
static cl::list<std::string>
    priors("scalify-priors",
           cl::desc("guesses about training that predictions use, by name, "
                    "or none, or default, in place of the recipe's"),
           cl::value_desc("names"), cl::CommaSeparated, cl::cat(category));
static cl::opt<bool>
    adaptScales("adapt-scales",
                cl::desc("make the scales of casts an argument, which the "
                         "artefact's function 'rescale' adapts"),
                cl::cat(category));
enum class CastScales { Carried, Measured, Static };
static cl::opt<CastScales> castScales(
    "cast-scales", cl::init(CastScales::Carried),
    cl::desc("scales of casts whose values may grow:"),
    cl::values(clEnumValN(CastScales::Carried, "carried",
                          "an argument that each step adapts and returns"),
               clEnumValN(CastScales::Measured, "measured",
                          "measured in each step if a constant does not fit"),
               clEnumValN(CastScales::Static, "static",
                          "constants of the first step")),
    cl::cat(category));
static cl::opt<bool>
    packState("pack-state",
              cl::desc("keep state that the recipe narrows as narrow data "
                       "between steps"),
              cl::cat(category));
static cl::opt<int64_t> streams(
    "streams", cl::init(1),
    cl::desc("GPU streams for commands that do not fill the GPU (default: 1)"),
    cl::cat(category));
static cl::opt<std::string> simulateRanks(
    "simulate-ranks",
    cl::desc("one process runs a partitioned program for all devices of its "
             "mesh, whose size must be this number if one is given"),
    cl::ValueOptional, cl::value_desc("ranks"), cl::cat(category));
static cl::opt<std::string> libraryAttention(
    "library-attention",
    cl::desc(
        "attentions of a GPU that use cuDNN: those whose results the "
        "program rounds identically (exact), also those whose operands the "
        "recipe casts (recipe, the default), or none, for a machine without it "
        "(none)"),
    cl::init("recipe"), cl::value_desc("which"), cl::cat(category));
static cl::opt<std::string> epilogues(
    "epilogues",
    cl::desc(
        "epilogues of products in a GPU's library: those that round as the "
        "program does (exact, the default), all (all), or none (none)"),
    cl::init("exact"), cl::value_desc("which"), cl::cat(category));
static cl::opt<bool>
    overlap("overlap",
            cl::desc("run collectives concurrently with computation; =false "
                     "for one after the other"),
            cl::init(true), cl::cat(category));
static cl::opt<int64_t> bucketBytes(
    "bucket-bytes",
    cl::desc("bytes of a rank in a bucket of collectives; 0 for no buckets "
             "(default: 1 MiB on CPUs, 25 MiB on GPUs)"),
    cl::value_desc("bytes"), cl::cat(category));
static cl::opt<int64_t> memoryLimit(
    "memory-limit",
    cl::desc("bytes that a rank may need for a step: beyond, all-gathers of "
             "sharded weights are repeated for the backward (default: any "
             "number)"),
    cl::value_desc("bytes"), cl::cat(category));
static cl::opt<std::string>
    sums("sums",
         cl::desc("floats of several GPUs are summed in the order of ranks "
                  "(ordered, the default), or by NCCL in its own (nccl)"),
         cl::init("ordered"), cl::value_desc("order"), cl::cat(category));
static cl::opt<bool> memory("memory",
                            cl::desc("print the plan's memory by purpose"),
                            cl::cat(category));
static cl::opt<bool> remarks("remarks", cl::desc("print remarks in full"),
                             cl::cat(category));

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "scalify-compile") << message << "\n";
  return 1;
}

static llvm::Error fail(llvm::Error error, llvm::StringRef what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 what + llvm::toString(std::move(error)));
}

static llvm::Error setStage(Stage &stage, llvm::StringRef option,
                            llvm::StringRef name) {
  std::optional<Stage> found = symbolizeStage(name);
  if (!found)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "unknown stage '" + name + "' in --" +
                                       option + ": expected one of " +
                                       getStageNames());
  stage = *found;
  return llvm::Error::success();
}

/// Measured scales first, so that given scales override them.
static llvm::Error setScales(CompileOptions &options) {
  if (!stateFile.empty()) {
    llvm::Expected<std::vector<ArgumentScale>> measured =
        measureState(stateFile);
    if (!measured)
      return measured.takeError();
    options.scales = std::move(*measured);
  }
  if (scalesFile.empty())
    return llvm::Error::success();
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file =
      llvm::MemoryBuffer::getFile(scalesFile);
  if (!file)
    return llvm::createStringError(file.getError(),
                                   "cannot open '" + scalesFile +
                                       "': " + file.getError().message());
  if (llvm::Error error = addArgumentScales(options, (*file)->getBuffer()))
    return fail(std::move(error), "'" + scalesFile + "': ");
  return llvm::Error::success();
}

/// Without a number, the ranks are those of the mesh.
static llvm::Error setRanks(CompileOptions &options) {
  if (!simulateRanks.getNumOccurrences())
    return llvm::Error::success();
  int64_t ranks = 0;
  if (!simulateRanks.empty() &&
      (llvm::StringRef(simulateRanks).getAsInteger(10, ranks) || ranks < 1))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "--simulate-ranks needs a number of at "
                                   "least 1, not '" +
                                       simulateRanks + "'");
  options.simulateRanks = ranks;
  return llvm::Error::success();
}

static llvm::Expected<CompileOptions> readOptions() {
  CompileOptions options;
  options.recipe = recipe;
  options.target = target;
  options.fp8Form = fp8Form;
  options.mcpu = mcpu;
  options.ptxas = ptxas;
  options.strict = strict;
  options.declaredScales = declaredScales;
  options.snapshots = snapshots;
  options.collectStatistics = collectStatistics;
  options.rescaleAt.assign(rescaleAt.begin(), rescaleAt.end());
  options.priors.assign(priors.begin(), priors.end());
  options.adaptScales = adaptScales;
  options.carryScales = castScales == CastScales::Carried;
  options.measureCasts = castScales == CastScales::Measured;
  options.packState = packState;
  options.streams = streams;
  options.libraryAttention = libraryAttention;
  options.epilogues = epilogues;
  options.overlap = overlap;
  options.sums = sums;
  options.memoryLimit = memoryLimit;
  if (bucketBytes.getNumOccurrences())
    options.bucketBytes = bucketBytes;
  if (keepReport || !report.empty() || !why.empty())
    options.report = "full";
  options.inputName = input == "-" ? std::string("<stdin>") : input.getValue();
  if (llvm::Error error =
          setStage(options.compileFrom, "compile-from", compileFrom))
    return std::move(error);
  if (llvm::Error error = setStage(options.compileTo, "compile-to", compileTo))
    return std::move(error);
  if (llvm::Error error = setScales(options))
    return std::move(error);
  if (llvm::Error error = setRanks(options))
    return std::move(error);
  return options;
}

static void printDiagnostics(const std::vector<DiagnosticRecord> &diagnostics) {
  unsigned numRemarks = 0;
  for (const DiagnosticRecord &diagnostic : diagnostics) {
    if (diagnostic.severity == mlir::DiagnosticSeverity::Remark && !remarks)
      ++numRemarks;
    else
      llvm::errs() << formatDiagnostic(diagnostic);
  }
  if (numRemarks)
    llvm::errs() << "scalify-compile: " << numRemarks
                 << " remarks (--remarks prints them)\n";
}

static int write(const CompileResult &result) {
  std::error_code error;
  llvm::ToolOutputFile file(output, error, llvm::sys::fs::OF_None);
  if (error)
    return fail("cannot write '" + output + "': " + error.message());
  file.os() << result.output;
  file.os().flush();
  if (file.os().has_error())
    return fail("cannot write '" + output +
                "': " + file.os().error().message());
  file.keep();
  return 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // libLLVM adds hundreds of its own options.
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "scalify-compile " << SCALIFY_VERSION << "\n";
  });
  cl::ParseCommandLineOptions(
      argc, argv, "Scalify: compiles StableHLO text to one artefact\n");
  if (!report.empty() && report != "json" && report != "text")
    return fail("unknown report '" + report + "': expected json or text");
  llvm::Expected<CompileOptions> options = readOptions();
  if (!options)
    return fail(llvm::toString(options.takeError()));
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text =
      llvm::MemoryBuffer::getFileOrSTDIN(input);
  if (!text)
    return fail("cannot open '" + input + "': " + text.getError().message());
  std::vector<DiagnosticRecord> diagnostics;
  mlir::FailureOr<CompileResult> result =
      compile((*text)->getBuffer(), *options, diagnostics);
  printDiagnostics(diagnostics);
  if (failed(result))
    return 1;
  // The report must not mix with a result on standard output.
  llvm::raw_ostream &os = output == "-" ? llvm::errs() : llvm::outs();
  if (report == "json")
    os << result->report << "\n";
  else if (report == "text")
    os << result->summary;
  if (memory && !result->memory)
    return fail(
        "--memory needs a plan: compile for the CPU or a GPU, to stage fusion "
        "or later");
  if (memory)
    os << plan::toText(*result->memory);
  for (const std::string &name : why) {
    llvm::Expected<int64_t> row = findRow(result->values, name);
    if (!row)
      return fail(llvm::toString(row.takeError()));
    os << toText(result->values, explainScale(result->values, *row, whyDepth));
  }
  return write(*result);
}
