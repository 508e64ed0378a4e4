#include "blas/ProductUnit.h"
#include "blas/AmxTiles.h"
#include "blas/Dnnl.h"
#include "loader/CpuFeatures.h"
#include "support/Error.h"

#include <cstdlib>
#include <optional>
#include <string>

using namespace scalify::rt;

namespace {
constexpr ProductUnit kUnits[] = {ProductUnit::F32, ProductUnit::AVX512BF16,
                                  ProductUnit::AMX};

/// Returns the unit that the environment names.
std::optional<ProductUnit> readCap() {
  const char *text = std::getenv("SCALIFY_CPU_ISA");
  if (!text || !*text)
    return {};
  for (ProductUnit unit : kUnits)
    if (std::string(text) == name(unit))
      return unit;
  badArgument(
      std::string("SCALIFY_CPU_ISA is '") + text +
      "'; it is one of f32, avx512_bf16 and amx, and caps the unit that "
      "multiplies BF16");
}

ProductUnit choose() {
  std::optional<ProductUnit> named = readCap();
  ProductUnit cap = named.value_or(ProductUnit::AMX);
  if (cap >= ProductUnit::AMX && amx::isUsable())
    return ProductUnit::AMX;
  bool takesVectors =
      named == ProductUnit::AVX512BF16 ? hasBF16Unit() : hasFastBF16Unit();
  if (cap >= ProductUnit::AVX512BF16 && takesVectors && Dnnl::find())
    return ProductUnit::AVX512BF16;
  return ProductUnit::F32;
}
} // namespace

const char *scalify::rt::name(ProductUnit unit) {
  switch (unit) {
  case ProductUnit::F32:
    return "f32";
  case ProductUnit::AVX512BF16:
    return "avx512_bf16";
  case ProductUnit::AMX:
    return "amx";
  }
  return "";
}

ProductUnit scalify::rt::productUnit() {
  static const ProductUnit unit = choose();
  return unit;
}
