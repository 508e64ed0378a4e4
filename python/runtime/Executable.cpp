// _runtime.Executable: an artefact that runs on Python's arrays.
#include "Communicator.h"
#include "XlaCall.h"

#include <cstring>
#include <map>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <utility>

using namespace scalify::rt;
using namespace scalify::rt::py;

namespace {
TensorType typeOf(const scalify_rt_tensor &tensor) {
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
  return *makeTensorType(*parseDType(tensor.dtype), std::move(shape));
}

Parameter parameterOf(const scalify_rt_tensor &tensor) {
  return {tensor.name, tensor.role, typeOf(tensor), tensor.alias};
}

nb::list describe(const std::vector<Parameter> &parameters, const char *other) {
  nb::list out;
  for (const Parameter &p : parameters) {
    nb::dict entry;
    nb::list shape;
    for (int64_t extent : p.type.shape)
      shape.append(extent);
    entry["name"] = p.name;
    entry["dtype"] = name(p.type.dtype);
    entry["shape"] = nb::tuple(shape);
    entry["role"] = p.role;
    entry[other] = p.alias < 0 ? nb::none() : nb::cast(p.alias);
    out.append(entry);
  }
  return out;
}

class Executable {
public:
  Executable(const nb::object &source, int threads, const std::string &device,
             const Communicator *comm);

  nb::tuple run(const nb::sequence &inputs, const std::string &function,
                bool isInPlace);
  nb::tuple tryStep(const nb::sequence &inputs);
  nb::list health() const;
  nb::object counters() const;
  void setCounters(const nb::object &words);
  nb::object initial(int index) const;
  Array put(nb::handle object, const nb::object &dtype);
  void setHostCall(const nb::object &function);
  nb::handle getHostCall() const { return hostCall; }
  void clearHostCall();
  nb::list profile() const;
  const char *manifest() const { return scalify_rt_manifest(handle); }
  const char *trace() const { return scalify_rt_trace(handle); }
  int threads() const { return scalify_rt_threads(handle); }
  void setThreads(int count) { check(scalify_rt_set_threads(handle, count)); }
  void setProfiling(bool on) { check(scalify_rt_set_profiling(handle, on)); }
  nb::list args() const {
    return describe(signature("step").arguments, "alias_result");
  }
  nb::list outs() const {
    return describe(signature("step").results, "alias_arg");
  }
  nb::list functions() const;
  std::unique_ptr<XlaCall> xlaCall(std::vector<int32_t> operands,
                                   std::vector<int32_t> results,
                                   int64_t id) const;

private:
  const Signature &signature(const std::string &function) const;
  static void checkCount(const std::string &function,
                         const Signature &signature,
                         const nb::sequence &inputs);
  void readSignature(const char *function);
  nb::tuple collect(const std::vector<SlotRef> &slots,
                    const std::vector<Parameter> &results) const;

