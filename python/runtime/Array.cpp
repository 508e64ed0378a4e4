#include "Array.h"
#include "DLPack.h"

#include <cstring>
#include <nanobind/stl/string.h>

using namespace scalify::rt;
using namespace scalify::rt::py;

const SlotRef &Array::live() const {
  if (!slot)
    throw nb::value_error(
        "this array was donated to a step and its memory now belongs to the "
        "step's result; use the returned array, or copy it with numpy.array() "
        "before the step");
  return slot;
}

namespace {
nb::tuple shapeOf(const Array &self) {
  nb::list shape;
  for (int64_t extent : self.type().shape)
    shape.append(extent);
  return nb::tuple(shape);
}

/// Implements NumPy's protocol: a view if possible, a copy if requested or
/// needed.
nb::object asNumpy(const Array &self, const nb::object &dtype,
                   const nb::object &copy) {
  bool wantsCopy = !copy.is_none() && nb::cast<bool>(copy);
  bool isCopied = self.live()->device();
  if (isCopied && !copy.is_none() && !wantsCopy)
    throw nb::value_error("the array lies on the GPU: NumPy gets a copy");
  nb::object array =
      isCopied ? numpyArray(onHost(self.live(), self.type().bytes), self.type())
               : numpyView(self.live(), self.type());
  if (!dtype.is_none() &&
      !array.attr("dtype").attr("__eq__")(dtype).is(nb::bool_(true))) {
    if (!copy.is_none() && !wantsCopy)
      throw nb::value_error("a change of dtype needs a copy");
    return array.attr("astype")(dtype);
  }
  return wantsCopy && !isCopied ? array.attr("copy")() : array;
}

nb::object item(const Array &self) {
  return numpyView(self.live(), self.type()).attr("item")();
}

std::string repr(const Array &self) {
  if (self.consumed())
    return "scalify.Array(" + toString(self.type()) + ", donated)";
  nb::object array = numpyView(self.live(), self.type());
  return "scalify.Array(" + nb::cast<std::string>(nb::str(array)) + ", " +
         toString(self.type()) + ")";
}

Array copyOf(const ArrayView &view) {
  SlotRef slot = hostSlot(view.type.bytes);
  std::memcpy(slot->data(), view.data, static_cast<size_t>(view.type.bytes));
  return Array(std::move(slot), view.type);
}
} // namespace

Array scalify::rt::py::copyOf(nb::handle object, const nb::object &dtype) {
  TensorType want;
  if (!dtype.is_none()) {
    nb::object np = nb::module_::import_("numpy");
    want.dtype = fromNumpyDType(np.attr("dtype")(dtype));
  }
  Array array = ::copyOf(hostView(object, want));
  if (dtype.is_none() || array.type().dtype == want.dtype)
    return array;
  nb::object values = numpyArray(array.live(), array.type());
  return ::copyOf(hostView(values.attr("astype")(dtype), want));
}

void scalify::rt::py::bindArray(nb::module_ &module) {
  nb::class_<Array>(module, "Array", nb::is_weak_referenceable(),
                    "A dense tensor that owns its memory. A step takes over "
                    "a donated Array without a copy and leaves it empty.")
      .def_prop_ro("shape", &shapeOf)
      .def_prop_ro("dtype",
                   [](const Array &a) { return numpyDType(a.type().dtype); })
      .def_prop_ro("ndim", [](const Array &a) { return a.type().shape.size(); })
      .def_prop_ro("size", [](const Array &a) { return a.type().elements; })
      .def_prop_ro("nbytes", [](const Array &a) { return a.type().bytes; })
      .def("is_deleted", &Array::consumed,
           "True once a step has taken over the memory.")
      .def("is_lent", &Array::lent,
           "True once DLPack has passed the memory to another library, which "
           "may write there.")
      .def("item", &item, "Returns the value of a one-element array.")
      .def("__array__", &asNumpy, nb::arg("dtype") = nb::none(),
           nb::arg("copy") = nb::none())
      .def("__dlpack__",
           [](Array &a, const nb::kwargs &kwargs) {
             a.lend();
             return dlpackCapsule(a.live(), a.type(), kwargs);
           })
      .def("__dlpack_device__",
           [](const Array &a) {
             const Loaded *gpu = a.live()->device();
             return gpu ? nb::make_tuple(2, gpu->ordinal())
                        : nb::make_tuple(1, 0);
           })
      .def("__float__", [](const Array &a) { return nb::float_(item(a)); })
      .def("__int__", [](const Array &a) { return nb::int_(item(a)); })
      .def("__len__",
           [](const Array &a) {
             if (a.type().shape.empty())
               throw nb::type_error("len() of an array without dimensions");
             return a.type().shape[0];
           })
      .def("__repr__", &repr);
  module.def(
      "array",
      [](nb::handle object, const nb::object &dtype) {
        return scalify::rt::py::copyOf(object, dtype);
      },
      nb::arg("object"), nb::arg("dtype") = nb::none(),
      "Copies any array-like into an Array that can be donated.");
}
