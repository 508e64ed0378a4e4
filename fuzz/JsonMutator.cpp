#include "JsonMutator.h"

#include <random>
#include <string>
#include <vector>

using Json = nlohmann::json;

namespace {
/// Words of manifests: another one of the same kind is often valid.
constexpr const char *words[] = {
    "arg",        "result",      "temp",       "const",     "rank",
    "f32",        "bf16",        "f16",        "f64",       "f8E4M3FN",
    "f8E5M2",     "i1",          "i8",         "i32",       "i64",
    "ui8",        "ui32",        "kernel",     "gemm",      "attention",
    "host_call",  "collective",  "copy",       "fill",      "record",
    "wait",       "all_reduce",  "all_gather", "permute",   "reduce_scatter",
    "all_to_all", "broadcast",   "message",    "sum",       "max",
    "min",        "none",        "tf32",       "bias",      "relu",
    "gelu",       "bias_gelu",   "gelu_grad",  "relu_grad", "tensor",
    "rows",       "vectors",     "blocks",     "cpu",       "cuda",
    "add",        "clip",        "total",      "x86-64",    "x86-64-v3",
    "cast",       "update",      "measure",    "rescale",   "step",
    "nccl",       "loop",        "lapack",     "body",      "tile",
    "potrf",      "trsm",        "getrf",      "geqrf",     "geqp3",
    "orgqr",      "syevd",       "gesdd",      "gesvd",     "sytrd",
    "gehrd",      "gees",        "geev",       "gtsv",      "L",
    "U",          "LLNN",        "V",          "VN",        "A",
    "F32",        "BF16",        "F8_E4M3",    "C64",       "BOOL",
    "",           "\xf0\x9f\x98"};

constexpr int64_t numbers[] = {0,
                               1,
                               -1,
                               2,
                               3,
                               4,
                               7,
                               8,
                               16,
                               63,
                               64,
                               65,
                               128,
                               255,
                               256,
                               4095,
                               4096,
                               1 << 20,
                               INT32_MAX,
                               int64_t(INT32_MAX) + 1,
                               UINT32_MAX,
                               int64_t(1) << 32,
                               int64_t(1) << 40,
                               int64_t(1) << 60,
                               int64_t(1) << 61,
                               int64_t(1) << 62,
                               INT64_MAX,
                               INT64_MAX - 63,
                               INT64_MIN};

class Mutator {
public:
  Mutator(Json &root, unsigned seed) : root(root), random(seed) {}

  void run() {
    for (size_t left = 1 + pick(4); left-- > 0;) {
      nodes.clear();
      collect(root, 0);
      change(*nodes[pick(nodes.size())]);
    }
  }

private:
  size_t pick(size_t count) { return count ? random() % count : 0; }

  void collect(Json &node, int depth) {
    nodes.push_back(&node);
    if (node.is_structured() && depth < 16)
      for (Json &inner : node)
        collect(inner, depth + 1);
  }

  Json scalar() {
    switch (pick(6)) {
    case 0:
      return words[pick(std::size(words))];
    case 1:
      return bool(pick(2));
    case 2:
      return nullptr;
    case 3:
      return double(int64_t(random())) * 1e-3;
    case 4:
      return uint64_t(INT64_MAX) + pick(3);
    default:
      return numbers[pick(std::size(numbers))];
    }
  }

  void change(Json &node) {
    if (pick(12) == 0) {
      // Taken from elsewhere in the tree.
      Json other = *nodes[pick(nodes.size())];
      if (other.size() < 64)
        node = std::move(other);
    } else if (pick(16) == 0) {
      node = scalar();
    } else if (node.is_number_integer()) {
      changeNumber(node);
    } else if (node.is_string()) {
      node = words[pick(std::size(words))];
    } else if (node.is_array()) {
      changeArray(node);
    } else if (node.is_object()) {
      changeObject(node);
    } else {
      node = scalar();
    }
  }

  void changeNumber(Json &node) {
    // A wrapped sum is as good as any.
    auto number = uint64_t(node.get<int64_t>());
    switch (pick(4)) {
    case 0:
      node = int64_t(number + pick(9) - 4);
      break;
    case 1:
      node = int64_t(pick(2) ? number * 2 : number / 2);
      break;
    case 2:
      node = pick(8);
      break;
    default:
      node = numbers[pick(std::size(numbers))];
    }
  }

  void changeArray(Json &node) {
    if (node.empty() || node.size() > 64)
      return;
    size_t at = pick(node.size());
    switch (pick(4)) {
    case 0:
      node.erase(at);
      break;
    case 1:
      node.push_back(Json(node[at]));
      break;
    case 2:
      std::swap(node[at], node[pick(node.size())]);
      break;
    default:
      node.insert(node.begin() + int64_t(at), scalar());
    }
  }

  void changeObject(Json &node) {
    if (node.empty())
      return;
    auto at = node.begin();
    std::advance(at, pick(node.size()));
    switch (pick(3)) {
    case 0:
      node.erase(at);
      break;
    case 1:
      *at = scalar();
      break;
    default: {
      // A key of any object of the tree.
      Json &other = *nodes[pick(nodes.size())];
      if (!other.is_object() || other.empty() || &other == &node)
        return;
      auto from = other.begin();
      std::advance(from, pick(other.size()));
      Json value = *from;
      node[std::string(from.key())] = std::move(value);
    }
    }
  }

  Json &root;
  std::mt19937 random;
  std::vector<Json *> nodes;
};
} // namespace

void scalify::fuzz::mutate(Json &json, unsigned seed) {
  Mutator(json, seed).run();
}
