// _runtime.Executable: an artefact that runs on Python's arrays.
#include "Array.h"
#include "scalify/runtime.h"

#include <cstring>
#include <map>
#include <nanobind/stl/string.h>
#include <stdexcept>

using namespace scalify::rt;
using namespace scalify::rt::py;

namespace {
/// Raises the exception that fits the status.
void check(scalify_rt_status status) {
  if (status == SCALIFY_RT_OK)
    return;
  const char *text = scalify_rt_last_error();
  switch (status) {
  case SCALIFY_RT_BAD_ARGUMENT:
    throw nb::value_error(text);
  case SCALIFY_RT_IO:
    PyErr_SetString(PyExc_OSError, text);
    throw nb::python_error();
  case SCALIFY_RT_INTERRUPTED:
    throw nb::python_error(); // the signal handler's own exception
  default:
    throw std::runtime_error(text);
  }
}

/// Lets Ctrl-C through while a step runs without the interpreter's lock.
int checkSignals(void *) {
  nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals();
}

TensorType typeOf(const scalify_rt_tensor &tensor) {
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
  return *makeTensorType(*parseDType(tensor.dtype), std::move(shape));
}

struct Parameter {
  std::string name;
  std::string role;
  TensorType type;
  int32_t alias;
  Parameter(const scalify_rt_tensor &tensor)
      : name(tensor.name), role(tensor.role), type(typeOf(tensor)),
        alias(tensor.alias) {}
};

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

/// What a function takes and gives.
struct Signature {
  std::vector<Parameter> arguments, results;
};

/// One call's arguments: what is read, what is consumed, who keeps it alive.
struct Call {
  std::vector<void *> in, out;
  std::vector<SlotRef> donated; // per argument; null where not donated
  std::vector<SlotRef> fresh;   // per result; null where donated
  std::vector<Array *> consumed;
  std::vector<nb::object> alive;
};

class Executable {
public:
  Executable(const nb::object &source, int threads, const std::string &device);
  ~Executable() { scalify_rt_free(handle); }
  Executable(const Executable &) = delete;
  Executable &operator=(const Executable &) = delete;

  nb::tuple run(const nb::sequence &inputs, const std::string &function);
  nb::list health() const;
  nb::object counters() const;
  nb::object initial(int index) const;
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

private:
  const Signature &signature(const std::string &function) const;
  void readSignature(const char *function);

