// scalify._runtime: artefacts and arrays for Python. Links no compiler.
#include "Array.h"
#include "Communicator.h"
#include "XlaCall.h"
#include "blas/ProductUnit.h"
#include "loader/CpuFeatures.h"
#include "scalify/runtime.h"
#include "support/FloatFormats.h"

#include <nanobind/stl/string.h>

using namespace scalify::rt;
using namespace scalify::rt::py;

namespace {
/// Converts an f32 array-like to an array of `To`.
template <DType To> nb::object fromF32(nb::handle object) {
  ArrayView view = hostView(object, *makeTensorType(DType::F32, {}));
  if (view.type.dtype != DType::F32)
    throw nb::type_error("the array to convert must have dtype float32");
  TensorType type = *makeTensorType(To, view.type.shape);
  SlotRef slot = hostSlot(type.bytes);
  convertFromF32(To, static_cast<const float *>(view.data), slot->data(),
                 type.elements);
  return numpyArray(slot, type);
}

/// Converts an array of a narrow float type to f32.
nb::object toF32(nb::handle object) {
  ArrayView view = hostView(object, *makeTensorType(DType::F32, {}));
  if (!isNarrowFloat(view.type.dtype))
    throw nb::type_error("the array to convert must be of a float type of at "
                         "most 32 bits");
  TensorType type = *makeTensorType(DType::F32, view.type.shape);
  SlotRef slot = hostSlot(type.bytes);
  convertToF32(view.type.dtype, view.data, static_cast<float *>(slot->data()),
               type.elements);
  return numpyArray(slot, type);
}
} // namespace

void scalify::rt::py::bindFormats(nb::module_ &module) {
  module.def("f32_to_f8e4m3fn", &fromF32<DType::F8E4M3FN>, nb::arg("array"),
             "Rounds to nearest even; finite values saturate, "
             "infinities become NaN.");
  module.def("f32_to_f8e5m2", &fromF32<DType::F8E5M2>, nb::arg("array"),
             "Rounds to nearest even; finite values saturate, "
             "infinities become NaN.");
  module.def("f32_to_bf16", &fromF32<DType::BF16>, nb::arg("array"),
             "Rounds to nearest even; overflow gives infinity.");
  module.def("f32_to_f16", &fromF32<DType::F16>, nb::arg("array"),
             "Rounds to nearest even; overflow gives infinity.");
  module.def("to_f32", &toF32, nb::arg("array"),
             "Widens F8, BF16 or F16 to float32, exactly.");
}

static std::string processor() {
  int level = hostLevel();
  if (level == 0)
    return "";
  return level == 1 ? "x86-64" : "x86-64-v" + std::to_string(level);
}

NB_MODULE(_runtime, module) {
  module.doc() = "Loads and runs compiled artefacts.";
  // JAX's caches keep programs, and so steps, until the process ends.
  nb::set_leak_warnings(false);
  module.def("version", &scalify_rt_version);
  module.def("processor", &processor,
             "Returns the x86-64 level of this processor, as \"x86-64-v3\"; "
             "\"\" for another kind.");
  module.def(
      "product_unit", [] { return std::string(name(productUnit())); },
      "Returns the unit that multiplies BF16 here: \"f32\", "
      "\"avx512_bf16\" or \"amx\".");
  bindArray(module);
  bindCommunicator(module);
  bindExecutable(module);
  bindFormats(module);
  bindXlaCall(module);
}
