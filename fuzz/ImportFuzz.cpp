// StableHLO text from anyone, through the parser, the verifiers and the passes
// of Import: an error or a program that verifies, never a crash.
#include "TextMutator.h"

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/BooleanBlobs.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Pipeline/Nesting.h"
#include "scalify/Pipeline/Stages.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
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
size_t put(const std::string &text, uint8_t *out, size_t maxSize) {
  size_t size = std::min(text.size(), maxSize);
  std::memcpy(out, text.data(), size);
  return size;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A context for each input, since attributes stay in it.
  static const DialectRegistry registry = [] {
    DialectRegistry all;
    registerAllDialects(all);
    registerAllExtensions(all);
    all.insert<stablehlo::StableHLODialect, chlo::CHLODialect, sdy::SdyDialect,
               scalify::ScalifyDialect, scalify::plan::PlanDialect>();
    return all;
  }();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler quiet(&context,
                                [](Diagnostic &) { return success(); });
  // The lexer needs the zero at a string's end.
  std::string text(reinterpret_cast<const char *>(data), size);
  if (scalify::findDeepNesting(text, scalify::kNestingLimit))
    return 0;
  // As the compiler does, for texts of other versions of MLIR.
  if (std::optional<std::string> packed = stablehlo::packBooleanBlobs(text))
    text = *packed;
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return 0;
  PassManager manager(&context);
  manager.enableVerifier(false);
  scalify::buildImport(/*isForXLA=*/false, {}, manager);
  if (succeeded(manager.run(*module)) && failed(verify(*module)))
    std::abort();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  if (seed % 16 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text(reinterpret_cast<const char *>(data), size);
  return put(scalify::fuzz::mutate(text, seed), data, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t aSize,
                                            const uint8_t *b, size_t bSize,
                                            uint8_t *out, size_t maxSize,
                                            unsigned seed) {
  return put(scalify::fuzz::cross({reinterpret_cast<const char *>(a), aSize},
                                  {reinterpret_cast<const char *>(b), bSize},
                                  seed),
             out, maxSize);
}