  std::shared_ptr<Loaded> loaded;
  scalify_rt_executable *handle;
  nb::object hostCall;
  std::map<std::string, Signature> signatures;
};

Executable::Executable(const nb::object &source, int threads,
                       const std::string &device, const Communicator *comm)
    : loaded(std::make_shared<Loaded>(source, threads, device,
                                      comm ? comm->share() : nullptr)),
      handle(loaded->get()) {
  for (int32_t i = 0; i < scalify_rt_num_functions(handle); ++i)
    readSignature(scalify_rt_function_name(handle, i));
}

void Executable::readSignature(const char *function) {
  Signature &read = signatures[function];
  scalify_rt_tensor tensor;
  int32_t numArgs = scalify_rt_function_num_args(handle, function);
  for (int32_t i = 0; i < numArgs; ++i) {
    check(scalify_rt_function_arg(handle, function, i, &tensor));
    read.arguments.push_back(parameterOf(tensor));
  }
  int32_t numResults = scalify_rt_function_num_results(handle, function);
  for (int32_t i = 0; i < numResults; ++i) {
    check(scalify_rt_function_result(handle, function, i, &tensor));
    read.results.push_back(parameterOf(tensor));
  }
}

const Signature &Executable::signature(const std::string &function) const {
  auto found = signatures.find(function);
  if (found == signatures.end())
    throw nb::value_error(
        ("the artefact has no function '" + function + "'").c_str());
  return found->second;
}

nb::list Executable::functions() const {
  nb::list out;
  for (const auto &entry : signatures)
    out.append(entry.first);
  return out;
}

std::unique_ptr<XlaCall> Executable::xlaCall(std::vector<int32_t> operands,
                                             std::vector<int32_t> results,
                                             int64_t id) const {
  return std::make_unique<XlaCall>(loaded, signature("step"),
                                   std::move(operands), std::move(results), id);
}

void Executable::checkCount(const std::string &function,
                            const Signature &signature,
                            const nb::sequence &inputs) {
  size_t count = signature.arguments.size();
  if (nb::len(inputs) != count)
    throw nb::value_error(("the " + function + " takes " +
                           std::to_string(count) + " arguments, not " +
                           std::to_string(nb::len(inputs)))
                              .c_str());
}

nb::tuple Executable::run(const nb::sequence &inputs,
                          const std::string &function, bool isInPlace) {
  checkCount(function, signature(function), inputs);
  const auto &[arguments, results] = signature(function);
  if (isInPlace && loaded->isOnDevice())
    throw nb::value_error("in_place=True is for steps on the CPU");
  Inputs call(*loaded, arguments, inputs, 0,
              isInPlace ? Donation::InPlace : Donation::Take);
  std::vector<SlotRef> slots;
  std::vector<void *> out;
  bool mayBeRead = false; // by another library's work
  for (const Parameter &result : results) {
    slots.push_back(result.alias < 0
                        ? loaded->take(result.type.bytes, /*isResult=*/true)
                        : call.donated[result.alias]);
    out.push_back(result.alias < 0 ? slots.back()->data() : nullptr);
    mayBeRead |= std::exchange(slots.back()->isExported, false);
  }
  if (mayBeRead)
    check(scalify_rt_synchronize(handle));
  scalify_rt_status status;
  {
    nb::gil_scoped_release unlock;
    status = scalify_rt_run(handle, function.c_str(), call.pointers.data(),
                            int32_t(call.pointers.size()), out.data(),
                            int32_t(out.size()));
  }
  // An interrupted step leaves donated memory half written.
  if (status == SCALIFY_RT_OK || status == SCALIFY_RT_INTERRUPTED ||
      status == SCALIFY_RT_HOST)
    call.consume();
  check(status);
  return collect(slots, results);
}

nb::tuple Executable::tryStep(const nb::sequence &inputs) {
  checkCount("step", signature("step"), inputs);
  const auto &[arguments, results] = signature("step");
  Inputs call(*loaded, arguments, inputs, 0, Donation::Spare);
  std::vector<SlotRef> slots;
  std::vector<void *> out;
  for (const Parameter &result : results) {
    // Most are not written, and so take no memory.
    slots.push_back(result.alias < 0 ? loaded->take(result.type.bytes)
                                     : call.donated[result.alias]);
    out.push_back(result.alias < 0 ? slots.back()->data() : nullptr);
  }
  scalify_rt_status status;
  {
    nb::gil_scoped_release unlock;
    status = scalify_rt_try(handle, call.pointers.data(),
                            int32_t(call.pointers.size()), out.data(),
                            int32_t(out.size()));
  }
  check(status);
  nb::list written;
  for (size_t i = 0; i < results.size(); ++i)
    written.append(results[i].alias >= 0 && slots[i]
                       ? nb::cast(Array(slots[i], results[i].type))
                       : nb::none());
  return nb::tuple(written);
}

nb::tuple Executable::collect(const std::vector<SlotRef> &slots,
                              const std::vector<Parameter> &results) const {
  nb::list out;
  for (size_t i = 0; i < results.size(); ++i) {
    const Parameter &result = results[i];
    if (result.alias >= 0 || loaded->isOnDevice())
      out.append(nb::cast(Array(slots[i], result.type)));
    else
      out.append(numpyArray(slots[i], result.type));
  }
  return nb::tuple(out);
}

nb::list Executable::health() const {
  nb::list out;
  for (int32_t i = 0; i < scalify_rt_num_counters(handle); ++i) {
    scalify_rt_counter counter;
    check(scalify_rt_counter_info(handle, i, &counter));
    nb::dict entry;
    entry["cast"] = counter.cast;
    entry["op"] = counter.op;
    entry["loc"] = counter.loc;
    entry["format"] = counter.format;
    entry["elements"] = counter.elements;
    entry["saturated"] = counter.saturated;
    entry["flushed"] = counter.flushed;
    entry["zeros"] = counter.zeros;
    entry["nans"] = counter.nans;
    entry["top"] = counter.top;
    entry["scale"] = counter.scale != 0 ? nb::cast(counter.scale) : nb::none();
    entry["moved"] = counter.moved;
    out.append(entry);
  }
  return out;
}

nb::object Executable::counters() const {
  int64_t rows = scalify_rt_num_counters(handle);
  TensorType type =
      *makeTensorType(DType::U64, {rows, SCALIFY_RT_COUNTER_WORDS});
  auto slot = hostSlot(type.bytes);
  if (type.bytes)
    std::memcpy(slot->data(), scalify_rt_counters(handle),
                static_cast<size_t>(type.bytes));
  return numpyArray(slot, type);
}

void Executable::setCounters(const nb::object &words) {
  Array array = copyOf(words, nb::none());
  TensorType type = *makeTensorType(
      DType::U64, {scalify_rt_num_counters(handle), SCALIFY_RT_COUNTER_WORDS});
  if (array.type().dtype != type.dtype || array.type().shape != type.shape)
    throw nb::value_error("counters of another shape or type");
  check(scalify_rt_set_counters(
      handle, reinterpret_cast<const uint64_t *>(array.live()->data())));
}

nb::object Executable::initial(int index) const {
  scalify_rt_tensor tensor;
  check(scalify_rt_arg(handle, index, &tensor));
  auto slot = hostSlot(static_cast<int64_t>(tensor.bytes));
  check(scalify_rt_initial(handle, index, slot->data()));
  return numpyArray(slot, typeOf(tensor));
}

Array Executable::put(nb::handle object, const nb::object &dtype) {
  Array array = copyOf(object, dtype);
  if (!loaded->isOnDevice())
    return array;
  SlotRef slot = loaded->take(array.type().bytes);
  loaded->copyIn(*slot, array.live()->data(), array.type().bytes);
  return Array(std::move(slot), array.type());
}

/// The function stores its own exception, for the caller of the step.
static int callPython(void *function, int32_t index, void *const *buffers) {
  nb::gil_scoped_acquire lock;
  PyObject *result = PyObject_CallFunction(
      static_cast<PyObject *>(function), "iK", int(index),
      static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(buffers)));
  bool isDone = result == Py_True;
  Py_XDECREF(result);
  if (!result)
    PyErr_Clear();
  return isDone ? 0 : 1;
}

