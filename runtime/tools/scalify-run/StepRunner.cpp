#include "StepRunner.h"
#include "support/FloatFormats.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>

using namespace scalify::rt;

void scalify::rt::check(scalify_rt_status status) {
  if (status != SCALIFY_RT_OK)
    throw std::runtime_error(scalify_rt_last_error());
}

namespace {
/// Prefix of arguments that the compiler adds: state with initial values from
/// the artefact, which the tool keeps with the user's.
constexpr const char *keptPrefix = "scalify.";
/// The scales of casts, unless they are constants.
constexpr const char *scalesName = "scalify.scales";
/// Results that count the elements which a check of a test program rejects.
constexpr const char *checkPrefix = "check.";
/// Amaxes of arguments, which the function "measure" computes.
constexpr const char *amaxName = "scalify.argument_amax";

Memory allocate(int64_t bytes) {
  // Whole cache lines, and at least one: an empty tensor has an address too.
  void *memory =
      std::aligned_alloc(64, (static_cast<size_t>(bytes) + 64) / 64 * 64);
  if (!memory)
    throw std::bad_alloc();
  return Memory(memory);
}

TensorType typeOf(const scalify_rt_tensor &tensor) {
  return *makeTensorType(
      *parseDType(tensor.dtype),
      std::vector<int64_t>(tensor.shape, tensor.shape + tensor.rank));
}

/// True if `file` holds one `arg` per step along its first dimension.
bool isStack(const TensorType &file, const TensorType &arg) {
  return file.dtype == arg.dtype && file.shape.size() == arg.shape.size() + 1 &&
         file.shape[0] > 0 &&
         std::equal(arg.shape.begin(), arg.shape.end(), file.shape.begin() + 1);
}

std::string scalarText(const TensorType &type, const void *data) {
  char text[40];
  if (isNarrowFloat(type.dtype)) {
    float value;
    convertToF32(type.dtype, data, &value, 1);
    std::snprintf(text, sizeof(text), "%.7g", double(value));
  } else if (type.dtype == DType::F64) {
    std::snprintf(text, sizeof(text), "%.15g",
                  *static_cast<const double *>(data));
  } else if (type.dtype == DType::C64 || type.dtype == DType::C128) {
    double parts[2];
    for (int i : {0, 1})
      parts[i] = type.dtype == DType::C128
                     ? static_cast<const double *>(data)[i]
                     : double(static_cast<const float *>(data)[i]);
    std::snprintf(text, sizeof(text), "%.7g%+.7gi", parts[0], parts[1]);
  } else {
    // Integers are little endian; the last byte has the sign.
    int64_t value = 0;
    std::memcpy(&value, data, static_cast<size_t>(type.bytes));
    int spare = static_cast<int>(64 - 8 * type.bytes);
    bool isSigned = type.dtype >= DType::I8 && type.dtype <= DType::I64;
    if (isSigned)
      value =
          static_cast<int64_t>(static_cast<uint64_t>(value) << spare) >> spare;
    std::snprintf(text, sizeof(text), "%lld", static_cast<long long>(value));
  }
  return text;
}
} // namespace

StepRunner::Slot StepRunner::describe(const scalify_rt_tensor &tensor) {
  Slot slot;
  slot.name = tensor.name;
  slot.type = typeOf(tensor);
  slot.alias = tensor.alias;
  return slot;
}

StepRunner::StepRunner(const Options &chosen) : options(chosen) {
  scalify_rt_options load = {};
  load.threads = options.threads;
  load.device = options.device;
  scalify_rt_executable *raw = nullptr;
  check(scalify_rt_load_file(options.artefact.c_str(), &load, &raw));
  executable.reset(raw);
  scalify_rt_tensor tensor;
  for (int32_t i = 0; i < scalify_rt_num_args(raw); ++i) {
    check(scalify_rt_arg(raw, i, &tensor));
    args.push_back(describe(tensor));
    args.back().isOwn = args.back().name.rfind(keptPrefix, 0) == 0;
  }
  for (int32_t i = 0; i < scalify_rt_num_results(raw); ++i) {
    check(scalify_rt_result(raw, i, &tensor));
    results.push_back(describe(tensor));
    if (results.back().alias < 0) {
      results.back().memory = allocate(results.back().type.bytes);
      place(results.back());
    }
  }
  requireInterface();
}

