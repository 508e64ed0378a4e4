//===- KeptCode.cpp - Code of kernels, kept by contents -------------------===//
//
// LLVM takes most of a compilation's time, and programs have most kernels in
// common: a step that is compiled again with other scales, for other shapes, in
// another process, or beside its evaluation.
//
//===----------------------------------------------------------------------===//

#include "scalify/Codegen/KeptCode.h"
#include "scalify/Codegen/CodeVersion.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm-c/Core.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Caching.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA256.h"

#include <limits>
#include <mutex>

using namespace mlir;
using namespace scalify;

static constexpr StringLiteral kFolder = "SCALIFY_CACHE";
static constexpr StringLiteral kBytes = "SCALIFY_CACHE_BYTES";
static constexpr uint64_t kDefaultBytes = uint64_t(512) << 20;

std::string scalify::hashOf(ArrayRef<StringRef> texts) {
  llvm::SHA256 hash;
  for (StringRef text : texts) {
    // Two texts are not one that is as long.
    hash.update(std::to_string(text.size()) + ":");
    hash.update(text);
  }
  std::array<uint8_t, 32> digest = hash.final();
  return llvm::toHex(ArrayRef(digest).take_front(16), /*LowerCase=*/true);
}

std::string scalify::textWithoutLocations(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  // Ignores printing options of the command line.
  op->print(os,
            OpPrintingFlags()
                .useLocalScope()
                .enableDebugInfo(false)
                .elideLargeElementsAttrs(std::numeric_limits<int64_t>::max()));
  return text;
}

namespace {
/// The code that this process has made or read.
class KnownCode {
public:
  static KnownCode &get() {
    static KnownCode known;
    return known;
  }

  Code find(StringRef key) {
    std::lock_guard<std::mutex> lock(mutex);
    return codes.lookup(key);
  }

  /// A folder that could not be used is not tried again.
  bool canUse(StringRef folder) {
    std::lock_guard<std::mutex> lock(mutex);
    return !folder.empty() && folder != unusable;
  }

  void giveUp(StringRef folder) {
    std::lock_guard<std::mutex> lock(mutex);
    unusable = folder.str();
  }

  void add(StringRef key, Code code) {
    std::lock_guard<std::mutex> lock(mutex);
    // Dropped code is compiled again.
    if (bytes + code->size() > kMostBytes) {
      codes.clear();
      bytes = 0;
    }
    bytes += code->size();
    codes[key] = std::move(code);
  }

private:
  static constexpr size_t kMostBytes = size_t(64) << 20;
  std::mutex mutex;
  llvm::StringMap<Code> codes;
  std::string unusable;
  size_t bytes = 0;
};
} // namespace

static llvm::Expected<uint64_t> getMostBytes() {
  std::optional<std::string> text = llvm::sys::Process::GetEnv(kBytes);
  uint64_t bytes = kDefaultBytes;
  if (text && (StringRef(*text).getAsInteger(10, bytes) || bytes == 0))
    return llvm::createStringError(
        kBytes + " must be a number of bytes, not '" + *text + "'");
  return bytes;
}

namespace {
/// The file of a key in the folder: a digest of its name and of the code, then
/// the code.
class FolderEntry {
public:
  FolderEntry(StringRef folder, StringRef key) : folder(folder) {
    unsigned major = 0, minor = 0, patch = 0;
    LLVMGetVersion(&major, &minor, &patch);
    std::string llvm = llvm::formatv("{0}.{1}.{2}", major, minor, patch).str();
    name = hashOf({SCALIFY_CODE_VERSION, llvm, key});
  }

  /// Null if the folder does not have the code.
  llvm::Expected<Code> read();
  /// Must follow `read`. The file is whole or absent for other processes.
  llvm::Error write(StringRef code);

private:
  std::string getDigest(StringRef code) const { return hashOf({name, code}); }
  llvm::Error open();

  StringRef folder;
  std::string name;
  uint64_t mostBytes = 0;
  std::unique_ptr<llvm::MemoryBuffer> found;
  llvm::AddStreamFn addStream;
};
} // namespace

