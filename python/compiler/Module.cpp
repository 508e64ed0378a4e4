//===- Module.cpp - The compiler as a Python module -----------------------===//
//
// Text in; artefact, StableHLO or IR text out. A failure raises
// scalify.CompileError, which holds the diagnostics as dictionaries.
//
//===----------------------------------------------------------------------===//

#include "scalify/Pipeline/Compiler.h"
#include "scalify/Pipeline/Recipes.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Precision/CarriedLimits.h"
#include "scalify/Precision/GradientLimits.h"
#include "scalify/Scaling/Priors.h"
#include "scalify/Target/AllTargets.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace scalify;

using Diagnostics = std::vector<DiagnosticRecord>;

static nb::list toList(const Diagnostics &diagnostics) {
  nb::list result;
  for (const DiagnosticRecord &diagnostic : diagnostics) {
    nb::list notes;
    for (const Note &note : diagnostic.notes) {
      nb::dict entry;
      entry["message"] = note.message;
      entry["location"] = note.location;
      notes.append(entry);
    }
    nb::dict entry;
    entry["severity"] = stringifySeverity(diagnostic.severity).str();
    entry["message"] = diagnostic.message;
    entry["location"] = diagnostic.location;
    entry["source"] = diagnostic.source;
    entry["notes"] = notes;
    result.append(entry);
  }
  return result;
}