void StepRunner::requireInterface() const {
  const char *function = options.function.c_str();
  scalify_rt_tensor tensor;
  auto isAlike = [&](const std::vector<Slot> &slots, int32_t count,
                     auto describeSlot) {
    bool isSame = size_t(count) == slots.size();
    for (int32_t i = 0; isSame && i < count; ++i) {
      check(describeSlot(executable.get(), function, i, &tensor));
      isSame = slots[size_t(i)].type == typeOf(tensor);
    }
    return isSame;
  };
  int32_t numArgs = scalify_rt_function_num_args(executable.get(), function);
  int32_t numResults =
      scalify_rt_function_num_results(executable.get(), function);
  if (numArgs < 0) // the run says so
    return;
  if (!isAlike(args, numArgs, scalify_rt_function_arg) ||
      !isAlike(results, numResults, scalify_rt_function_result))
    throw std::runtime_error(
        "the artefact's function '" + options.function +
        "' has not the arguments and results of the step, which this tool "
        "passes; choose another with --function");
}

void StepRunner::place(Slot &slot) {
  if (options.device == SCALIFY_RT_DEVICE_CPU)
    return;
  check(scalify_rt_memory_alloc(executable.get(),
                                static_cast<uint64_t>(slot.type.bytes),
                                &slot.onDevice));
}

void StepRunner::upload(const Slot &slot) const {
  if (slot.onDevice)
    check(scalify_rt_memory_copy_in(executable.get(), slot.onDevice,
                                    slot.memory.get(),
                                    static_cast<uint64_t>(slot.type.bytes)));
}

void StepRunner::download(const Slot &slot) const {
  if (slot.onDevice)
    check(scalify_rt_memory_copy_out(executable.get(), slot.memory.get(),
                                     slot.onDevice,
                                     static_cast<uint64_t>(slot.type.bytes)));
}

void StepRunner::bindArgument(Slot &arg, size_t index) {
  std::string position = "arg" + std::to_string(index);
  const FileTensor *tensor = file ? file->find(arg.name) : nullptr;
  if (file && !tensor)
    tensor = file->find(position);
  if (arg.isOwn && !tensor) {
    arg.memory = allocate(arg.type.bytes);
    check(scalify_rt_initial(executable.get(), static_cast<int32_t>(index),
                             arg.memory.get()));
    return;
  }
  if (!tensor)
    throw std::runtime_error(
        "argument '" + arg.name + "' (" + toString(arg.type) +
        ") is missing in '" + options.input +
        "'; store it under that name or as '" + position + "'");
  if (arg.alias < 0 && isStack(tensor->type, arg.type)) {
    arg.slices = tensor->data;
    arg.numSlices = tensor->type.shape[0];
  } else if (!(tensor->type == arg.type)) {
    throw std::runtime_error("argument '" + arg.name + "' takes " +
                             toString(arg.type) + ", the tensor in '" +
                             options.input + "' is " + toString(tensor->type));
  }
  arg.memory = allocate(arg.type.bytes);
  std::memcpy(arg.memory.get(), tensor->data,
              static_cast<size_t>(arg.type.bytes));
}

void StepRunner::bind() {
  auto isOwn = [](const Slot &arg) { return arg.isOwn; };
  bool needsFile = !std::all_of(args.begin(), args.end(), isOwn);
  if (needsFile && options.input.empty())
    throw std::runtime_error("the step takes " + std::to_string(args.size()) +
                             " arguments; give a safetensors file with --in");
  if (!options.input.empty())
    file = std::make_unique<SafetensorsFile>(options.input);
  for (size_t i = 0; i < args.size(); ++i) {
    bindArgument(args[i], i);
    place(args[i]);
    upload(args[i]);
  }
  measure();
}

/// The artefact's other functions work in the memory of the step's arguments,
/// so their types must be the same.
StepRunner::Slot &StepRunner::requireArgument(const char *function,
                                              const scalify_rt_tensor &tensor,
                                              const std::string &name) {
  const TensorType type = typeOf(tensor);
  for (Slot &arg : args)
    if (arg.name == name && arg.type == type)
      return arg;
  throw std::runtime_error("the artefact's function '" + std::string(function) +
                           "' works on '" + name + "' of type " +
                           toString(type) +
                           ", and the step has no such argument");
}

