//===- ManifestParts.cpp - Parts of a manifest of the module --------------===//

#include "ManifestParts.h"

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Sdy/Sdy.h"

using namespace mlir;
using namespace scalify;
namespace json = llvm::json;

std::string scalify::manifest::typeName(Type element) {
  if (element.isInteger(1))
    return "i1";
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}

json::Value scalify::manifest::toJSON(Attribute attr) {
  if (auto text = dyn_cast<StringAttr>(attr))
    return json::Value(text.str());
  if (auto boolean = dyn_cast<BoolAttr>(attr))
    return json::Value(boolean.getValue());
  if (auto number = dyn_cast<IntegerAttr>(attr))
    return json::Value(number.getValue().getSExtValue());
  if (auto number = dyn_cast<FloatAttr>(attr))
    return json::Value(number.getValueAsDouble());
  if (auto array = dyn_cast<ArrayAttr>(attr)) {
    json::Array values;
    for (Attribute item : array)
      values.push_back(toJSON(item));
    return values;
  }
  if (auto dictionary = dyn_cast<DictionaryAttr>(attr)) {
    json::Object object;
    for (NamedAttribute item : dictionary)
      object[item.getName().str()] = toJSON(item.getValue());
    return object;
  }
  std::string text;
  llvm::raw_string_ostream(text) << attr;
  return json::Value(text);
}

json::Array scalify::manifest::meshOf(ModuleOp module) {
  sdy::MeshAttr largest;
  json::Array axes;
  if (auto pipeline =
          module->getAttrOfType<DictionaryAttr>(plan::kPipelineAttr))
    axes.push_back(
        json::Array{"stage", pipeline.getAs<IntegerAttr>("stages").getInt()});
  for (auto mesh : module.getOps<sdy::MeshOp>())
    if (!largest || mesh.getMesh().getTotalSize() > largest.getTotalSize())
      largest = mesh.getMesh();
  if (largest && largest.getTotalSize() > 1)
    for (sdy::MeshAxisAttr axis : largest.getAxes())
      axes.push_back(json::Array{axis.getName().str(), axis.getSize()});
  return axes;
}

void scalify::manifest::writeTarget(const TargetInfo &target,
                                    json::Object &manifest) {
  manifest["target"] = target.name;
  manifest["device"] = target.device;
  if (target.isGPU)
    manifest["capability"] = target.capability;
  const PeakRates &peaks = target.peaks;
  if (!peaks.device.empty())
    manifest["peaks"] =
        json::Object{{"device", peaks.device}, {"bandwidth", peaks.bandwidth},
                     {"f32", peaks.f32},       {"tf32", peaks.tf32},
                     {"bits16", peaks.bits16}, {"bits8", peaks.bits8}};
}
