//===- Places.cpp - Where in the program an op comes from -----------------===//

#include "Places.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Locations.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;

/// JAX's names without what says how often, or for the how manieth time, they
/// are run: loops, transformations and checkpoints.
static std::string getPlainNames(StringRef names) {
  SmallVector<StringRef> parts;
  names.split(parts, '/');
  std::string plain;
  for (StringRef part : parts) {
    while (part.consume_front("transpose(") || part.consume_front("jvp(") ||
           part.consume_front("jit("))
      part.consume_back(")");
    part = part.rtrim(')');
    static const StringRef kMarks[] = {"",           "while",
                                       "body",       "closed_call",
                                       "checkpoint", "rematted_computation"};
    if (!llvm::is_contained(kMarks, part))
      plain += "/" + part.str();
  }
  return plain;
}

static std::string describe(Location location) {
  return llvm::TypeSwitch<Location, std::string>(location)
      .Case([](NameLoc name) {
        auto frames = reinterpret_cast<uintptr_t>(
            name.getChildLoc().getAsOpaquePointer());
        return getPlainNames(name.getName()) + "@" + llvm::utohexstr(frames);
      })
      .Case([](CallSiteLoc call) {
        return describe(call.getCaller()) + ">" + describe(call.getCallee());
      })
      .Case([](FusedLoc fused) {
        std::string place;
        for (Location part : fused.getLocations())
          place += describe(part) + "+";
        return place;
      })
      .Default([](Location other) {
        return llvm::utohexstr(
            reinterpret_cast<uintptr_t>(other.getAsOpaquePointer()));
      });
}

std::string scalify::getPlace(Location location) {
  if (!getFileLocation(location) || getNameStack(location).empty())
    return "";
  return describe(location);
}

std::string scalify::getDotPlace(Operation *dot) {
  std::string place = getPlace(dot->getLoc());
  if (place.empty())
    return "";
  llvm::raw_string_ostream text(place);
  for (Type type : dot->getOperandTypes())
    text << '|' << type;
  if (auto general = dyn_cast<stablehlo::DotGeneralOp>(dot))
    text << '|' << general.getDotDimensionNumbers();
  return place;
}
