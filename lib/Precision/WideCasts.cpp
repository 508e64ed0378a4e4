//===- WideCasts.cpp - Casts left out since they clipped ------------------===//

#include "WideCasts.h"

#include "scalify/Import/Locations.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify;

static constexpr StringLiteral kWideCastsAttr = "scalify.wide_casts";

void scalify::setWideCasts(ModuleOp module, ArrayRef<WideCast> casts) {
  Builder builder(module.getContext());
  auto entries =
      llvm::map_to_vector(casts, [&](const WideCast &cast) -> Attribute {
        return builder.getDictionaryAttr(
            {builder.getNamedAttr("cast", builder.getStringAttr(cast.cast)),
             builder.getNamedAttr("elements",
                                  builder.getI64IntegerAttr(cast.elements)),
             builder.getNamedAttr("names", builder.getStringAttr(cast.names)),
             builder.getNamedAttr("reason",
                                  builder.getStringAttr(cast.reason))});
      });
  module->setAttr(kWideCastsAttr, builder.getArrayAttr(entries));
}

WideCasts::WideCasts(ModuleOp module) {
  auto list = module->getAttrOfType<ArrayAttr>(kWideCastsAttr);
  if (!list)
    return;
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    auto text = [&](StringRef key) {
      auto value = entry.getAs<StringAttr>(key);
      return value ? value.str() : "";
    };
    auto elements = entry.getAs<IntegerAttr>("elements");
    entries.push_back(
        {{text("cast"), elements ? elements.getInt() : 0, text("names")},
         text("reason")});
  }
  met.resize(entries.size());
}

std::string WideCasts::match(StringRef cast, Value root) {
  for (auto [index, entry] : llvm::enumerate(entries)) {
    if (cast != entry.cast ||
        mlir::cast<ShapedType>(root.getType()).getNumElements() !=
            entry.elements ||
        getNameStack(root.getLoc()) != entry.names)
      continue;
    met[index] = true;
    return "of cast '" + entry.cast + "', " + entry.reason;
  }
  return "";
}

LogicalResult WideCasts::checkAllMet(ModuleOp module) const {
  module->removeAttr(kWideCastsAttr);
  bool isAnyMet = llvm::is_contained(met, true);
  for (auto [entry, isMet] : llvm::zip(entries, met)) {
    if (isMet)
      continue;
    // A value that only dots read which stay wide for another entry has no
    // cast.
    if (isAnyMet) {
      module.emitRemark("cast '") << entry.cast << "' at '" << entry.names
                                  << "' is not made: its readers stay wide";
      continue;
    }
    return module.emitError("has no cast '")
           << entry.cast << "' of " << entry.elements << " elements at '"
           << entry.names
           << "' to leave wide: take the list from a run of this program, by "
              "this recipe";
  }
  return success();
}
