// The custom call's handler, which XLA receives as a capsule, and its runs.
#include "XlaCall.h"

#include <atomic>
#include <cstring>
#include <unordered_map>
#include <xla/ffi/api/c_api.h>

using namespace scalify::rt;
using namespace scalify::rt::py;

namespace {
/// The live calls by id: XLA keeps programs longer than Python keeps
/// executables.
struct Calls {
  std::mutex mutex;
  std::unordered_map<int64_t, XlaCall *> byNumber;
  int64_t next = 1;
};

Calls &calls() {
  static Calls all;
  return all;
}

/// Takes this thread's pending exception, and clears it.
nb::object takeException() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value && trace)
    PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return nb::steal(value);
}
} // namespace

XlaCall::XlaCall(std::shared_ptr<Loaded> loaded, const Signature &signature,
                 std::vector<int32_t> operands, std::vector<int32_t> results,
                 int64_t id)
    : loaded(std::move(loaded)), signature(signature),
      operandOrder(std::move(operands)), resultOrder(std::move(results)) {
  if (operandOrder.size() > signature.arguments.size() ||
      resultOrder.size() > signature.results.size())
    throw nb::value_error(
        "the call has more operands or results than the step");
  std::lock_guard<std::mutex> lock(calls().mutex);
  number = id ? id : calls().next++;
  if (!calls().byNumber.emplace(number, this).second)
    throw nb::value_error("another call has this id");
}

XlaCall::~XlaCall() {
  std::lock_guard<std::mutex> lock(calls().mutex);
  calls().byNumber.erase(number);
}

/// Waits without the interpreter's lock, since a run that checks for signals
/// needs it.
std::unique_lock<std::mutex> XlaCall::waitForRun() {
  nb::gil_scoped_release release;
  return std::unique_lock<std::mutex>(inRun);
}

void XlaCall::prepare(const nb::sequence &arguments) {
  std::unique_lock<std::mutex> lock = waitForRun();
  const size_t own = operandOrder.size();
  if (own + nb::len(arguments) != signature.arguments.size())
    throw nb::value_error("wrong number of arguments that the call lacks");
  added.reset();
  addedSlots.clear();
  raised.reset();
  status = SCALIFY_RT_OK;
  hasRun = false;
  added.emplace(*loaded, signature.arguments, arguments, own);
  in.assign(signature.arguments.size(), nullptr);
  out.assign(signature.results.size(), nullptr);
  for (size_t i = own; i < in.size(); ++i)
    in[i] = added->pointers[i];
  for (size_t i = resultOrder.size(); i < out.size(); ++i) {
    const Parameter &result = signature.results[i];
    addedSlots.push_back(result.alias < 0
                             ? loaded->take(result.type.bytes, true)
                             : added->donated[result.alias]);
    out[i] = result.alias < 0 ? addedSlots.back()->data() : nullptr;
  }
}

/// Places operands and results in the step's order. A result that aliases a
/// donated argument is in place already, unless XLA had to copy.
scalify_rt_status XlaCall::place(void *const *operands, void *const *results) {
  for (size_t k = 0; k < operandOrder.size(); ++k)
    in[operandOrder[k]] = operands[k];
  for (size_t k = 0; k < resultOrder.size(); ++k) {
    const int32_t index = resultOrder[k];
    const Parameter &result = signature.results[index];
    if (result.alias < 0) {
      out[index] = results[k];
      continue;
    }
    if (in[result.alias] == results[k])
      continue;
    if (scalify_rt_status failed =
            scalify_rt_memory_copy(loaded->get(), results[k], in[result.alias],
                                   uint64_t(result.type.bytes)))
      return failed;
    in[result.alias] = results[k];
    copiedBytes += result.type.bytes;
  }
  return SCALIFY_RT_OK;
}

