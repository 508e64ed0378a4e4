//===- EmitArtefact.cpp - The bytes of an executable ----------------------===//

#include "Manifest.h"

#include "scalify/Codegen/Passes.h"
#include "scalify/Fusion/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Endian.h"

using namespace mlir;
using namespace scalify;
namespace json = llvm::json;

static constexpr size_t kHeaderBytes = 32;
static constexpr size_t kSectionAlignment = 4096;

static uint64_t fnv1a(StringRef bytes) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char byte : bytes)
    hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}

static void appendWord(std::string &out, uint64_t word) {
  char bytes[8];
  llvm::support::endian::write64le(bytes, word);
  out.append(bytes, 8);
}

static std::string toText(const json::Object &manifest) {
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(json::Object(manifest));
  return text;
}

// Offsets are part of the text whose length decides them, so the sections are
// placed behind room for the longest text that the numbers can give.
static std::string assemble(PlanText &text, StringRef kernels,
                            StringRef report) {
  json::Object &manifest = text.manifest;
  // A recipe's name is a label: equal content under two names is one artefact.
  json::Value recipe = *manifest.get("recipe");
  manifest.erase("recipe");
  manifest["hash"] = llvm::utohexstr(
      fnv1a((toText(manifest) + kernels + text.constants).str()));
  manifest["recipe"] = std::move(recipe);
  auto place = [&](size_t offset, size_t size) {
    return json::Object{{"offset", static_cast<int64_t>(offset)},
                        {"size", static_cast<int64_t>(size)}};
  };
  auto sections = [&](size_t first) {
    size_t second = llvm::alignTo(first + kernels.size(), kSectionAlignment);
    manifest["sections"] =
        json::Object{{"kernels", place(first, kernels.size())},
                     {"constants", place(second, text.constants.size())}};
    if (report.empty())
      return;
    size_t third =
        llvm::alignTo(second + text.constants.size(), kSectionAlignment);
    manifest["sections"].getAsObject()->insert(
        {"report", place(third, report.size())});
  };
  sections(size_t(1) << 40);
  size_t first =
      llvm::alignTo(kHeaderBytes + toText(manifest).size(), kSectionAlignment);
  sections(first);
  std::string header = toText(manifest);

  std::string body = header;
  body.resize(first - kHeaderBytes);
  body += kernels;
  body.resize(llvm::alignTo(kHeaderBytes + body.size(), kSectionAlignment) -
              kHeaderBytes);
  body += text.constants;
  if (!report.empty()) {
    body.resize(llvm::alignTo(kHeaderBytes + body.size(), kSectionAlignment) -
                kHeaderBytes);
    body += report;
  }
  std::string file = "SCALIFY1";
  appendWord(file, header.size());
  appendWord(file, kHeaderBytes + body.size());
  appendWord(file, fnv1a(body));
  return file + body;
}

FailureOr<std::string>
scalify::emitCPUArtefactFromPlan(ModuleOp module,
                                 const CPUTargetOptions &options) {
  auto step = module.lookupSymbol<plan::ProgramOp>("step");
  if (!step)
    return module.emitError("has no plan.program @step to emit");
  bool isLowered = true;
  module.walk([&](plan::KernelOp kernel) {
    isLowered &= kernel.getFunction().has_value();
  });
  PassManager lower(module.getContext());
  lower.addPass(createLowerKernels());
  if (!isLowered && failed(lower.run(module)))
    return failure();
  // The functions leave for a module of their own.
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    function->remove();
    kernels->push_back(function);
  }
  PassManager toLLVM(module.getContext());
  toLLVM.addPass(createKernelsToLLVM());
  if (failed(toLLVM.run(*kernels)))
    return failure();
  FailureOr<std::string> object = compileKernels(*kernels, options);
  if (failed(object))
    return failure();
  PlanText text = writeManifest(step, options);
  return assemble(text, *object, options.report);
}

FailureOr<std::string>
scalify::emitCPUArtefact(ModuleOp module, const CPUTargetOptions &options) {
  PassManager fusion(module.getContext());
  buildFusionPipeline(fusion);
  if (failed(fusion.run(module)))
    return failure();
  return emitCPUArtefactFromPlan(module, options);
}
