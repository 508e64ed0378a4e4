//===- scalify-compile.cpp - Compiler from StableHLO text to an artefact --===//

#include "MeasureState.h"
#include "scalify/Pipeline/Compiler.h"
#include "scalify/Pipeline/ProgramFile.h"
#include "scalify/Pipeline/Why.h"
#include "scalify/Target/AllTargets.h"

#include "llvm/ADT/StringExtras.h"
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

static cl::opt<std::string>
    input(cl::Positional, cl::Required,
          cl::desc("IN.mlir, or what jax.export serialized (- for "
                   "standard input)"),
          cl::cat(category));
static cl::opt<std::string>
    output("o", cl::Required, cl::desc("output file (- for standard output)"),
           cl::value_desc("file"), cl::cat(category));

/// The plain options, and the tool's options that set them.
static PlainOptions plain;
#define OPTION_FLAG(member, initial, flag, help)                               \
  static cl::opt<bool, true> member##Flag(                                     \
      flag, cl::desc(help), cl::location(plain.member), cl::init(initial),     \
      cl::cat(category));
#define OPTION_TEXT(member, initial, flag, value, help)                        \
  static cl::opt<std::string, true> member##Flag(                              \
      flag, cl::desc(help), cl::location(plain.member), cl::init(initial),     \
      cl::value_desc(value), cl::cat(category));
#define OPTION_WORD(member, initial, flag, words, help)                        \
  OPTION_TEXT(member, initial, flag, "word", help)
#define OPTION_NUMBER(member, initial, flag, value, help)                      \
  static cl::opt<int64_t, true> member##Flag(                                  \
      flag, cl::desc(help), cl::location(plain.member), cl::init(initial),     \
      cl::value_desc(value), cl::cat(category));
#define OPTION_LIST(member, flag, value, help)                                 \
  static cl::list<std::string, std::vector<std::string>> member##Flag(         \
      flag, cl::desc(help), cl::location(plain.member), cl::value_desc(value), \
      cl::cat(category));
#define OPTION_NAMES(member, flag, value, help)                                \
  static cl::list<std::string, std::vector<std::string>> member##Flag(         \
      flag, cl::desc(help), cl::location(plain.member), cl::value_desc(value), \
      cl::CommaSeparated, cl::cat(category));
#include "scalify/Pipeline/PlainOptions.def"

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
static cl::opt<std::string> simulateRanks(
    "simulate-ranks",
    cl::desc("one process runs a partitioned program for all devices of its "
             "mesh, whose size must be this number if one is given"),
    cl::ValueOptional, cl::value_desc("ranks"), cl::cat(category));
static cl::opt<int64_t> bucketBytes(
    "bucket-bytes",
    cl::desc("bytes of a rank in a bucket of collectives; 0 for no buckets "
             "(default: 1 MiB on CPUs, 25 MiB on GPUs)"),
    cl::value_desc("bytes"), cl::cat(category));
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
  static_cast<PlainOptions &>(options) = plain;
  options.carryScales = castScales == CastScales::Carried;
  options.measureCasts = castScales == CastScales::Measured;
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

/// For --help.
static std::string describeTargets() {
  registerAllTargets();
  std::string text = "\nDEVICES:\n\n";
  llvm::raw_string_ostream os(text);
  for (const Target *target : getTargets()) {
    const TargetInfo &info = target->getInfo();
    os << "  " << llvm::left_justify(info.name, 10) << info.description;
    if (!info.aliases.empty())
      os << " (also " << llvm::join(info.aliases, ", ") << ")";
    os << "\n";
  }
  return text;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // libLLVM adds hundreds of its own options.
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "scalify-compile " << SCALIFY_VERSION << "\n";
  });
  std::string targets = describeTargets();
  cl::extrahelp help(targets);
  cl::ParseCommandLineOptions(argc, argv,
                              "Scalify: compiles StableHLO to one artefact\n");
  if (!report.empty() && report != "json" && report != "text")
    return fail("unknown report '" + report + "': expected json or text");
  llvm::Expected<CompileOptions> options = readOptions();
  if (!options)
    return fail(llvm::toString(options.takeError()));
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> text = readProgram(input);
  if (!text)
    return fail(llvm::toString(text.takeError()));
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
