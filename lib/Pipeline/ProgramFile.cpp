//===- ProgramFile.cpp - Programs from files ------------------------------===//
//
// Portable artefacts are in StableHLO's own encoding of bytecode, which jaxlib
// reads, of every version (docs/rationale/stablehlo-dialect.md).
//
//===----------------------------------------------------------------------===//

#include "scalify/Pipeline/ProgramFile.h"

#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

#include <cstdlib>

using namespace llvm;

static constexpr StringLiteral kBytecode = "ML\xefR";

template <typename... Parts> static Error makeError(const Parts &...parts) {
  std::string text;
  raw_string_ostream os(text);
  (os << ... << parts);
  return createStringError(inconvertibleErrorCode(), text);
}

/// True for StableHLO's bytecode, whose producer stands behind its version, and
/// for what is no text: `jax.export` puts bytecode into a container.
static bool isPortable(StringRef bytes) {
  if (bytes.consume_front(kBytecode))
    return bytes.drop_front().starts_with("StableHLO");
  auto *begin = reinterpret_cast<const UTF8 *>(bytes.begin());
  return !isLegalUTF8String(&begin,
                            reinterpret_cast<const UTF8 *>(bytes.end()));
}

static Expected<std::string> findPython() {
  const char *given = std::getenv("SCALIFY_PYTHON");
  StringRef name = given && *given ? given : "python3";
  ErrorOr<std::string> found = sys::findProgramByName(name);
  if (!found)
    return makeError("'", name, "' is not found");
  return *found;
}

static Error describe(StringRef problem) {
  return makeError(
      "the program is a portable artefact, which jaxlib reads, and ",
      problem.rtrim(),
      "; set SCALIFY_PYTHON to a Python with scalify installed, or convert it "
      "to text there: python -m scalify.portable IN > OUT.mlir");
}

namespace {
/// A file that is removed at the end.
struct TemporaryFile {
  SmallString<128> path;

  ~TemporaryFile() {
    if (!path.empty())
      sys::fs::remove(path);
  }
  Error create(StringRef bytes = "") {
    int descriptor;
    if (std::error_code error = sys::fs::createTemporaryFile(
            "scalify", "portable", descriptor, path))
      return makeError("cannot make a temporary file: ", error.message());
    raw_fd_ostream os(descriptor, /*shouldClose=*/true);
    os << bytes;
    os.flush();
    if (os.has_error())
      return makeError("cannot write '", path, "': ", os.error().message());
    return Error::success();
  }
  std::string read() const {
    auto buffer = MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  }
};
} // namespace

/// Returns the text of a portable artefact, as Python prints it.
static Expected<std::unique_ptr<MemoryBuffer>> convert(StringRef bytes,
                                                       StringRef name) {
  Expected<std::string> python = findPython();
  if (!python)
    return describe(toString(python.takeError()));
  TemporaryFile input, output, errors;
  if (Error error = input.create(bytes))
    return std::move(error);
  if (Error error = joinErrors(output.create(), errors.create()))
    return std::move(error);
  std::optional<StringRef> redirects[] = {StringRef(), output.path.str(),
                                          errors.path.str()};
  std::string problem;
  int status = sys::ExecuteAndWait(
      *python, {*python, "-m", "scalify.portable", input.path}, std::nullopt,
      redirects, /*SecondsToWait=*/0, /*MemoryLimit=*/0, &problem);
  if (status == 0)
    return MemoryBuffer::getMemBufferCopy(output.read(), name);
  // The last line says what is wrong; those before it are a traceback.
  std::string said = errors.read();
  StringRef last = StringRef(said).rtrim().rsplit('\n').second;
  if (last.empty())
    last = StringRef(said).rtrim();
  if (last.starts_with("scalify.portable: error: "))
    return makeError(
        last.drop_front(StringRef("scalify.portable: error: ").size()));
  return describe("'" + *python + "' could not convert it: " +
                  (last.empty() ? problem : last.str()));
}

Expected<std::unique_ptr<MemoryBuffer>> scalify::readProgram(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> file =
      MemoryBuffer::getFileOrSTDIN(path);
  if (!file)
    return makeError("cannot open '", path, "': ", file.getError().message());
  if (!isPortable((*file)->getBuffer()))
    return std::move(*file);
  Expected<std::unique_ptr<MemoryBuffer>> text =
      convert((*file)->getBuffer(), (*file)->getBufferIdentifier());
  if (!text)
    return makeError("'", path, "': ", toString(text.takeError()));
  return text;
}