[[noreturn]] static void raise(const Diagnostics &diagnostics) {
  nb::object type = nb::module_::import_("scalify.errors").attr("CompileError");
  nb::object error = type(toList(diagnostics));
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

static CompileOptions readOptions(const std::string &json) {
  llvm::Expected<CompileOptions> options = parseCompileOptions(json);
  if (options)
    return std::move(*options);
  std::string message = llvm::toString(options.takeError());
  throw nb::value_error(message.c_str());
}

using Transformation = mlir::FailureOr<CompileResult> (*)(llvm::StringRef,
                                                          CompileOptions,
                                                          Diagnostics &);

/// Runs `transformation` without the GIL; raises if it fails.
static CompileResult run(Transformation transformation, const std::string &text,
                         const std::string &json, Diagnostics &diagnostics) {
  CompileOptions options = readOptions(json);
  mlir::FailureOr<CompileResult> result;
  {
    nb::gil_scoped_release release;
    result = transformation(text, std::move(options), diagnostics);
  }
  if (failed(result))
    raise(diagnostics);
  return std::move(*result);
}

static nb::tuple compileText(const std::string &text, const std::string &json) {
  Diagnostics diagnostics;
  CompileResult result = run(compileToArtefact, text, json, diagnostics);
  return nb::make_tuple(nb::bytes(result.output.data(), result.output.size()),
                        toList(diagnostics));
}

static nb::tuple transformText(const std::string &text,
                               const std::string &json) {
  Diagnostics diagnostics;
  CompileResult result = run(transformToStableHLO, text, json, diagnostics);
  return nb::make_tuple(result.output, result.report, toList(diagnostics));
}

static std::string reportText(const std::string &text,
                              const std::string &json) {
  Diagnostics diagnostics;
  auto report = [](llvm::StringRef text, CompileOptions options,
                   Diagnostics &diagnostics) {
    options.compileTo = Stage::Precision;
    options.report = "full";
    return compile(text, options, diagnostics);
  };
  return run(report, text, json, diagnostics).report;
}

static std::vector<std::vector<std::string>>
decideText(const std::string &text, const std::string &json,
           const std::vector<int64_t> &exponents) {
  CompileOptions options = readOptions(json);
  Diagnostics diagnostics;
  mlir::FailureOr<DotFormatLists> result;
  {
    nb::gil_scoped_release release;
    result = decideFormats(text, std::move(options), exponents, diagnostics);
  }
  if (failed(result))
    raise(diagnostics);
  return std::move(*result);
}

static nb::tuple runPasses(const std::string &text, const std::string &pipeline,
                           bool debugInfo, const std::string &json) {
  CompileOptions options = readOptions(json);
  Diagnostics diagnostics;
  mlir::FailureOr<std::string> result;
  {
    nb::gil_scoped_release release;
    result = runPipeline(text, pipeline, diagnostics, debugInfo, options.roles);
  }
  if (failed(result))
    raise(diagnostics);
  return nb::make_tuple(std::move(*result), toList(diagnostics));
}

static nb::object optText(const std::string &text, const std::string &pipeline,
                          bool debugInfo) {
  return runPasses(text, pipeline, debugInfo, "{}")[0];
}

static nb::list getRecipes() {
  nb::list names;
  for (llvm::StringRef name : RecipeAttr::getPresetNames())
    names.append(name.str());
  return names;
}

static std::string readRecipeText(const std::string &text) {
  Diagnostics diagnostics;
  mlir::FailureOr<std::string> json = readRecipeAsJSON(text, diagnostics);
  if (failed(json))
    raise(diagnostics);
  return std::move(*json);
}

static std::string printRecipeParts(const std::string &name,
                                    const std::string &parts) {
  Diagnostics diagnostics;
  mlir::FailureOr<std::string> text = printRecipe(name, parts, diagnostics);
  if (failed(text))
    raise(diagnostics);
  return std::move(*text);
}

static nb::list getParts() {
  nb::list names;
  for (llvm::StringRef name : getRecipePartNames(/*withShorthands=*/false))
    names.append(name.str());
  return names;
}

static nb::list listPriors() {
  nb::list rows;
  for (const Prior *prior : getPriors()) {
    nb::dict row;
    row["name"] = prior->name.str();
    row["predicts"] = prior->predicts.str();
    row["constant"] = prior->constant;
    row["reason"] = prior->reason.str();
    rows.append(row);
  }
  return rows;
}

/// The plain options: their keys, and the words that each takes.
static nb::dict listOptions() {
  nb::dict rows;
  for (const PlainOption &option : getPlainOptions()) {
    llvm::SmallVector<llvm::StringRef> words;
    option.words.split(words, ", ");
    nb::list list;
    if (!option.words.empty())
      for (llvm::StringRef word : words)
        list.append(word.str());
    rows[option.key.data()] = list;
  }
  return rows;
}

/// The registered targets; times in nanoseconds, rates per nanosecond.
static nb::dict listTargets() {
  nb::dict rows;
  for (const Target *target : getTargets()) {
    const TargetInfo &info = target->getInfo();
    nb::dict row;
    row["description"] = info.description.str();
    nb::list aliases;
    for (llvm::StringRef alias : info.aliases)
      aliases.append(alias.str());
    row["aliases"] = aliases;
    row["is_gpu"] = info.isGPU;
    row["launch"] = info.launch;
    row["call"] = info.call;
    row["bandwidth"] = info.bandwidth;
    row["processors"] = info.processors;
    row["tile"] = info.tile;
    row["f32"] = info.flops.f32;
    row["bits16"] = info.flops.bits16;
    row["bits8"] = info.flops.bits8;
    nb::dict peaks;
    peaks["bandwidth"] = info.peaks.bandwidth;
    peaks["f32"] = info.peaks.f32;
    peaks["tf32"] = info.peaks.tf32;
    peaks["bits16"] = info.peaks.bits16;
    peaks["bits8"] = info.peaks.bits8;
    row["peaks"] = peaks;
    rows[info.name.data()] = row;
  }
  return rows;
}

static nb::dict getGradientLimits() {
  nb::dict limits;
  limits["worst"] = kMaxWorstError;
  limits["all"] = kMaxTotalError;
  limits["room"] = kRoom;
  limits["narrow_room"] = kNarrowRoom;
  return limits;
}

static nb::dict getCarriedLimits() {
  nb::dict limits;
  limits["room"] = kNarrowWindow.room;
  limits["flushed"] =
      -static_cast<double>(kKeptWeight) / (kFlushedWeight - kKeptWeight);
  return limits;
}

NB_MODULE(_compiler, module) {
  registerAllTargets();
  module.doc() = "The compiler: StableHLO text in, artefact or text out.";
  module.def("compile", &compileText, nb::arg("text"), nb::arg("options"),
             "Returns (artefact, diagnostics).");
  module.def("transform", &transformText, nb::arg("text"), nb::arg("options"),
             "Returns (StableHLO text, report as JSON, diagnostics).");
  module.def("report", &reportText, nb::arg("text"), nb::arg("options"),
             "Returns the report of every value as JSON.");
  module.def("decide_formats", &decideText, nb::arg("text"), nb::arg("options"),
             nb::arg("exponents"),
             "Returns the formats of the dots by each noiseExponent.");
  module.def("opt", &optText, nb::arg("text"), nb::arg("pipeline"),
             nb::arg("debug_info") = false,
             "Returns the IR text after a pass pipeline.");
  module.def("run_passes", &runPasses, nb::arg("text"), nb::arg("pipeline"),
             nb::arg("debug_info") = false, nb::arg("options") = "{}",
             "Returns (IR text after a pass pipeline, diagnostics); the only "
             "option in use is `roles`.");
  module.def("recipes", &getRecipes, "Returns the names of the presets.");
  module.def("recipe_parts", &getParts, "Returns the parts of a recipe.");
  module.def("priors", &listPriors,
             "Returns the table of priors about training.");
  module.def("gradient_limits", &getGradientLimits,
             "Returns the errors of gradients up to which formats hold.");
  module.def("carried_limits", &getCarriedLimits,
             "Returns when carried scales of E4M3 move, and where to.");
  module.def("options", &listOptions,
             "Returns the words that each plain option takes, none for any, "
             "by the option's key.");
  module.def("targets", &listTargets,
             "Returns the capabilities and costs of each target, by its name.");
  module.def("read_recipe", &readRecipeText, nb::arg("text"),
             "Returns the value of every part as JSON.");
  module.def("print_recipe", &printRecipeParts, nb::arg("name"),
             nb::arg("parts"), "Returns the text of a recipe.");
}
