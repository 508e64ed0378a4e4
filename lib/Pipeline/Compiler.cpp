//===- Compiler.cpp - From StableHLO text to an artefact ------------------===//

#include "scalify/Pipeline/Compiler.h"

#include "ArgumentRanges.h"
#include "ArgumentRoles.h"
#include "ArgumentScales.h"
#include "CheckOptions.h"
#include "CheckShardings.h"
#include "Resources.h"
#include "Strings.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/BooleanBlobs.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Pipeline/InitAll.h"
#include "scalify/Pipeline/NarrowWork.h"
#include "scalify/Pipeline/Nesting.h"
#include "scalify/Pipeline/Recipes.h"
#include "scalify/Pipeline/Report.h"
#include "scalify/Pipeline/SourceNames.h"
#include "scalify/Precision/DecidedFormats.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Scaling/Passes.h"
#include "scalify/Scaling/Priors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace scalify;

/// The most plans made to find one that fits in memory, not counting the first
/// and the one that rematerialises all gathers.
static constexpr int kMaxPlans = 5;

/// The most collectives in flight when memory is short: one that transfers, and
/// one that follows it at once.
static constexpr int64_t kMaxInFlight = 2;

static const DialectRegistry &getRegistry() {
  static const DialectRegistry registry = [] {
    DialectRegistry result;
    mlir::registerAllDialects(result);
    mlir::registerAllExtensions(result);
    scalify::registerAllDialects(result);
    return result;
  }();
  return registry;
}

/// Rejects portable artefacts: bytecode of a dialect that only jaxlib reads.
static LogicalResult checkIsText(StringRef text, Location location) {
  bool isBytecode = text.starts_with("ML\xefR");
  if (!isBytecode && !text.contains("vhlo."))
    return success();
  return emitError(location)
         << "the input is " << (isBytecode ? "bytecode" : "in the vhlo dialect")
         << ", a portable artefact: convert it to text with 'python -m "
            "scalify.portable IN > OUT.mlir'";
}

static OwningOpRef<ModuleOp> parse(StringRef text, StringRef name,
                                   MLIRContext &context, int64_t nestingLimit,
                                   bool keepNames = false) {
  Location start = FileLineColLoc::get(&context, name, 1, 1);
  if (failed(checkIsText(text, start)) ||
      failed(checkNesting(text, name, nestingLimit, context)))
    return {};
  // Other versions of MLIR print boolean constants in another form.
  std::optional<std::string> packed = stablehlo::packBooleanBlobs(text);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(
                                 packed ? StringRef(*packed) : text, name),
                             llvm::SMLoc());
  OwningOpRef<ModuleOp> module =
      keepNames ? parseWithSourceNames(sources, &context)
                : parseSourceFile<ModuleOp>(sources, &context);
  if (module &&
      (failed(readResources(*module)) || failed(checkStrings(*module))))
    return {};
  return module;
}

static std::string print(ModuleOp module, bool debugInfo) {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  if (debugInfo)
    flags.enableDebugInfo();
  module.print(os, flags);
  return text;
}

namespace {
/// One compilation: the context, its diagnostics, and the module.
class Compilation {
public:
  Compilation(StringRef text, const CompileOptions &options,
              std::vector<DiagnosticRecord> &diagnostics)
      : text(text), options(options), diagnostics(diagnostics),
        context(getRegistry()),
        collector(&context, options.inputName, text, diagnostics),
        toStableHLO(options.target == "stablehlo") {
    context.loadDialect<func::FuncDialect, stablehlo::StableHLODialect,
                        ScalifyDialect>();
    // An error on main would print the whole step.
    context.printOpOnDiagnostic(false);
  }

  FailureOr<CompileResult> run();
  FailureOr<DotFormatLists> decide(ArrayRef<int64_t> exponents);

private:
  LogicalResult start();
  LogicalResult setRecipe();
  LogicalResult runStage(Stage stage);
  LogicalResult prepare(Stage stage);
  LogicalResult finishPrecision();
  StageOptions getStageOptions();
  LogicalResult run(PassManager &manager);
  LogicalResult runPasses(Stage stage, const StageOptions &stageOptions);
  LogicalResult fuseWithin(int64_t bytes, StageOptions stageOptions);
  std::optional<plan::PlanMemory> measure();
  LogicalResult reportExcess(const plan::PlanMemory &memory, int64_t limit);
  LogicalResult writeSnapshot(Stage stage);
  FailureOr<std::string> emitArtefact(StringRef report);
  Location here() {
    return FileLineColLoc::get(&context, options.inputName, 1, 1);
  }

