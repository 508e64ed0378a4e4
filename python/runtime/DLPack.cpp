#include "DLPack.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

using namespace scalify::rt;
using namespace scalify::rt::py;

namespace {
constexpr uint8_t dlInt = 0, dlUInt = 1, dlFloat = 2, dlBFloat = 4,
                  dlComplex = 5, dlBool = 6;
// DLPack 1.1 gives each FP8 format a code of its own.
constexpr uint8_t dlE4M3FN = 10, dlE5M2 = 12;

uint8_t codeOf(DType type) {
  switch (type) {
  case DType::I1:
    return dlBool;
  case DType::I8:
  case DType::I16:
  case DType::I32:
  case DType::I64:
    return dlInt;
  case DType::U8:
  case DType::U16:
  case DType::U32:
  case DType::U64:
    return dlUInt;
  case DType::F8E4M3FN:
    return dlE4M3FN;
  case DType::F8E5M2:
    return dlE5M2;
  case DType::BF16:
    return dlBFloat;
  case DType::F16:
  case DType::F32:
  case DType::F64:
    return dlFloat;
  case DType::C64:
  case DType::C128:
    return dlComplex;
  case DType::I2:
  case DType::I4:
    return dlInt;
  case DType::U2:
  case DType::U4:
    return dlUInt;
  }
  return dlFloat;
}

nb::dlpack::dtype toDLPack(DType type) {
  return {codeOf(type), static_cast<uint8_t>(8 * byteWidth(type)), 1};
}

DType fromDLPack(nb::dlpack::dtype dtype) {
  for (int i = 0; i <= int(DType::C128); ++i)
    if (dtype == toDLPack(DType(i)))
      return DType(i);
  std::string text = "its element type, DLPack's code " +
                     std::to_string(int(dtype.code)) + " of " +
                     std::to_string(int(dtype.bits)) +
                     " bits, is not one Scalify knows";
  throw nb::type_error(text.c_str());
}

using Imported = nb::ndarray<nb::ro>;

nb::object capsuleOf(nb::handle object, uintptr_t stream) {
  nb::dict kwargs;
  if (stream)
    kwargs["stream"] = stream;
  kwargs["max_version"] = nb::make_tuple(1, 1);
  nb::object method = object.attr("__dlpack__");
  try {
    return method(**kwargs);
  } catch (nb::python_error &error) {
    if (!error.matches(PyExc_TypeError))
      throw;
  }
  // Older libraries do not accept max_version.
  nb::del(kwargs["max_version"]);
  return method(**kwargs);
}

bool isDense(const Imported &array) {
  int64_t step = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != step)
      return array.size() == 0;
    step *= int64_t(array.shape(i));
  }
  return true;
}
} // namespace

std::optional<DLDevice> scalify::rt::py::dlpackDevice(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack_device__"))
    return std::nullopt;
  try {
    nb::object place = object.attr("__dlpack_device__")();
    return DLDevice{nb::cast<int>(nb::int_(place[0])),
                    nb::cast<int>(nb::int_(place[1]))};
  } catch (nb::python_error &) {
    return std::nullopt; // for example a JAX array on several devices
  }
}

ArrayView scalify::rt::py::dlpackView(nb::handle object, uintptr_t stream) {
  auto array = nb::cast<Imported>(capsuleOf(object, stream));
  std::vector<int64_t> shape;
  for (size_t i = 0; i < array.ndim(); ++i)
    shape.push_back(static_cast<int64_t>(array.shape(i)));
  ArrayView view;
  view.type = *makeTensorType(fromDLPack(array.dtype()), std::move(shape));
  if (!isDense(array)) {
    PyErr_SetString(PyExc_BufferError,
                    "it is not dense and row major: copy it, with "
                    ".contiguous() if it is PyTorch's");
    throw nb::python_error();
  }
  view.data = array.data();
  view.owner = nb::capsule(new Imported(array), [](void *p) noexcept {
    delete static_cast<Imported *>(p);
  });
  return view;
}

nb::object scalify::rt::py::dlpackCapsule(const SlotRef &slot,
                                          const TensorType &type,
                                          const nb::kwargs &kwargs) {
  SlotRef shared = slot;
  nb::object wanted = kwargs.attr("get")("dl_device");
  if (slot->device() && wanted.equal(nb::make_tuple(1, 0))) {
    shared = onHost(slot, type.bytes);
    nb::del(kwargs["dl_device"]);
  }
  bool isHost = !shared->device();
  nb::capsule keeper(new SlotRef(shared), [](void *p) noexcept {
    delete static_cast<SlotRef *>(p);
  });
  std::vector<size_t> shape(type.shape.begin(), type.shape.end());
  nb::object array = nb::cast(nb::ndarray<nb::array_api>(
      shared->data(), shape.size(), shape.data(), keeper, nullptr,
      toDLPack(type.dtype),
      isHost ? nb::device::cpu::value : nb::device::cuda::value,
      isHost ? 0 : shared->device()->ordinal()));
  nb::object capsule = array.attr("__dlpack__")(**kwargs);
  shared->isExported = !isHost;
  return capsule;
}
