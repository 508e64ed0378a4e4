#include "Numpy.h"

#include <cstdlib>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <new>

using namespace scalify::rt;
using namespace scalify::rt::py;

namespace {
struct Spelling {
  DType type;
  const char *module;
  const char *numpyName;
  uint8_t dlpackCode;
};

constexpr uint8_t dlInt = 0, dlUInt = 1, dlFloat = 2, dlBFloat = 4, dlBool = 6;
// DLPack 1.1 gives each FP8 format a code of its own.
constexpr uint8_t dlE4M3FN = 10, dlE5M2 = 12;

constexpr Spelling spellings[] = {
    {DType::I1, "numpy", "bool", dlBool},
    {DType::I8, "numpy", "int8", dlInt},
    {DType::I16, "numpy", "int16", dlInt},
    {DType::I32, "numpy", "int32", dlInt},
    {DType::I64, "numpy", "int64", dlInt},
    {DType::U8, "numpy", "uint8", dlUInt},
    {DType::U16, "numpy", "uint16", dlUInt},
    {DType::U32, "numpy", "uint32", dlUInt},
    {DType::U64, "numpy", "uint64", dlUInt},
    {DType::F8E4M3FN, "ml_dtypes", "float8_e4m3fn", dlE4M3FN},
    {DType::F8E5M2, "ml_dtypes", "float8_e5m2", dlE5M2},
    {DType::BF16, "ml_dtypes", "bfloat16", dlBFloat},
    {DType::F16, "numpy", "float16", dlFloat},
    {DType::F32, "numpy", "float32", dlFloat},
    {DType::F64, "numpy", "float64", dlFloat},
};

const Spelling &spellingOf(DType type) {
  return spellings[static_cast<size_t>(type)];
}

nb::object numpy() { return nb::module_::import_("numpy"); }

nb::dlpack::dtype dlpackDType(DType type) {
  return {spellingOf(type).dlpackCode,
          static_cast<uint8_t>(8 * byteWidth(type)), 1};
}

DType fromDLPack(nb::dlpack::dtype dtype) {
  for (const Spelling &entry : spellings)
    if (dtype == dlpackDType(entry.type))
      return entry.type;
  throw nb::type_error("the array's element type is not one Scalify knows");
}

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

HostView fromNumpy(nb::object array) {
  // Only a dense, aligned, native array is used as it is.
  nb::object flags = array.attr("flags");
  if (!nb::cast<bool>(flags["C_CONTIGUOUS"]) ||
      !nb::cast<bool>(flags["ALIGNED"]) ||
      !nb::cast<bool>(array.attr("dtype").attr("isnative"))) {
    nb::object native = array.attr("dtype").attr("newbyteorder")("=");
    array = array.attr("astype")(native, nb::arg("order") = "C");
  }
  HostView view;
  view.type.dtype = fromNumpyDType(array.attr("dtype"));
  std::vector<int64_t> shape;
  for (nb::handle extent : array.attr("shape"))
    shape.push_back(nb::cast<int64_t>(extent));
  view.type = *makeTensorType(view.type.dtype, std::move(shape));
  nb::object data = array.attr("__array_interface__")["data"];
  // NumPy gives the address as a number.
  auto address = nb::cast<uintptr_t>(data[0]);
  view.data = reinterpret_cast<const void *>(address); // NOLINT
  view.owner = std::move(array);
  return view;
}

HostView fromDLPackObject(nb::handle object) {
  auto array = nb::cast<nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>>(
      nb::borrow(object));
  std::vector<int64_t> shape;
  for (size_t i = 0; i < array.ndim(); ++i)
    shape.push_back(static_cast<int64_t>(array.shape(i)));
  HostView view;
  view.type = *makeTensorType(fromDLPack(array.dtype()), std::move(shape));
  view.data = array.data();
  view.owner = nb::cast(array);
  return view;
}
} // namespace

Slot::Slot(int64_t size)
    : bytes(std::aligned_alloc(64, (size_t(size) + 64) / 64 * 64)) {
  if (!bytes)
    throw std::bad_alloc();
}

Slot::~Slot() { std::free(bytes); }

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

nb::object scalify::rt::py::numpyArray(const SlotRef &slot,
                                       const TensorType &type) {
  // As bytes first: nanobind cannot spell the dtypes of ml_dtypes.
  size_t size = static_cast<size_t>(type.bytes);
  nb::object raw = nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(
      slot->data(), {size}, keeper(slot)));
  return raw.attr("view")(numpyDType(type.dtype))
      .attr("reshape")(shapeTuple(type));
}

nb::object scalify::rt::py::numpyView(const SlotRef &slot,
                                      const TensorType &type) {
  nb::object array = numpyArray(slot, type);
  array.attr("flags").attr("writeable") = false;
  return array;
}

nb::object scalify::rt::py::dlpack(const SlotRef &slot, const TensorType &type,
                                   const nb::kwargs &kwargs) {
  std::vector<size_t> shape(type.shape.begin(), type.shape.end());
  nb::object array = nb::cast(nb::ndarray<nb::array_api>(
      slot->data(), shape.size(), shape.data(), keeper(slot), nullptr,
      dlpackDType(type.dtype), nb::device::cpu::value, 0));
  return array.attr("__dlpack__")(**kwargs);
}

HostView scalify::rt::py::hostView(nb::handle object, const TensorType &want) {
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
  if (nb::hasattr(object, "__dlpack__"))
    return fromDLPackObject(object);
  return fromNumpy(np.attr("asarray")(object, numpyDType(want.dtype)));
}