  StringRef text;
  const CompileOptions &options;
  std::vector<DiagnosticRecord> &diagnostics;
  MLIRContext context;
  DiagnosticCollector collector;
  OwningOpRef<ModuleOp> module;
  bool isFull() const { return options.report == "full"; }
  void report(Stage stage);
  CompileResult makeResult();

  bool toStableHLO;
  std::vector<ReportRow> rows;
  ScaleReport values;
  std::vector<OpCounts> counts;
};
} // namespace

LogicalResult Compilation::setRecipe() {
  if (options.recipe.empty())
    return success();
  FailureOr<RecipeAttr> recipe = readRecipe(options.recipe, &context);
  if (failed(recipe))
    return failure();
  (*module)->setAttr(kRecipeAttr, *recipe);
  return success();
}

LogicalResult Compilation::writeSnapshot(Stage stage) {
  if (options.snapshots.empty())
    return success();
  std::string name = "0" + std::to_string(static_cast<int>(stage)) + "-" +
                     stringifyStage(stage).str() + ".mlir";
  if (std::error_code error =
          llvm::sys::fs::create_directories(options.snapshots))
    return emitError(here()) << "cannot make the folder '" << options.snapshots
                             << "': " << error.message();
  llvm::SmallString<128> path(options.snapshots);
  llvm::sys::path::append(path, name);
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (error)
    return emitError(here())
           << "cannot write '" << path << "': " << error.message();
  file << print(*module, options.debugInfo);
  return success();
}

/// Runs passes, then verifies the IR. With SCALIFY_VERIFY_EACH, which some
/// tests set, each pass is verified; that takes a third of a compilation's
/// time.
LogicalResult Compilation::run(PassManager &manager) {
  static const bool verifiesEach =
      !llvm::sys::Process::GetEnv("SCALIFY_VERIFY_EACH").value_or("").empty();
  manager.enableVerifier(verifiesEach);
  if (failed(manager.run(*module)))
    return failure();
  return verifiesEach ? success() : verify(*module);
}

LogicalResult Compilation::runPasses(Stage stage,
                                     const StageOptions &stageOptions) {
  PassManager manager(&context);
  if (isFull())
    manager.addInstrumentation(std::make_unique<ScaleOpCounter>(counts));
  buildStage(stage, toStableHLO, stageOptions, manager);
  return run(manager);
}

std::optional<plan::PlanMemory> Compilation::measure() {
  for (auto program : module->getOps<plan::ProgramOp>())
    if (program.getSymName() == "step")
      return plan::measureMemory(program);
  return std::nullopt;
}

LogicalResult Compilation::reportExcess(const plan::PlanMemory &memory,
                                        int64_t limit) {
  InFlightDiagnostic said =
      options.strict ? emitError(here()) : emitRemark(here());
  said << "the step needs " << memory.peak()
       << " bytes, and the limit of memory is " << limit
       << ": of these are state " << memory.state() << ", activations "
       << memory.kept << ", gradients " << memory.gradients
       << "; smaller micro-batches, more ranks, a higher level of ZeRO or "
          "jax.checkpoint need less";
  return failure(options.strict);
}

namespace {
/// A plan, and the diagnostics and counts of its making.
struct Fused {
  OwningOpRef<ModuleOp> module;
  plan::PlanMemory memory;
  std::vector<DiagnosticRecord> said;
  std::vector<OpCounts> counted;
};
} // namespace

