//===- SourceNames.cpp - The names of values in the input text ------------===//

#include "scalify/Pipeline/SourceNames.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Parser/Parser.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;

static constexpr llvm::StringLiteral kNames = "scalify.source_names";

/// Returns the text of a definition, without the `:2` of a result group.
static std::string getText(SMRange range) {
  if (!range.isValid())
    return "";
  StringRef text(range.Start.getPointer(),
                 range.End.getPointer() - range.Start.getPointer());
  return text.split(':').first.trim().str();
}

static std::string getPrefix(Operation *op) {
  while (op && !isa<FunctionOpInterface>(op))
    op = op->getParentOp();
  if (!op)
    return "";
  StringRef name = cast<FunctionOpInterface>(op).getName();
  return name == "main" ? "" : "@" + name.str() + ":";
}

static Location addNames(Location loc, ArrayRef<std::string> names) {
  Builder builder(loc.getContext());
  SmallVector<Attribute> attrs;
  for (const std::string &name : names)
    attrs.push_back(builder.getStringAttr(name));
  auto metadata = builder.getDictionaryAttr(
      builder.getNamedAttr(kNames, builder.getArrayAttr(attrs)));
  return FusedLoc::get(loc.getContext(), {loc}, metadata);
}

static void keepNames(const AsmParserState::OperationDefinition &definition) {
  Operation *op = definition.op;
  SmallVector<std::string> names(op->getNumResults());
  std::string prefix = getPrefix(op->getParentOp());
  for (auto [i, group] : llvm::enumerate(definition.resultGroups)) {
    unsigned end = i + 1 < definition.resultGroups.size()
                       ? definition.resultGroups[i + 1].startIndex
                       : op->getNumResults();
    std::string text = prefix + getText(group.definition.loc);
    for (unsigned k = group.startIndex; k < end; ++k)
      names[k] = end - group.startIndex == 1
                     ? text
                     : text + "#" + std::to_string(k - group.startIndex);
  }
  if (!names.empty())
    op->setLoc(addNames(op->getLoc(), names));
}

OwningOpRef<ModuleOp> scalify::parseWithSourceNames(llvm::SourceMgr &sources,
                                                    MLIRContext *context) {
  AsmParserState state;
  Block block;
  ParserConfig config(context);
  if (failed(parseAsmSourceFile(sources, &block, config, &state)))
    return {};
  for (const auto &definition : state.getOpDefs())
    keepNames(definition);
  for (const auto &definition : state.getBlockDefs()) {
    std::string prefix = getPrefix(definition.block->getParentOp());
    for (auto [arg, name] :
         llvm::zip(definition.block->getArguments(), definition.arguments))
      arg.setLoc(addNames(arg.getLoc(), prefix + getText(name.loc)));
  }
  return mlir::detail::constructContainerOpForParserIfNecessary<ModuleOp>(
      &block, context, FileLineColLoc::get(context, "", 0, 0));
}

void scalify::eraseSourceNames(ModuleOp module) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([](FusedLoc fused) -> std::optional<Attribute> {
    auto attrs = dyn_cast_or_null<DictionaryAttr>(fused.getMetadata());
    if (!attrs || !attrs.contains(kNames))
      return std::nullopt;
    return LocationAttr(fused.getLocations().front());
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/false,
                                        /*replaceLocs=*/true);
}

std::string scalify::getSourceName(Location location, unsigned result) {
  return llvm::TypeSwitch<Location, std::string>(location)
      .Case([&](NameLoc name) {
        return getSourceName(name.getChildLoc(), result);
      })
      .Case([&](CallSiteLoc call) {
        std::string name = getSourceName(call.getCallee(), result);
        return name.empty() ? getSourceName(call.getCaller(), result) : name;
      })
      .Case([&](FusedLoc fused) -> std::string {
        if (auto attrs = dyn_cast_or_null<DictionaryAttr>(fused.getMetadata()))
          if (auto names = attrs.getAs<ArrayAttr>(kNames);
              names && result < names.size())
            return cast<StringAttr>(names[result]).str();
        for (Location part : fused.getLocations())
          if (std::string name = getSourceName(part, result); !name.empty())
            return name;
        return "";
      })
      .Default([](Location) { return std::string(); });
}