  scalify_rt_executable *handle = nullptr;
  std::map<std::string, Signature> signatures;
};

void bindInput(Call &call, const Parameter &parameter, size_t index,
               nb::handle input);
nb::tuple collect(const Call &call, const std::vector<Parameter> &results);

scalify_rt_device deviceOf(const std::string &name) {
  if (name == "cpu")
    return SCALIFY_RT_DEVICE_CPU;
  if (name == "cuda")
    return SCALIFY_RT_DEVICE_CUDA;
  if (name == "null")
    return SCALIFY_RT_DEVICE_NULL;
  throw nb::value_error(
      ("device must be 'cpu', 'cuda' or 'null', not '" + name + "'").c_str());
}

Executable::Executable(const nb::object &source, int threads,
                       const std::string &device) {
  scalify_rt_options options = {};
  options.threads = threads;
  options.device = deviceOf(device);
  if (nb::isinstance<nb::bytes>(source)) {
    nb::bytes data = nb::cast<nb::bytes>(source);
    check(scalify_rt_load_memory(data.c_str(), data.size(), &options, &handle));
  } else {
    nb::object path = nb::module_::import_("os").attr("fspath")(source);
    check(scalify_rt_load_file(nb::cast<std::string>(path).c_str(), &options,
                               &handle));
  }
  for (int32_t i = 0; i < scalify_rt_num_functions(handle); ++i)
    readSignature(scalify_rt_function_name(handle, i));
  check(scalify_rt_set_poll(handle, checkSignals, nullptr));
}

void Executable::readSignature(const char *function) {
  Signature &read = signatures[function];
  scalify_rt_tensor tensor;
  int32_t numArgs = scalify_rt_function_num_args(handle, function);
  for (int32_t i = 0; i < numArgs; ++i) {
    check(scalify_rt_function_arg(handle, function, i, &tensor));
    read.arguments.emplace_back(tensor);
  }
  int32_t numResults = scalify_rt_function_num_results(handle, function);
  for (int32_t i = 0; i < numResults; ++i) {
    check(scalify_rt_function_result(handle, function, i, &tensor));
    read.results.emplace_back(tensor);
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

void bindInput(Call &call, const Parameter &parameter, size_t index,
               nb::handle input) {
  const bool donate = parameter.alias >= 0;
  Array *array = nullptr;
  HostView view;
  if (nb::try_cast(input, array) && array) {
    view = {array->live()->data(), array->type(), nb::borrow(input)};
  } else {
    view = hostView(input, parameter.type);
  }
  if (!(view.type == parameter.type))
    throw nb::value_error(("argument '" + parameter.name + "' takes " +
                           toString(parameter.type) + ", not " +
                           toString(view.type))
                              .c_str());
  if (donate && array && !array->shared()) {
    call.donated[index] = array->live();
    call.in[index] = array->live()->data();
  } else if (donate) {
    // Foreign memory, or memory that someone still looks at: one copy.
    call.donated[index] = std::make_shared<Slot>(parameter.type.bytes);
    call.in[index] = call.donated[index]->data();
    std::memcpy(call.in[index], view.data,
                static_cast<size_t>(parameter.type.bytes));
  } else {
    call.in[index] = const_cast<void *>(view.data);
  }
  if (donate && array)
    call.consumed.push_back(array);
  call.alive.push_back(view.owner);
}

nb::tuple Executable::run(const nb::sequence &inputs,
                          const std::string &function) {
  const auto &[arguments, results] = signature(function);
  if (nb::len(inputs) != arguments.size())
    throw nb::value_error(("the " + function + " takes " +
                           std::to_string(arguments.size()) +
                           " arguments, not " + std::to_string(nb::len(inputs)))
                              .c_str());
  Call call;
  call.in.resize(arguments.size());
  call.donated.resize(arguments.size());
  call.out.resize(results.size());
  call.fresh.resize(results.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    bindInput(call, arguments[i], i, inputs[i]);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].alias < 0) {
      call.fresh[i] = std::make_shared<Slot>(results[i].type.bytes);
      call.out[i] = call.fresh[i]->data();
    }
  scalify_rt_status status;
  {
    nb::gil_scoped_release unlock;
    status = scalify_rt_run(handle, function.c_str(), call.in.data(),
                            int32_t(call.in.size()), call.out.data(),
                            int32_t(call.out.size()));
  }
  // An interrupted step has left donated memory half written.
  if (status == SCALIFY_RT_OK || status == SCALIFY_RT_INTERRUPTED)
    for (Array *array : call.consumed)
      array->consume();
  check(status);
  return collect(call, results);
}

nb::tuple collect(const Call &call, const std::vector<Parameter> &results) {
  nb::list out;
  for (size_t i = 0; i < results.size(); ++i) {
    const Parameter &result = results[i];
    if (result.alias >= 0)
      out.append(nb::cast(Array(call.donated[result.alias], result.type)));
    else
      out.append(numpyArray(call.fresh[i], result.type));
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
    out.append(entry);
  }
  return out;
}

nb::object Executable::counters() const {
  int64_t rows = scalify_rt_num_counters(handle);
  TensorType type =
      *makeTensorType(DType::U64, {rows, SCALIFY_RT_COUNTER_WORDS});
  auto slot = std::make_shared<Slot>(type.bytes);
  if (type.bytes)
    std::memcpy(slot->data(), scalify_rt_counters(handle),
                static_cast<size_t>(type.bytes));
  return numpyArray(slot, type);
}

nb::object Executable::initial(int index) const {
  scalify_rt_tensor tensor;
  check(scalify_rt_arg(handle, index, &tensor));
  auto slot = std::make_shared<Slot>(static_cast<int64_t>(tensor.bytes));
  check(scalify_rt_initial(handle, index, slot->data()));
  return numpyArray(slot, typeOf(tensor));
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
} // namespace

void scalify::rt::py::bindExecutable(nb::module_ &module) {
  nb::class_<Executable>(module, "Executable",
                         "A compiled step, loaded from an artefact's bytes or "
                         "path.")
      .def(nb::init<nb::object, int, std::string>(), nb::arg("source"),
           nb::arg("threads") = 0, nb::arg("device") = "cpu")
      .def("run", &Executable::run, nb::arg("inputs"),
           nb::arg("function") = "step",
           "Runs one function. Donated results come back as Array, others as "
           "NumPy arrays.")
      .def("health", &Executable::health,
           "Counts of each cast in the last run.")
      .def("counters", &Executable::counters,
           "The same counts as an array, a row (saturated, flushed, zeros, "
           "nans) each.")
      .def("initial", &Executable::initial, nb::arg("index"),
           "What an argument of the step starts from.")
      .def("profile", &Executable::profile,
           "Calls and time of each command since profiling was set.")
      .def("set_profiling", &Executable::setProfiling, nb::arg("on"))
      .def_prop_ro("trace", &Executable::trace,
                   "What the null device was asked to do, a line each.")
      .def_prop_ro("manifest", &Executable::manifest)
      .def_prop_ro("functions", &Executable::functions)
      .def_prop_ro("args", &Executable::args)
      .def_prop_ro("results", &Executable::outs)
      .def_prop_rw("threads", &Executable::threads, &Executable::setThreads);
}