void Executable::setHostCall(const nb::object &function) {
  bool isGiven = !function.is_none();
  check(scalify_rt_set_host_call(handle, isGiven ? callPython : nullptr,
                                 isGiven ? function.ptr() : nullptr));
  hostCall = function;
}

void Executable::clearHostCall() {
  scalify_rt_set_host_call(handle, nullptr, nullptr);
  hostCall.reset();
}

nb::list Executable::profile() const {
  nb::list out;
  for (int32_t i = 0; i < scalify_rt_num_profile_entries(handle); ++i) {
    scalify_rt_profile_entry row;
    check(scalify_rt_profile(handle, i, &row));
    nb::dict entry;
    entry["function"] = row.function;
    entry["op"] = row.op;
    entry["name"] = row.name;
    entry["loc"] = row.loc;
    entry["calls"] = row.calls;
    entry["nanoseconds"] = row.nanoseconds;
    entry["bytes"] = row.bytes;
    entry["flops"] = row.flops;
    out.append(entry);
  }
  return out;
}
// The callback may refer to the executable's owner: Python's cyclic garbage
// collector must see the reference.
int visitHostCall(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self))
    Py_VISIT(nb::inst_ptr<Executable>(self)->getHostCall().ptr());
  return 0;
}

int clearHostCall(PyObject *self) {
  if (nb::inst_ready(self))
    nb::inst_ptr<Executable>(self)->clearHostCall();
  return 0;
}