/// The first plan keeps all gathered values, which moves the fewest bytes. If
/// it exceeds the limit, the next plan limits the collectives in flight, which
/// moves no more bytes. Each further plan keeps fewer bytes of gathered values,
/// by the excess; it may take several turns, since some of these bytes are not
/// live at the peak. If no plan fits, the plan with the smallest peak stays.
LogicalResult Compilation::fuseWithin(int64_t bytes,
                                      StageOptions stageOptions) {
  OwningOpRef<ModuleOp> before = module->clone();
  const size_t numSaid = diagnostics.size(), numCounted = counts.size();
  std::optional<Fused> least;
  // Without overlap, a limit on collectives in flight changes nothing.
  for (int turn = stageOptions.overlap ? 0 : 1;; ++turn) {
    if (failed(runPasses(Stage::Fusion, stageOptions)))
      return failure();
    std::optional<plan::PlanMemory> memory = measure();
    int64_t excess = memory ? memory->peak() - bytes : 0;
    if (excess <= 0)
      return success();
    auto held = (*module)->getAttrOfType<IntegerAttr>(plan::kGatheredBytesAttr);
    int64_t kept = held ? held.getInt() : 0;
    if (stageOptions.gatheredBytes >= 0)
      kept = stageOptions.gatheredBytes;
    if (!least || memory->peak() < least->memory.peak())
      least = Fused{std::move(module),
                    *memory,
                    {diagnostics.begin() + numSaid, diagnostics.end()},
                    {counts.begin() + numCounted, counts.end()}};
    diagnostics.resize(numSaid);
    counts.resize(numCounted);
    if (turn > 0 && kept == 0)
      break;
    if (turn == 0)
      stageOptions.mostInFlight = kMaxInFlight;
    else
      stageOptions.gatheredBytes =
          turn < kMaxPlans ? std::max<int64_t>(kept - excess, 0) : 0;
    module = before->clone();
  }
  module = std::move(least->module);
  llvm::append_range(diagnostics, least->said);
  llvm::append_range(counts, least->counted);
  return reportExcess(least->memory, bytes);
}

/// Applies the inputs that come from the options, not from the module.
LogicalResult Compilation::prepare(Stage stage) {
  if (stage == Stage::Scaling && !toStableHLO &&
      failed(checkIsSingleDevice(*module)))
    return failure();
  // Arguments have names only after Import.
  if (stage == Stage::Scaling &&
      (failed(applyArgumentRoles(*module, options.roles)) ||
       failed(applyArgumentScales(*module, options.scales)) ||
       failed(applyArgumentRanges(*module, options.ranges))))
    return failure();
  if (stage == Stage::Scaling && !options.rescaleAt.empty())
    (*module)->setAttr(kPlacesAttr,
                       Builder(&context).getStrArrayAttr(
                           llvm::to_vector_of<StringRef>(options.rescaleAt)));
  if (stage == Stage::Scaling && !options.priors.empty() &&
      failed(setPriors(*module, options.priors)))
    return failure();
  if (stage == Stage::Precision && !options.wide.empty())
    setWideCasts(*module, options.wide);
  return success();
}

StageOptions Compilation::getStageOptions() {
  StageOptions stages;
  static_cast<PlainOptions &>(stages) = options;
  // The module has the recipe as an attribute.
  stages.recipe.clear();
  stages.packState = options.packState && !toStableHLO;
  stages.casts = RecipeAttr::of(*module).castsDots();
  stages.simulateRanks = options.simulateRanks;
  stages.keepsState = !toStableHLO;
  // XLA runs the same text and would merge the recomputed ops again.
  stages.recompute = !toStableHLO;
  // With the fallback XLA runs these loops, and returns results without counts.
  stages.countsLoops = toStableHLO || options.fallback != "xla";
  stages.explain = isFull();
  stages.device = &TargetAttr::getTarget(*module);
  stages.bucketBytes =
      options.bucketBytes.value_or(stages.device->getInfo().bucketBytes);
  stages.orderSums = stages.isGPU() && options.sums == "ordered";
  return stages;
}

/// Applies the options that change the scales of the stage's casts.
LogicalResult Compilation::finishPrecision() {
  if (RecipeAttr::of(*module).getScales() == ScaleSource::Delayed &&
      (options.adaptScales || !options.castScales.empty()))
    return emitError(here())
           << "the recipe's scales are delayed, from the amaxes of earlier "
              "steps: leave out adaptive scales and the calibration";
  if (!options.castScales.empty() &&
      failed(applyCastScales(*module, options.castScales,
                             /*someAreWide=*/!options.wide.empty())))
    return failure();
  if (options.carriesScales())
    markCarriedCasts(*module);
  if (!options.adaptScales)
    remarkOnStaticCasts(*module);
  // Report here, so that the report has the casts' initial scales.
  report(Stage::Precision);
  if (std::string text = describeWideWork(*module); !text.empty())
    emitWarning(here()) << text;
  PassManager manager(&context);
  buildKeptScales(options, manager);
  return run(manager);
}