bool XlaCall::run(void *const *operands, size_t numOperands,
                  void *const *results, size_t numResults) {
  std::lock_guard<std::mutex> lock(inRun);
  failureText.clear();
  if (!added || hasRun || numOperands != operandOrder.size() ||
      numResults != resultOrder.size()) {
    failureText = "a step runs once for each call of its executable";
    return false;
  }
  hasRun = true;
  // A GPU's step runs on a stream of its own: XLA's work that writes operands,
  // or still reads the memory of results, must be done.
  status = isOnDevice() ? scalify_rt_synchronize(loaded->get()) : SCALIFY_RT_OK;
  if (status == SCALIFY_RT_OK)
    status = place(operands, results);
  if (status == SCALIFY_RT_OK)
    status =
        scalify_rt_run(loaded->get(), "step", in.data(), int32_t(in.size()),
                       out.data(), int32_t(out.size()));
  if (status == SCALIFY_RT_OK)
    return true;
  // The error is this thread's, but `finish` may run on another thread.
  failureText = scalify_rt_last_error();
  if (status == SCALIFY_RT_INTERRUPTED) {
    nb::gil_scoped_acquire lock;
    raised = takeException();
  }
  return false;
}

void XlaCall::setHooks(nb::object first, nb::object last, bool takes) {
  before = std::move(first);
  after = std::move(last);
  takesOperands = takes;
}

nb::list XlaCall::operandArrays(void *const *operands) const {
  nb::list arrays;
  for (size_t k = 0; takesOperands && k < operandOrder.size(); ++k)
    arrays.append(numpyArray(foreignSlot(operands[k], nb::none()),
                             signature.arguments[operandOrder[k]].type));
  return arrays;
}

bool XlaCall::runWithHooks(void *const *operands, size_t numOperands,
                           void *const *results, size_t numResults) {
  if (!before)
    return run(operands, numOperands, results, numResults);
  std::lock_guard<std::mutex> lock(inHooks);
  // The interpreter's errors become XLA's, which JAX raises.
  auto hooked = [&](auto call) {
    nb::gil_scoped_acquire locked;
    try {
      call();
      return true;
    } catch (const std::exception &error) {
      failureText = error.what();
      return false;
    }
  };
  if (numOperands == operandOrder.size() &&
      !hooked([&] { before(operandArrays(operands)); }))
    return false;
  const bool isDone = run(operands, numOperands, results, numResults);
  const std::string failed = failureText;
  const bool isFinished = hooked([&] { after(); });
  if (!isDone)
    failureText = failed;
  return isDone && isFinished;
}

nb::object XlaCall::finish() {
  std::unique_lock<std::mutex> lock = waitForRun();
  if (!hasRun) {
    added.reset();
    return nb::none();
  }
  if (status == SCALIFY_RT_OK || status == SCALIFY_RT_INTERRUPTED)
    added->consume();
  added.reset();
  if (raised) {
    nb::object error = std::move(raised);
    PyErr_SetObject(error.type().ptr(), error.ptr());
    throw nb::python_error();
  }
  if (status != SCALIFY_RT_OK)
    throwStatus(status, failureText.c_str());
  nb::list found;
  for (size_t i = 0; i < addedSlots.size(); ++i) {
    const Parameter &result = signature.results[resultOrder.size() + i];
    if (result.alias >= 0 || isOnDevice())
      found.append(nb::cast(Array(addedSlots[i], result.type)));
    else
      found.append(numpyArray(addedSlots[i], result.type));
  }
  addedSlots.clear();
  return found;
}