/// From here on each step takes the results of the last one.
void StepRunner::measure() {
  const char *function = "measure";
  int32_t count = scalify_rt_function_num_args(executable.get(), function);
  if (count < 0)
    return;
  std::vector<void *> in;
  scalify_rt_tensor tensor;
  for (int32_t i = 0; i < count; ++i) {
    check(scalify_rt_function_arg(executable.get(), function, i, &tensor));
    in.push_back(passed(requireArgument(function, tensor, tensor.name)));
  }
  check(scalify_rt_function_result(executable.get(), function, 0, &tensor));
  void *out[] = {passed(requireArgument(function, tensor, amaxName))};
  check(scalify_rt_run(executable.get(), function, in.data(), count, out, 1));
}

StepRunner::Slot &StepRunner::requireScales() {
  const char *function = "rescale";
  if (std::none_of(args.begin(), args.end(),
                   [](const Slot &arg) { return arg.name == scalesName; }))
    throw std::runtime_error("the artefact's scales are constants: compile it "
                             "with --adapt-scales");
  scalify_rt_tensor tensor;
  check(scalify_rt_function_arg(executable.get(), function, 1, &tensor));
  auto counted = uint64_t(scalify_rt_num_counters(executable.get())) *
                 SCALIFY_RT_COUNTER_WORDS * sizeof(uint64_t);
  if (tensor.bytes > counted)
    throw std::runtime_error("the artefact's function 'rescale' takes " +
                             std::to_string(tensor.bytes) +
                             " bytes of counts, and those of the step have " +
                             std::to_string(counted));
  check(scalify_rt_function_arg(executable.get(), function, 0, &tensor));
  Slot &scales = requireArgument(function, tensor, scalesName);
  if (scales.type.dtype != DType::F32)
    throw std::runtime_error("the artefact's scales are of type " +
                             toString(scales.type) + ", not f32");
  return scales;
}

int64_t StepRunner::rescale() {
  Slot &arg = requireScales();
  download(arg);
  const auto *scales = static_cast<const float *>(arg.memory.get());
  std::vector<float> before(scales, scales + arg.type.elements);
  void *in[] = {passed(arg),
                const_cast<uint64_t *>(scalify_rt_counters(executable.get()))};
  void *out[] = {nullptr};
  check(scalify_rt_run(executable.get(), "rescale", in, 2, out, 1));
  download(arg);
  int64_t moved = 0;
  for (size_t i = 0; i < before.size(); ++i)
    moved += before[i] != scales[i];
  return moved;
}

double StepRunner::run(int64_t step) {
  std::vector<void *> in, out;
  for (Slot &arg : args) {
    if (arg.slices) {
      std::memcpy(arg.memory.get(),
                  arg.slices + step % arg.numSlices * arg.type.bytes,
                  static_cast<size_t>(arg.type.bytes));
      upload(arg);
    }
    in.push_back(passed(arg));
  }
  for (Slot &result : results)
    out.push_back(passed(result));
  auto start = std::chrono::steady_clock::now();
  check(scalify_rt_run(executable.get(), options.function.c_str(), in.data(),
                       static_cast<int32_t>(in.size()), out.data(),
                       static_cast<int32_t>(out.size())));
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  return seconds.count();
}

const void *StepRunner::resultData(size_t index) const {
  const Slot &result = results[index];
  const Slot &slot = result.alias >= 0 ? args[size_t(result.alias)] : result;
  download(slot);
  return slot.memory.get();
}

std::string StepRunner::scalars() const {
  std::string text;
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].type.shape.empty() && results[i].alias < 0 && !isCheck(i))
      text += "  " + results[i].name + " " +
              scalarText(results[i].type, resultData(i));
  return text;
}

bool StepRunner::isCheck(size_t index) const {
  const Slot &result = results[index];
  return result.name.rfind(checkPrefix, 0) == 0 && result.alias < 0 &&
         result.type == *makeTensorType(DType::I32, {});
}

StepRunner::Checks StepRunner::checks() const {
  Checks checks;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!isCheck(i))
      continue;
    ++checks.count;
    auto failures = *static_cast<const int32_t *>(resultData(i));
    if (failures == 0)
      continue;
    ++checks.failed;
    checks.text += results[i].name + ": " + std::to_string(failures) +
                   " elements are not as expected\n";
  }
  return checks;
}

void StepRunner::write(const std::string &path) const {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < results.size(); ++i) {
    const Slot &result = results[i];
    const std::string &name =
        result.alias >= 0 ? args[size_t(result.alias)].name : result.name;
    if (name != amaxName)
      tensors.push_back({name, result.type, resultData(i)});
  }
  for (const Slot &arg : args)
    if (arg.isOwn && arg.alias < 0)
      tensors.push_back({arg.name, arg.type, arg.memory.get()});
  writeSafetensors(path, std::move(tensors));
}