LogicalResult Compilation::runStage(Stage stage) {
  if (failed(prepare(stage)))
    return failure();
  bool isLimited = stage == Stage::Fusion && options.memoryLimit > 0;
  if (failed(isLimited ? fuseWithin(options.memoryLimit, getStageOptions())
                       : runPasses(stage, getStageOptions())))
    return failure();
  if (stage != Stage::Precision)
    report(stage);
  else if (failed(finishPrecision()))
    return failure();
  return writeSnapshot(stage);
}

void Compilation::report(Stage stage) {
  if (stage == Stage::Precision) {
    rows = buildReport(*module);
    eraseReportedKinds(*module);
    if (!toStableHLO)
      attachReport(*module, rows);
  }
  // Later stages must compile the same IR with and without a report.
  if (isFull() && values.rows.empty() &&
      (stage == Stage::Precision || stage == options.compileTo)) {
    values = buildScaleReport(*module);
    values.counts = counts;
    eraseSourceNames(*module);
  }
}

/// Sets the compiler's remarks on the module, for the artefact.
static void attachRemarks(ModuleOp module,
                          ArrayRef<DiagnosticRecord> diagnostics) {
  Builder builder(module.getContext());
  SmallVector<Attribute> remarks;
  for (const DiagnosticRecord &diagnostic : diagnostics)
    if (diagnostic.severity == DiagnosticSeverity::Remark)
      remarks.push_back(builder.getDictionaryAttr(
          {builder.getNamedAttr("message",
                                builder.getStringAttr(diagnostic.message)),
           builder.getNamedAttr("loc",
                                builder.getStringAttr(diagnostic.location))}));
  module->setAttr("scalify.remarks", builder.getArrayAttr(remarks));
}