PyType_Slot collectorSlots[] = {
    {Py_tp_traverse, reinterpret_cast<void *>(visitHostCall)},
    {Py_tp_clear, reinterpret_cast<void *>(clearHostCall)},
    {0, nullptr}};
} // namespace

void scalify::rt::py::bindExecutable(nb::module_ &module) {
  nb::class_<Executable>(module, "Executable",
                         "A compiled step, loaded from an artefact's bytes or "
                         "path.",
                         nb::type_slots(collectorSlots))
      .def(nb::init<nb::object, int, std::string, const Communicator *>(),
           nb::arg("source"), nb::arg("threads") = 0, nb::arg("device") = "cpu",
           nb::arg("comm") = nb::none())
      .def("run", &Executable::run, nb::arg("inputs"),
           nb::arg("function") = "step", nb::arg("in_place") = false,
           "Runs one function. Returns donated results, and on a GPU all "
           "results, as Array; others as NumPy arrays.")
      .def("try_step", &Executable::tryStep, nb::arg("inputs"),
           "Runs as much of the step as moves scales. Returns the results that "
           "it wrote in copies of donated arguments; None for others.")
      .def("xla_call", &Executable::xlaCall, nb::arg("operands"),
           nb::arg("results"), nb::arg("id") = 0, nb::keep_alive<0, 1>(),
           "Returns the step as a custom call of an XLA program, by the "
           "argument of each operand and the step's result of each result.")
      .def("health", &Executable::health,
           "Returns the counts of each cast in the last run.")
      .def("counters", &Executable::counters,
           "Returns the same counts as an array, with a row (saturated, "
           "flushed, zeros, nans, top, scales) per cast.")
      .def("set_counters", &Executable::setCounters, nb::arg("words"),
           "Replaces the counts by such an array until the next run.")
      .def("initial", &Executable::initial, nb::arg("index"),
           "Returns the initial value of an argument of the step.")
      .def("put", &Executable::put, nb::arg("object"),
           nb::arg("dtype") = nb::none(),
           "Copies any array-like into an Array that steps use in place.")
      .def("set_host_call", &Executable::setHostCall,
           nb::arg("function").none(),
           "Sets the callback of host_call commands: function(index, address "
           "of the addresses of its buffers) -> True, or the step fails. None "
           "removes it.")
      .def("profile", &Executable::profile,
           "Returns the calls and time of each command since profiling was "
           "enabled.")
      .def("set_profiling", &Executable::setProfiling, nb::arg("on"))
      .def_prop_ro("trace", &Executable::trace,
                   "The null device's record, one line per command or call.")
      .def_prop_ro("manifest", &Executable::manifest)
      .def_prop_ro("functions", &Executable::functions)
      .def_prop_ro("args", &Executable::args)
      .def_prop_ro("results", &Executable::outs)
      .def_prop_rw("threads", &Executable::threads, &Executable::setThreads);
}
