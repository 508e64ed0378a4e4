//===- CompileKernels.cpp - Shared objects from LLVM functions ------------===//

#include "scalify/Target/Artefact/ToolRun.h"
#include "scalify/Target/CPU/KernelObjects.h"
#include "scalify/Target/CPU/Passes.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace mlir;
using namespace scalify;

// A kernel with an undefined symbol would fail only at load.
static LogicalResult checkClosed(Location loc, StringRef elf) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(elf, "kernels"));
  if (!file)
    return emitError(loc) << "kernels are no ELF file: "
                          << llvm::toString(file.takeError());
  auto &object = cast<llvm::object::ELFObjectFileBase>(**file);
  for (const llvm::object::ELFSymbolRef symbol :
       object.getDynamicSymbolIterators()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (flags && name && !name->empty() &&
        (*flags & llvm::object::SymbolRef::SF_Undefined))
      return emitError(loc)
             << "kernels call '" << *name << "', which no library provides";
  }
  return success();
}

// Returns the shared object with the kernels under their names in the module.
static FailureOr<std::string> link(Location loc,
                                   ArrayRef<KernelObject> objects) {
  std::string linker =
      findTool({"ld.lld-22", "ld.lld"}, {"/usr/lib/llvm-22/bin"});
  if (linker.empty())
    return emitError(loc) << "no linker found: install lld-22";
  SmallVector<llvm::NewArchiveMember> members;
  SmallVector<std::string> names;
  llvm::StringSet<> symbols;
  for (const KernelObject &object : objects) {
    names.push_back("--defsym=" + object.name + "=" + object.symbol);
    if (symbols.insert(object.symbol).second)
      members.emplace_back(llvm::MemoryBufferRef(*object.code, object.symbol));
  }
  // One input file, of which all members are linked.
  auto archive = llvm::writeArchiveToBuffer(
      members, llvm::SymtabWritingMode::NoSymtab, llvm::object::Archive::K_GNU,
      /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return emitError(loc) << "kernels fill no archive: "
                          << llvm::toString(archive.takeError());
  SmallVector<StringRef> arguments{
      "-shared", "--build-id=none", "-m", "elf_x86_64", "-z", "now", "-o",
      "@out",    "--whole-archive", "@in"};
  arguments.append(names.begin(), names.end());
  return runTool(loc, linker, arguments, (*archive)->getBuffer());
}

FailureOr<std::string> scalify::compileKernels(ModuleOp kernels,
                                               StringRef mcpu) {
  Location loc = kernels.getLoc();
  FailureOr<SmallVector<KernelObject>> objects =
      compileKernelObjects(kernels, mcpu);
  if (failed(objects))
    return failure();
  FailureOr<std::string> linked = link(loc, *objects);
  if (failed(linked) || failed(checkClosed(loc, *linked)))
    return failure();
  return linked;
}
