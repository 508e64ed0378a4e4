//===- ManifestCounters.cpp - Counters of casts in a manifest -------------===//

#include "ManifestCounters.h"

#include "ManifestParts.h"

using namespace mlir;
using namespace scalify;
namespace json = llvm::json;

std::optional<int64_t> manifest::countRuns(plan::ProgramOp program) {
  bool isCallee = false;
  int64_t runs = 0;
  auto module = program->getParentOfType<ModuleOp>();
  for (auto caller : module.getOps<plan::ProgramOp>())
    for (auto loop : caller.getBody().getOps<plan::LoopOp>()) {
      if (loop.getCallee() != program.getSymName())
        continue;
      isCallee = true;
      std::optional<int64_t> outer = countRuns(caller);
      if (!outer || !loop.getTrips())
        return std::nullopt;
      runs += *outer * static_cast<int64_t>(*loop.getTrips());
    }
  return isCallee ? runs : 1;
}

manifest::Counters::Counters(plan::ProgramOp step) {
  auto args = step->getAttrOfType<ArrayAttr>(plan::kArgsAttr);
  int64_t index = 0;
  for (auto attrs : args.getAsRange<DictionaryAttr>())
    if (auto casts = attrs.getAs<ArrayAttr>("scalify.casts"))
      for (auto cast : casts.getAsRange<StringAttr>())
        find(cast, index)["cast"] = cast.str();
}

json::Object &manifest::Counters::find(StringRef cast, int64_t &index) {
  auto [place, isNew] =
      indices.try_emplace(cast, static_cast<int64_t>(rows.size()));
  index = place->second;
  if (isNew)
    rows.push_back(json::Object{{"elements", int64_t(0)}});
  return *rows[index].getAsObject();
}

void manifest::Counters::add(plan::KernelOp kernel, std::optional<int64_t> runs,
                             json::Object &command) {
  json::Array slots, ofOneRun;
  auto casts = kernel->getAttrOfType<ArrayAttr>(plan::kCastsAttr);
  for (Attribute attr : casts ? casts.getValue() : ArrayRef<Attribute>()) {
    auto cast = mlir::cast<DictionaryAttr>(attr);
    auto text = [&](StringRef name) {
      return mlir::cast<StringAttr>(cast.get(name)).str();
    };
    int64_t elements = mlir::cast<IntegerAttr>(cast.get("elements")).getInt();
    int64_t index = 0;
    json::Object &row = find(text("cast"), index);
    slots.push_back(index);
    ofOneRun.push_back(elements);
    int64_t before = row.getInteger("elements").value_or(0);
    json::Object filled{
        {"cast", text("cast")},
        {"op", kernel.getName().str()},
        {"loc", text("loc")},
        {"format",
         typeName(mlir::cast<TypeAttr>(cast.get("format")).getValue())},
        {"elements", before + elements * runs.value_or(0)}};
    row = std::move(filled);
  }
  command["counters"] = std::move(slots);
  if (!runs && !ofOneRun.empty())
    command["elements"] = std::move(ofOneRun);
}
