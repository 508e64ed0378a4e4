// StableHLO text from anyone, through the parser, the verifiers and the passes
// of Import: an error or a program that verifies, never a crash.
#include "IRMutator.h"
#include "Resources.h"
#include "Strings.h"
#include "TextMutator.h"

#include "scalify/Dialect/StableHLO/BooleanBlobs.h"
#include "scalify/Pipeline/Nesting.h"
#include "scalify/Pipeline/Stages.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <cstdlib>
#include <cstring>

using namespace mlir;
using namespace scalify;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

// Debian's LLVM has no sanitizer: it does not unpoison what the allocators in
// its headers, compiled here, have poisoned.
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}

namespace {
void require(bool isTrue) {
  if (!isTrue)
    std::abort();
}

/// Nothing for what does not fit, which would only be cut.
size_t put(const std::string &text, uint8_t *out, size_t maxSize) {
  if (text.size() > maxSize)
    return 0;
  std::memcpy(out, text.data(), text.size());
  return text.size();
}

std::string toText(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// What passes leave is printed, between stages, and parsed again.
void requireText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  require(bool(parseSourceString<ModuleOp>(text, module.getContext())));
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A context for each input, since attributes stay in it.
  MLIRContext context(scalify::fuzz::getRegistry(),
                      MLIRContext::Threading::DISABLED);
  int64_t numErrors = 0;
  ScopedDiagnosticHandler counts(&context, [&](Diagnostic &diagnostic) {
    numErrors += diagnostic.getSeverity() == DiagnosticSeverity::Error &&
                 !diagnostic.str().empty();
    return success();
  });
  // The lexer needs the zero at a string's end.
  std::string text = toText(data, size);
  if (scalify::findDeepNesting(text, scalify::kNestingLimit))
    return 0;
  // As the compiler does, for texts of other versions of MLIR.
  if (std::optional<std::string> packed = stablehlo::packBooleanBlobs(text))
    text = *packed;
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module || failed(readResources(*module)) ||
      failed(checkStrings(*module))) {
    require(numErrors > 0);
    return 0;
  }
  // Any bits of the input choose the options.
  StageOptions options;
  options.returnGradients = size % 8 == 1;
  PassManager manager(&context);
  manager.enableVerifier(false);
  scalify::buildImport(/*isForXLA=*/size % 4 == 0, options, manager);
  if (failed(manager.run(*module))) {
    require(numErrors > 0);
    return 0;
  }
  require(succeeded(verify(*module)));
  if (size % 4 == 1)
    requireText(*module);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  if (seed % 32 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text = toText(data, size);
  if (seed % 2)
    if (auto made = scalify::fuzz::mutateIR(text, "", seed))
      if (size_t length = put(*made, data, maxSize))
        return length;
  if (size_t length = put(scalify::fuzz::mutate(text, seed), data, maxSize))
    return length;
  return size;
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t aSize,
                                            const uint8_t *b, size_t bSize,
                                            uint8_t *out, size_t maxSize,
                                            unsigned seed) {
  std::string first = toText(a, aSize), second = toText(b, bSize);
  if (seed % 4)
    if (auto made = scalify::fuzz::mutateIR(first, second, seed))
      if (size_t length = put(*made, out, maxSize))
        return length;
  return put(scalify::fuzz::cross(first, second, seed), out, maxSize);
}
