#include "DLPack.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

using namespace scalify::rt;
using namespace scalify::rt::py;

namespace {
struct Spelling {
  DType type;
  const char *module;
  const char *numpyName;
};

constexpr Spelling spellings[] = {
    {DType::I1, "numpy", "bool"},
    {DType::I8, "numpy", "int8"},
    {DType::I16, "numpy", "int16"},
    {DType::I32, "numpy", "int32"},
    {DType::I64, "numpy", "int64"},
    {DType::U8, "numpy", "uint8"},
    {DType::U16, "numpy", "uint16"},
    {DType::U32, "numpy", "uint32"},
    {DType::U64, "numpy", "uint64"},
    {DType::F8E4M3FN, "ml_dtypes", "float8_e4m3fn"},
    {DType::F8E5M2, "ml_dtypes", "float8_e5m2"},
    {DType::BF16, "ml_dtypes", "bfloat16"},
    {DType::F16, "numpy", "float16"},
    {DType::F32, "numpy", "float32"},
    {DType::F64, "numpy", "float64"},
    {DType::C64, "numpy", "complex64"},
    {DType::C128, "numpy", "complex128"},
    {DType::I2, "ml_dtypes", "int2"},
    {DType::I4, "ml_dtypes", "int4"},
    {DType::U2, "ml_dtypes", "uint2"},
    {DType::U4, "ml_dtypes", "uint4"},
};

const Spelling &spellingOf(DType type) {
  return spellings[static_cast<size_t>(type)];
}

nb::object numpy() { return nb::module_::import_("numpy"); }

nb::capsule keeper(const SlotRef &slot) {
  return nb::capsule(new SlotRef(slot), [](void *p) noexcept {
    delete static_cast<SlotRef *>(p);
  });
}

nb::tuple shapeTuple(const TensorType &type) {
  nb::list shape;
  for (int64_t extent : type.shape)
    shape.append(extent);
  return nb::tuple(shape);
}

ArrayView fromNumpy(nb::object array) {
  // Only a dense, aligned, native array is used without a copy.
  nb::object flags = array.attr("flags");
  if (!nb::cast<bool>(flags["C_CONTIGUOUS"]) ||
      !nb::cast<bool>(flags["ALIGNED"]) ||
      !nb::cast<bool>(array.attr("dtype").attr("isnative"))) {
    nb::object native = array.attr("dtype").attr("newbyteorder")("=");
    array = array.attr("astype")(native, nb::arg("order") = "C");
  }
  ArrayView view;
  view.type.dtype = fromNumpyDType(array.attr("dtype"));
  std::vector<int64_t> shape;
  for (nb::handle extent : array.attr("shape"))
    shape.push_back(nb::cast<int64_t>(extent));
  view.type = *makeTensorType(view.type.dtype, std::move(shape));
  nb::object data = array.attr("__array_interface__")["data"];
  // NumPy returns the address as a number.
  auto address = nb::cast<uintptr_t>(data[0]);
  view.data = reinterpret_cast<const void *>(address); // NOLINT
  view.owner = std::move(array);
  return view;
}
} // namespace

nb::object scalify::rt::py::numpyDType(DType type) {
  const Spelling &entry = spellingOf(type);
  nb::object scalar = nb::module_::import_(entry.module).attr(entry.numpyName);
  return numpy().attr("dtype")(scalar);
}

DType scalify::rt::py::fromNumpyDType(nb::handle dtype) {
  std::string wanted = nb::cast<std::string>(dtype.attr("name"));
  for (const Spelling &entry : spellings)
    if (wanted == entry.numpyName)
      return entry.type;
  std::string text = "an array of dtype '" + wanted +
                     "' has no counterpart in Scalify; cast it first";
  throw nb::type_error(text.c_str());
}

/// A NumPy array over const bytes is read-only, and cannot be made writable.
template <typename Byte>
static nb::object arrayOver(const SlotRef &slot, const TensorType &type) {
  // As bytes first: nanobind does not support the dtypes of ml_dtypes.
  size_t size = static_cast<size_t>(type.bytes);
  nb::object raw = nb::cast(nb::ndarray<nb::numpy, Byte, nb::ndim<1>>(
      static_cast<Byte *>(slot->data()), {size}, keeper(slot)));
  return raw.attr("view")(numpyDType(type.dtype))
      .attr("reshape")(shapeTuple(type));
}

nb::object scalify::rt::py::numpyArray(const SlotRef &slot,
                                       const TensorType &type) {
  return arrayOver<uint8_t>(slot, type);
}

nb::object scalify::rt::py::numpyView(const SlotRef &slot,
                                      const TensorType &type) {
  return arrayOver<const uint8_t>(onHost(slot, type.bytes), type);
}

ArrayView scalify::rt::py::hostView(nb::handle object, const TensorType &want) {
  nb::object np = numpy();
  if (nb::isinstance(object, np.attr("ndarray")))
    return fromNumpy(nb::borrow(object));
  if (nb::hasattr(object, "__array__")) {
    try {
      return fromNumpy(np.attr("asarray")(object));
    } catch (nb::python_error &error) {
      // PyTorch's BF16 tensors refuse NumPy, which lacks the type.
      if (!error.matches(PyExc_TypeError) || !nb::hasattr(object, "__dlpack__"))
        throw;
    }
  }
  if (nb::hasattr(object, "__dlpack__")) {
    DLDevice place = dlpackDevice(object).value_or(DLDevice());
    if (!place.isHost()) {
      std::string text = "it lies on DLPack's device " +
                         std::to_string(place.kind) + ":" +
                         std::to_string(place.ordinal) +
                         ", where only a step on that device reads it: copy "
                         "it to the host";
      throw nb::value_error(text.c_str());
    }
    return dlpackView(object, 0);
  }
  return fromNumpy(np.attr("asarray")(object, numpyDType(want.dtype)));
}
