//===- Locations.cpp - Names in JAX's locations ---------------------------===//
//
// JAX writes NameLoc(stack of names, child = the Python frames as a chain of
// callsites). The child's names are Python functions and are ignored. Inlining
// adds callsites on the outside, whose caller is the call.
//
//===----------------------------------------------------------------------===//

#include "scalify/Import/Locations.h"

#include "mlir/IR/BuiltinAttributes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

std::string scalify::getNameStack(Location location) {
  return llvm::TypeSwitch<Location, std::string>(location)
      .Case([](NameLoc name) { return name.getName().str(); })
      .Case([](CallSiteLoc call) {
        std::string caller = getNameStack(call.getCaller());
        std::string callee = getNameStack(call.getCallee());
        if (caller.empty() || callee.empty())
          return caller + callee;
        return caller + "/" + callee;
      })
      .Case([](FusedLoc fused) {
        for (Location part : fused.getLocations())
          if (std::string stack = getNameStack(part); !stack.empty())
            return stack;
        return std::string();
      })
      .Default([](Location) { return std::string(); });
}

FileLineColLoc scalify::getFileLocation(Location location) {
  return llvm::TypeSwitch<Location, FileLineColLoc>(location)
      .Case([](FileLineColLoc file) { return file; })
      .Case([](NameLoc name) { return getFileLocation(name.getChildLoc()); })
      .Case([](CallSiteLoc call) {
        FileLineColLoc callee = getFileLocation(call.getCallee());
        return callee ? callee : getFileLocation(call.getCaller());
      })
      .Case([](FusedLoc fused) {
        for (Location part : fused.getLocations())
          if (FileLineColLoc file = getFileLocation(part))
            return file;
        return FileLineColLoc();
      })
      .Default([](Location) { return FileLineColLoc(); });
}

std::string scalify::describeLocation(Location location) {
  std::string names = getNameStack(location);
  FileLineColLoc file = getFileLocation(location);
  if (!file)
    return names;
  std::string place = file.getFilename().str() + ":" +
                      std::to_string(file.getLine()) + ":" +
                      std::to_string(file.getColumn());
  return names.empty() ? place : place + " (" + names + ")";
}
