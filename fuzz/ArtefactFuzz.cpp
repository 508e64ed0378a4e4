// Artefacts whose header and hash are right and whose manifest is hostile. The
// input is the manifest. What loads is run, too, unless it has kernels, whose
// code the manifest cannot vouch for.
#include "JsonMutator.h"
#include "Wrap.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace scalify::rt::test;

// libFuzzer's own mutation of bytes.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {
constexpr int64_t maxRunBytes = 1 << 20; // of one argument

/// Returns memory of each size, aligned to 64 bytes, of exactly that size: the
/// sanitizer finds each access past its end. Empty if the sizes are too large.
class Memory {
public:
  void *add(int64_t bytes) {
    if (bytes > maxRunBytes) {
      isTooLarge = true;
      return nullptr;
    }
    void *block = nullptr;
    if (::posix_memalign(&block, 64, size_t(std::max<int64_t>(bytes, 1))))
      std::abort();
    std::memset(block, 0, size_t(bytes));
    blocks.emplace_back(block, std::free);
    return block;
  }
  bool isTooLarge = false;

private:
  std::vector<std::unique_ptr<void, void (*)(void *)>> blocks;
};

bool hasOp(const Json &manifest, const char *op) {
  if (manifest.is_object() && manifest.contains("op") && manifest["op"] == op)
    return true;
  if (manifest.is_structured())
    for (const Json &inner : manifest)
      if (hasOp(inner, op))
        return true;
  return false;
}

void runStep(scalify_rt_executable *exe) {
  Memory memory;
  std::vector<void *> args, results;
  scalify_rt_tensor tensor = {};
  for (int32_t i = 0; i < scalify_rt_num_args(exe); ++i)
    if (!scalify_rt_arg(exe, i, &tensor))
      args.push_back(memory.add(int64_t(tensor.bytes)));
  for (int32_t i = 0; i < scalify_rt_num_results(exe); ++i)
    if (!scalify_rt_result(exe, i, &tensor))
      results.push_back(tensor.alias >= 0 ? nullptr
                                          : memory.add(int64_t(tensor.bytes)));
  // A loop may go on for ever, as long as it can be stopped.
  scalify_rt_set_poll(exe, [](void *) { return 1; }, nullptr);
  if (!memory.isTooLarge)
    scalify_rt_run(exe, "step", args.data(), int32_t(args.size()),
                   results.data(), int32_t(results.size()));
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  Json manifest = Json::parse(text, nullptr, false);
  std::string artefact = scalify::fuzz::wrap(manifest, text);
  bool isGpu = scalify::fuzz::isOfGpu(manifest);
  scalify_rt_options options = {};
  options.threads = 1;
  options.device = isGpu ? SCALIFY_RT_DEVICE_NULL : SCALIFY_RT_DEVICE_CPU;
  scalify_rt_executable *exe = nullptr;
  if (scalify_rt_load_memory(artefact.data(), artefact.size(), &options, &exe))
    return 0;
  if (isGpu || !hasOp(manifest, "kernel"))
    runStep(exe);
  scalify_rt_free(exe);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  Json manifest = Json::parse(data, data + size, nullptr, false);
  if (manifest.is_discarded() || seed % 64 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  scalify::fuzz::mutate(manifest, seed);
  std::string text =
      manifest.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
