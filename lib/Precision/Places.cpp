//===- Places.cpp - Places of ops in the source program -------------------===//

#include "Places.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Locations.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;

/// Returns JAX's names without those of loops, transformations and checkpoints,
/// which depend on how often and in which pass the code runs.
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

static void addFrames(Location location, SmallVectorImpl<std::string> &frames) {
  llvm::TypeSwitch<Location>(location)
      .Case([&](NameLoc name) {
        frames.push_back(getPlainNames(name.getName()));
        addFrames(name.getChildLoc(), frames);
      })
      .Case([&](CallSiteLoc call) {
        addFrames(call.getCallee(), frames);
        addFrames(call.getCaller(), frames);
      })
      .Case([&](FusedLoc fused) {
        for (Location part : fused.getLocations())
          addFrames(part, frames);
      })
      .Default([&](Location other) {
        // Append it to the name of its function.
        std::string at = "@" + llvm::utohexstr(reinterpret_cast<uintptr_t>(
                                   other.getAsOpaquePointer()));
        if (frames.empty())
          frames.emplace_back();
        frames.back() += at;
      });
}

std::string scalify::getPlace(Location location) {
  if (!getFileLocation(location) || getNameStack(location).empty())
    return "";
  SmallVector<std::string> frames;
  addFrames(location, frames);
  // JAX repeats the frames around a scan once per trace of the body.
  llvm::StringSet<> seen;
  llvm::erase_if(frames,
                 [&](StringRef frame) { return !seen.insert(frame).second; });
  return llvm::join(frames, ">");
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
