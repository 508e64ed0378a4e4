//===- Explain.cpp - Reports and chains instead of IR ---------------------===//

#include "Explain.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Pipeline/SourceNames.h"
#include "scalify/Pipeline/Stages.h"
#include "scalify/Pipeline/Why.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;
using namespace mlir;
using namespace scalify;

static cl::opt<std::string>
    report("scalify-report",
           cl::desc("write the report of scales instead of IR: json or text"),
           cl::value_desc("format"));
static cl::list<std::string>
    why("scalify-why",
        cl::desc("write the chain of rules behind the scale of a value ('%4', "
                 "an argument's name, a cast 'c0', a part of a location) "
                 "instead of IR"),
        cl::value_desc("name"));
static cl::opt<unsigned>
    whyDepth("scalify-why-depth", cl::init(6),
             cl::desc("steps that --scalify-why traces back (0: all)"),
             cl::value_desc("steps"));
static cl::opt<std::string> whyFormat("scalify-why-format", cl::init("text"),
                                      cl::desc("json or text (default)"),
                                      cl::value_desc("format"));

bool scalify::wantsExplanation() { return !report.empty() || !why.empty(); }

static LogicalResult fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "scalify-opt") << message << "\n";
  return failure();
}

static LogicalResult checkFormat(StringRef option, StringRef format) {
  if (format.empty() || format == "json" || format == "text")
    return success();
  return fail("unknown format '" + format + "' in --" + option +
              ": expected json or text");
}

static bool hasScales(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        return op->hasAttr(kRuleAttr) ? WalkResult::interrupt()
                                      : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Adds the passes of the command line, or those up to scales and formats.
static LogicalResult buildPasses(ModuleOp module,
                                 const MlirOptMainConfig &config,
                                 PassManager &manager) {
  if (failed(config.setupPassPipeline(manager)))
    return failure();
  if (!manager.empty() || hasScales(module))
    return success();
  StageOptions options;
  options.remarks = false;
  options.explain = true;
  for (Stage stage : {Stage::Import, Stage::Scaling, Stage::Precision})
    buildStage(stage, /*toStableHLO=*/false, options, manager);
  return success();
}

static LogicalResult write(const ScaleReport &values, raw_ostream &os) {
  if (report == "json")
    os << toJSON(values) << "\n";
  else if (report == "text")
    os << toText(values);
  for (const std::string &name : why) {
    llvm::Expected<int64_t> row = findRow(values, name);
    if (!row)
      return fail(llvm::toString(row.takeError()));
    std::vector<WhyLine> lines = explainScale(values, *row, whyDepth);
    if (whyFormat == "json")
      os << toJSON(values, lines) << "\n";
    else
      os << toText(values, lines);
  }
  return success();
}

LogicalResult scalify::explain(std::unique_ptr<llvm::MemoryBuffer> input,
                               DialectRegistry &registry,
                               const MlirOptMainConfig &config,
                               raw_ostream &os) {
  if (failed(checkFormat("scalify-report", report)) ||
      failed(checkFormat("scalify-why-format", whyFormat)))
    return failure();
  MLIRContext context(registry);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(input), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = parseWithSourceNames(sources, &context);
  if (!module)
    return failure();
  std::vector<OpCounts> counts;
  PassManager manager(&context);
  manager.addInstrumentation(std::make_unique<ScaleOpCounter>(counts));
  if (failed(buildPasses(*module, config, manager)) ||
      failed(manager.run(*module)))
    return failure();
  ScaleReport values = buildScaleReport(*module);
  values.counts = std::move(counts);
  return write(values, os);
}
