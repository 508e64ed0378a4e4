#include "Inputs.h"
#include "DLPack.h"

#include <cstring>

using namespace scalify::rt;
using namespace scalify::rt::py;

// The runtime's alignment of GPU memory: kernels and cuBLASLt read vectors.
static constexpr uintptr_t kAlignment = 64;

static void checkType(const Parameter &parameter, const TensorType &type) {
  if (!(type == parameter.type))
    throw nb::value_error(("argument '" + parameter.name + "' takes " +
                           toString(parameter.type) + ", not " + toString(type))
                              .c_str());
}

/// Runs `read`, and prefixes its errors with the argument's name.
template <typename Fn>
static ArrayView named(const Parameter &parameter, Fn read) {
  const std::string start = "argument '" + parameter.name + "': ";
  try {
    return read();
  } catch (nb::python_error &error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError) &&
        !error.matches(PyExc_BufferError))
      throw;
    nb::raise_from(error, PyExc_ValueError, "%s%s", start.c_str(),
                   nb::str(error.value()).c_str());
  } catch (nb::builtin_exception &error) {
    throw nb::value_error((start + error.what()).c_str());
  }
}

Inputs::Inputs(Loaded &loaded, const std::vector<Parameter> &parameters,
               const nb::sequence &inputs, size_t first, Donation donation)
    : pointers(parameters.size()), donated(parameters.size()), loaded(loaded),
      donation(donation) {
  for (size_t i = first; i < parameters.size(); ++i)
    bind(parameters[i], i, inputs[i - first]);
}

void Inputs::consume() const {
  for (Array *array : consumed)
    array->consume();
}

bool Inputs::isWritten(const Parameter &parameter, size_t index) const {
  return parameter.alias >= 0 &&
         !(donation == Donation::Spare &&
           scalify_rt_is_spared(loaded.get(), int32_t(index)));
}

void Inputs::bind(const Parameter &parameter, size_t index, nb::handle input) {
  Array *array = nullptr;
  if (nb::try_cast(input, array) && array) {
    alive.push_back(nb::borrow(input));
    return bindArray(parameter, index, *array);
  }
  if (loaded.isOnDevice())
    if (auto place = dlpackDevice(input); place && place->isCuda())
      return bindForeign(parameter, index, input);
  bindHost(parameter, index, input);
}

void Inputs::copyToDonated(const Parameter &parameter, size_t index,
                           const void *from, bool isHost) {
  int64_t size = parameter.type.bytes;
  donated[index] = loaded.take(size);
  pointers[index] = donated[index]->data();
  if (!loaded.isOnDevice())
    std::memcpy(pointers[index], from, size_t(size));
  else if (isHost)
    loaded.copyIn(*donated[index], from, size);
  else
    loaded.copyWithin(*donated[index], from, size);
}

void Inputs::bindArray(const Parameter &parameter, size_t index, Array &array) {
  checkType(parameter, array.type());
  array.live();
  const bool isShared = array.shared(); // before this adds an owner
  SlotRef slot = array.live();
  if (!loaded.isOnDevice())
    slot = onHost(slot, parameter.type.bytes);
  const bool isThere = bool(slot->device()) == loaded.isOnDevice();
  if (!isWritten(parameter, index)) {
    pointers[index] = slot->data();
    copies.push_back(slot);
    return;
  }
  const bool isTaken = donation != Donation::Spare;
  if (isTaken)
    consumed.push_back(&array);
  // Memory with another live view must not change.
  if (!isThere || isShared || !isTaken)
    return copyToDonated(parameter, index, slot->data(), !slot->device());
  donated[index] = slot;
  pointers[index] = slot->data();
}

void Inputs::bindForeign(const Parameter &parameter, size_t index,
                         nb::handle input) {
  ArrayView view = named(parameter, [&] {
    DLDevice place = *dlpackDevice(input);
    if (place.kind == 2 && place.ordinal != loaded.ordinal()) {
      std::string text = "it lies on GPU " + std::to_string(place.ordinal) +
                         ", and the step runs on GPU " +
                         std::to_string(loaded.ordinal());
      throw nb::value_error(text.c_str());
    }
    return dlpackView(input, loaded.stream());
  });
  checkType(parameter, view.type);
  alive.push_back(view.owner);
  auto *data = const_cast<void *>(view.data);
  if (isWritten(parameter, index))
    return copyToDonated(parameter, index, data, /*isHost=*/false);
  if (reinterpret_cast<uintptr_t>(data) % kAlignment) {
    if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                         "argument '%s' is copied for each step: it lies on "
                         "the GPU, but not at a multiple of %d bytes",
                         parameter.name.c_str(), int(kAlignment)))
      throw nb::python_error();
    copies.push_back(loaded.take(view.type.bytes, /*isResult=*/true));
    loaded.copyWithin(*copies.back(), data, view.type.bytes);
    data = copies.back()->data();
  }
  pointers[index] = data;
}

void Inputs::bindHost(const Parameter &parameter, size_t index,
                      nb::handle input) {
  ArrayView view =
      named(parameter, [&] { return hostView(input, parameter.type); });
  checkType(parameter, view.type);
  alive.push_back(view.owner);
  auto *data = const_cast<void *>(view.data);
  if (parameter.alias >= 0 && donation == Donation::InPlace) {
    if (!view.owner.is(input) ||
        !nb::cast<bool>(input.attr("flags").attr("writeable")))
      throw nb::value_error(
          ("argument '" + parameter.name +
           "' is overwritten: it must be a dense, writable NumPy array")
              .c_str());
    donated[index] = foreignSlot(data, view.owner);
  } else if (isWritten(parameter, index)) {
    return copyToDonated(parameter, index, data, /*isHost=*/true);
  }
  pointers[index] = data;
}