namespace {
XLA_FFI_Error *errorOf(const XLA_FFI_CallFrame *frame, const char *text) {
  XLA_FFI_Error_Create_Args args = {};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = text;
  args.errc = XLA_FFI_Error_Code_INTERNAL;
  return frame->api->XLA_FFI_Error_Create(&args);
}

/// Returns the call's attribute `id`; 0 without one.
int64_t numberOf(const XLA_FFI_Attrs &attrs) {
  for (int64_t i = 0; i < attrs.size; ++i) {
    const XLA_FFI_ByteSpan &name = *attrs.names[i];
    if (attrs.types[i] != XLA_FFI_AttrType_SCALAR || name.len != 2 ||
        std::memcmp(name.ptr, "id", 2) != 0)
      continue;
    auto *scalar = static_cast<XLA_FFI_Scalar *>(attrs.attrs[i]);
    if (scalar->dtype == XLA_FFI_DataType_S64)
      return *static_cast<int64_t *>(scalar->value);
  }
  return 0;
}

void *dataOf(void *buffer) {
  // A kernel may read the address of an empty array.
  alignas(64) static char nothing[64];
  void *data = static_cast<XLA_FFI_Buffer *>(buffer)->data;
  return data ? data : nothing;
}

/// The FFI version of the process's XLA.
std::atomic<int> versionMajor = XLA_FFI_API_MAJOR;
std::atomic<int> versionMinor = XLA_FFI_API_MINOR;

/// Reports the caller's FFI version as this handler's: it uses only the first
/// fields of the FFI's structures, which all versions have.
bool describe(XLA_FFI_CallFrame *frame) {
  for (auto *extension = frame->extension_start; extension;
       extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata)
      continue;
    XLA_FFI_Metadata *metadata =
        reinterpret_cast<XLA_FFI_Metadata_Extension *>(extension)->metadata;
    metadata->api_version.major_version = versionMajor;
    metadata->api_version.minor_version = versionMinor;
    return true;
  }
  return false;
}

/// The handler of XLA for a CPU, or for CUDA.
template <bool isForGpu> XLA_FFI_Error *runStep(XLA_FFI_CallFrame *frame) {
  if (describe(frame))
    return nullptr;
  XlaCall *call = nullptr;
  {
    std::lock_guard<std::mutex> lock(calls().mutex);
    auto found = calls().byNumber.find(numberOf(frame->attrs));
    if (found != calls().byNumber.end())
      call = found->second;
  }
  if (!call)
    return errorOf(frame, "the step's executable is gone");
  if (call->isOnDevice() != isForGpu)
    return errorOf(frame, isForGpu
                              ? "XLA runs on a GPU, and the step on a CPU"
                              : "XLA runs on a CPU, and the step on a GPU");
  std::vector<void *> operands(size_t(frame->args.size));
  for (size_t i = 0; i < operands.size(); ++i)
    operands[i] = dataOf(frame->args.args[i]);
  std::vector<void *> results(size_t(frame->rets.size));
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = dataOf(frame->rets.rets[i]);
  if (call->runWithHooks(operands.data(), operands.size(), results.data(),
                         results.size()))
    return nullptr;
  return errorOf(frame, call->failure().c_str());
}
} // namespace

void scalify::rt::py::bindXlaCall(nb::module_ &module) {
  nb::class_<XlaCall>(module, "XlaCall",
                      "A step as XLA's custom call of the same number.")
      .def_prop_ro("id", &XlaCall::id, "The call's attribute 'id'.")
      .def_prop_ro("copied", &XlaCall::copied,
                   "Bytes copied because XLA gave a result other memory than "
                   "its donated argument's.")
      .def("prepare", &XlaCall::prepare, nb::arg("arguments"),
           "Sets the step's last arguments, which the call lacks.")
      .def("set_hooks", &XlaCall::setHooks, nb::arg("before"), nb::arg("after"),
           nb::arg("takes_operands"),
           "Sets what prepares and finishes each run, so that XLA may run the "
           "step any number of times.")
      .def("finish", &XlaCall::finish,
           "Returns the step's last results, which the call lacks; None "
           "without a run.");
  module.def(
      "xla_handler",
      [](int major, int minor, bool isForGpu) {
        versionMajor = major;
        versionMinor = minor;
        auto *handler = isForGpu ? &runStep<true> : &runStep<false>;
        return nb::capsule(reinterpret_cast<void *>(handler),
                           "xla._CUSTOM_CALL_TARGET");
      },
      nb::arg("major"), nb::arg("minor"), nb::arg("is_for_gpu") = false,
      "Returns the custom call's handler for jax.ffi.register_ffi_target, by "
      "jaxlib's FFI version.");
}