static std::string toString(const llvm::json::Value &value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

/// Compresses by zlib. Returns the text itself if LLVM was built without zlib.
static std::string compress(StringRef text) {
  if (!llvm::compression::zlib::isAvailable())
    return text.str();
  SmallVector<uint8_t> bytes;
  llvm::compression::zlib::compress(llvm::arrayRefFromStringRef(text), bytes);
  return std::string(bytes.begin(), bytes.end());
}

FailureOr<std::string> Compilation::emitArtefact(StringRef report) {
  attachRemarks(*module, diagnostics);
  ArtefactOptions artefact;
  artefact.recipe = RecipeAttr::of(*module).getName().str();
  artefact.report = isFull() ? compress(report) : "";
  artefact.mcpu = options.mcpu;
  artefact.ptxas = options.ptxas;
  return TargetAttr::getTarget(*module).emitArtefact(*module, artefact);
}

CompileResult Compilation::makeResult() {
  CompileResult result;
  if (isFull()) {
    result.report = toString(toJSON(values));
    result.summary = toText(values);
  } else {
    result.report = toJSON(rows);
    result.summary = summarize(rows);
  }
  result.values = std::move(values);
  return result;
}

/// Reads the input.
LogicalResult Compilation::start() {
  if (failed(checkOptions(options, UnknownLoc::get(&context))))
    return failure();
  module =
      parse(text, options.inputName, context, options.nestingLimit, isFull());
  if (!module || failed(setRecipe()))
    return failure();
  if (!toStableHLO)
    TargetAttr::set(*module, options.target);
  return success();
}

FailureOr<DotFormatLists> Compilation::decide(ArrayRef<int64_t> exponents) {
  if (failed(start()) || failed(runStage(Stage::Import)))
    return failure();
  // Under delayed scales Scaling decides too, on a clone.
  bool again = RecipeAttr::of(*module).getScales() == ScaleSource::Delayed;
  OwningOpRef<ModuleOp> before = std::move(module), scaled;
  DotFormatLists found;
  for (int64_t exponent : exponents) {
    if (!scaled || again) {
      module = before->clone();
      StageOptions stages = getStageOptions();
      stages.noiseExponent = exponent;
      stages.remarks = false;
      if (failed(prepare(Stage::Scaling)) ||
          failed(runPasses(Stage::Scaling, stages)) ||
          failed(prepare(Stage::Precision)))
        return failure();
      scaled = std::move(module);
    }
    module = scaled->clone();
    StageOptions stages = getStageOptions();
    stages.noiseExponent = exponent;
    PassManager manager(&context);
    buildDecisions(stages, manager);
    if (failed(run(manager)))
      return failure();
    found.push_back(listDecidedFormats(*module));
  }
  return found;
}

FailureOr<CompileResult> Compilation::run() {
  if (failed(start()))
    return failure();
  for (Stage stage : getStages(toStableHLO)) {
    if (stage <= options.compileFrom || stage > options.compileTo)
      continue;
    if (failed(runStage(stage)))
      return failure();
  }
  CompileResult result = makeResult();
  if (std::optional<plan::PlanMemory> memory = measure())
    result.memory = *memory;
  if (!toStableHLO && options.compileTo == Stage::Target) {
    FailureOr<std::string> artefact = emitArtefact(result.report);
    if (failed(artefact))
      return failure();
    result.output = std::move(*artefact);
    return result;
  }
  result.output = print(*module, options.debugInfo);
  return result;
}

FailureOr<CompileResult>
scalify::compile(StringRef text, const CompileOptions &options,
                 std::vector<DiagnosticRecord> &diagnostics) {
  CompileOptions resolved = options;
  resolved.target = resolveTarget(options.target).str();
  return Compilation(text, resolved, diagnostics).run();
}

FailureOr<DotFormatLists>
scalify::decideFormats(StringRef text, CompileOptions options,
                       ArrayRef<int64_t> exponents,
                       std::vector<DiagnosticRecord> &diagnostics) {
  options.target = resolveTarget(options.target).str();
  return Compilation(text, options, diagnostics).decide(exponents);
}

FailureOr<CompileResult>
scalify::compileToArtefact(StringRef text, CompileOptions options,
                           std::vector<DiagnosticRecord> &diagnostics) {
  options.compileTo = Stage::Target;
  return compile(text, options, diagnostics);
}

FailureOr<CompileResult>
scalify::transformToStableHLO(StringRef text, CompileOptions options,
                              std::vector<DiagnosticRecord> &diagnostics) {
  options.target = "stablehlo";
  options.compileTo = Stage::Target;
  return compile(text, options, diagnostics);
}

static void registerPassesOnce() {
  static const bool once = [] {
    mlir::registerAllPasses();
    scalify::registerAllPasses();
    return true;
  }();
  (void)once;
}

FailureOr<std::string>
scalify::runPipeline(StringRef text, StringRef pipeline,
                     std::vector<DiagnosticRecord> &diagnostics, bool debugInfo,
                     ArrayRef<ArgumentRole> roles) {
  registerPassesOnce();
  MLIRContext context(getRegistry());
  context.printOpOnDiagnostic(false);
  DiagnosticCollector collector(&context, "input", text, diagnostics);
  OwningOpRef<ModuleOp> module = parse(text, "input", context, kNestingLimit);
  if (!module)
    return failure();
  std::string error;
  llvm::raw_string_ostream os(error);
  PassManager manager(&context);
  pipeline = pipeline.trim();
  LogicalResult parsed = success();
  if (pipeline.starts_with("builtin.module(")) {
    FailureOr<OpPassManager> found = parsePassPipeline(pipeline, os);
    parsed = LogicalResult(found);
    if (succeeded(found))
      static_cast<OpPassManager &>(manager) = std::move(*found);
  } else {
    parsed = parsePassPipeline(pipeline, manager, os);
  }
  if (failed(parsed)) {
    emitError(UnknownLoc::get(&context))
        << "cannot read the pipeline '" << pipeline
        << "': " << StringRef(error).trim();
    return failure();
  }
  if (failed(applyArgumentRoles(*module, roles)) ||
      failed(manager.run(*module)))
    return failure();
  return print(*module, debugInfo);
}
