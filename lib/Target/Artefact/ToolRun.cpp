//===- ToolRun.cpp - Linkers and assemblers on bytes in memory ------------===//

#include "scalify/Target/Artefact/ToolRun.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>

using namespace mlir;
using namespace scalify;

namespace {
/// A file that is removed when it goes out of scope.
struct TemporaryFile {
  SmallString<128> path;
  explicit TemporaryFile(StringRef suffix) {
    if (llvm::sys::fs::createTemporaryFile("scalify", suffix, path))
      path.clear();
  }
  ~TemporaryFile() {
    if (!path.empty())
      // A leftover file does no harm.
      llvm::consumeError(llvm::errorCodeToError(llvm::sys::fs::remove(path)));
  }
};
} // namespace

/// Returns the folder of an installed package's programs: "bin" beside the
/// extension module that contains this code, or the running program's own.
static std::string packagedPrograms() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void *>(&packagedPrograms), &info) &&
      info.dli_fname && StringRef(info.dli_fname).ends_with(".so")) {
    SmallString<128> folder(llvm::sys::path::parent_path(info.dli_fname));
    llvm::sys::path::append(folder, "bin");
    return folder.str().str();
  }
  std::string program = llvm::sys::fs::getMainExecutable(nullptr, nullptr);
  return llvm::sys::path::parent_path(program).str();
}

std::string scalify::findTool(ArrayRef<StringRef> names,
                              ArrayRef<StringRef> folders) {
  std::string packaged = packagedPrograms();
  SmallVector<StringRef> places{packaged};
  places.append(folders.begin(), folders.end());
  for (StringRef name : names) {
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
    if (auto found = llvm::sys::findProgramByName(name, places))
      return *found;
  }
  return "";
}

static LogicalResult writeFile(Location loc, StringRef path, StringRef bytes) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    return emitError(loc) << "cannot write '" << path
                          << "': " << error.message();
  os << bytes;
  return success();
}

FailureOr<std::string> scalify::runTool(Location loc, StringRef tool,
                                        ArrayRef<StringRef> arguments,
                                        StringRef input) {
  TemporaryFile in("in"), out("out"), log("txt");
  if (in.path.empty() || out.path.empty() || log.path.empty())
    return emitError(loc) << "cannot create a temporary file";
  if (failed(writeFile(loc, in.path, input)))
    return failure();
  SmallVector<StringRef> words{tool};
  for (StringRef argument : arguments)
    words.push_back(argument == "@in"    ? StringRef(in.path)
                    : argument == "@out" ? StringRef(out.path)
                                         : argument);
  std::optional<StringRef> redirects[] = {std::nullopt, StringRef(log.path),
                                          StringRef(log.path)};
  std::string message;
  if (llvm::sys::ExecuteAndWait(tool, words, std::nullopt, redirects, 0, 0,
                                &message)) {
    auto text = llvm::MemoryBuffer::getFile(log.path);
    return emitError(loc) << "'" << tool << "' failed: " << message
                          << (text ? (*text)->getBuffer() : StringRef());
  }
  auto written = llvm::MemoryBuffer::getFile(out.path);
  if (!written)
    return emitError(loc) << "cannot read '" << out.path << "'";
  return (*written)->getBuffer().str();
}