llvm::Error FolderEntry::open() {
  llvm::Expected<llvm::FileCache> cache =
      llvm::localCache("code of kernels", "Thin", folder,
                       [&](unsigned, const llvm::Twine &,
                           std::unique_ptr<llvm::MemoryBuffer> file) {
                         found = std::move(file);
                       });
  if (!cache)
    return cache.takeError();
  llvm::Expected<llvm::AddStreamFn> add = (*cache)(0, name, "");
  if (!add)
    return add.takeError();
  addStream = std::move(*add);
  return llvm::Error::success();
}

llvm::Expected<Code> FolderEntry::read() {
  llvm::Expected<uint64_t> most = getMostBytes();
  if (!most)
    return most.takeError();
  mostBytes = *most;
  if (llvm::Error error = open())
    return error;
  if (addStream)
    return Code();
  StringRef bytes = found->getBuffer();
  StringRef code = bytes.drop_front(std::min(name.size(), bytes.size()));
  if (bytes.take_front(name.size()) == getDigest(code))
    return std::make_shared<const std::string>(code);
  // The disk was full, or has lost a part of it.
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "llvmcache-" + name);
  if (std::error_code error = llvm::sys::fs::remove(path))
    return llvm::createStringError(error, "cannot remove '" + path + "'");
  if (llvm::Error error = open())
    return error;
  return Code();
}

llvm::Error FolderEntry::write(StringRef code) {
  // Another process may have written it meanwhile.
  if (!addStream)
    return llvm::Error::success();
  llvm::Expected<std::unique_ptr<llvm::CachedFileStream>> file =
      addStream(0, "");
  if (!file)
    return file.takeError();
  *(*file)->OS << getDigest(code) << code;
  (*file)->OS->flush();
  std::error_code failure;
  if (auto *os = dynamic_cast<llvm::raw_fd_ostream *>((*file)->OS.get())) {
    failure = os->error();
    os->clear_error(); // which would end the process
  }
  if (llvm::Error error = (*file)->commit())
    return error;
  if (failure)
    return llvm::createStringError(failure, "cannot write");
  llvm::CachePruningPolicy policy;
  policy.Interval = std::chrono::seconds(60);
  policy.MaxSizeBytes = mostBytes;
  llvm::pruneCache(folder, policy);
  return llvm::Error::success();
}

/// Calls `use` with the entry of a key in the folder, if there is a folder. One
/// that cannot be used is a warning.
static void useFolder(Location loc, StringRef key,
                      function_ref<llvm::Error(FolderEntry &)> use) {
  std::string folder = llvm::sys::Process::GetEnv(kFolder).value_or("");
  if (!KnownCode::get().canUse(folder))
    return;
  FolderEntry entry(folder, key);
  if (llvm::Error error = use(entry)) {
    emitWarning(loc) << "the folder '" << folder << "' (" << kFolder
                     << ") keeps no code: " << llvm::toString(std::move(error));
    KnownCode::get().giveUp(folder);
  }
}

Code scalify::findCode(Location loc, StringRef key) {
  Code code = KnownCode::get().find(key);
  if (code)
    return code;
  useFolder(loc, key, [&](FolderEntry &entry) -> llvm::Error {
    llvm::Expected<Code> kept = entry.read();
    if (!kept)
      return kept.takeError();
    code = *kept;
    return llvm::Error::success();
  });
  if (code)
    KnownCode::get().add(key, code);
  return code;
}

Code scalify::addCode(Location loc, StringRef key, std::string made) {
  auto code = std::make_shared<const std::string>(std::move(made));
  useFolder(loc, key, [&](FolderEntry &entry) {
    // Another process may have written it meanwhile.
    llvm::Expected<Code> kept = entry.read();
    return kept ? entry.write(*code) : kept.takeError();
  });
  KnownCode::get().add(key, code);
  return code;
}

FailureOr<Code> scalify::keepCode(Location loc, StringRef key,
                                  function_ref<FailureOr<std::string>()> make) {
  if (Code code = findCode(loc, key))
    return code;
  FailureOr<std::string> made = make();
  if (failed(made))
    return failure();
  return addCode(loc, key, std::move(*made));
}
