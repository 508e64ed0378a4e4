//===- Options.cpp - Options of a compilation from JSON -------------------===//

#include "scalify/Pipeline/Compiler.h"

#include "ArgumentEntries.h"
#include "ArgumentRanges.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Pipeline/Nesting.h"

#include "llvm/Support/JSON.h"

using namespace scalify;

/// Reads the moments of an entry; none if they are malformed.
static std::optional<ArgumentMoments>
readMoments(const llvm::json::Object &entry) {
  std::optional<double> mean = entry.getNumber("mean");
  std::optional<double> deviation = entry.getNumber("deviation");
  if (!mean || !deviation || !(*deviation >= 0))
    return std::nullopt;
  return ArgumentMoments{*mean, *deviation};
}

static llvm::Error addScale(std::vector<ArgumentScale> &scales,
                            llvm::StringRef argument,
                            const llvm::json::Value &value) {
  if (value.kind() == llvm::json::Value::Null)
    return llvm::Error::success();
  std::optional<int64_t> exponent = value.getAsInteger();
  std::optional<ArgumentMoments> moments;
  if (const llvm::json::Object *entry = value.getAsObject()) {
    exponent = entry->getInteger("exponent");
    moments = readMoments(*entry);
    if (!moments)
      return llvm::createStringError(
          "the scale of argument '" + argument +
          "' needs a 'mean' and a 'deviation' beside its "
          "'exponent', or an integer alone");
  }
  // Scales and their inverses stay normal f32 numbers.
  if (!exponent || ((*exponent < -120 || *exponent > 120) &&
                    *exponent != scalify::kZeroScale))
    return llvm::createStringError(
        "the scale of argument '" + argument +
        "' must be an integer from -120 to 120 (log2 of the "
        "scale), -127 for an array of zeros, or null");
  scales.push_back({argument.str(), static_cast<int32_t>(*exponent), moments});
  return llvm::Error::success();
}

/// Merges the two lists that `scalify.Scales.save` wrote, in main's order.
static llvm::json::Array joinMoments(const llvm::json::Array &exponents,
                                     const llvm::json::Array *moments) {
  llvm::json::Array list;
  for (auto [i, exponent] : llvm::enumerate(exponents)) {
    const llvm::json::Array *found =
        moments && i < moments->size() ? (*moments)[i].getAsArray() : nullptr;
    if (found && found->size() == 2)
      list.push_back(llvm::json::Object{{"exponent", exponent},
                                        {"mean", found->front()},
                                        {"deviation", found->back()}});
    else
      list.push_back(exponent);
  }
  return list;
}

llvm::Error scalify::addArgumentScales(CompileOptions &options,
                                       llvm::StringRef json) {
  llvm::Expected<llvm::json::Value> value = parseJSON(json);
  if (!value)
    return value.takeError();
  if (const llvm::json::Object *saved = value->getAsObject())
    if (const llvm::json::Array *exponents = saved->getArray("exponents")) {
      if (const llvm::json::Array *ranges = saved->getArray("ranges")) {
        llvm::Expected<std::vector<ArgumentRange>> given =
            readArgumentRanges(llvm::json::Array(*ranges));
        if (!given)
          return given.takeError();
        llvm::append_range(options.ranges, *given);
      }
      *value = joinMoments(*exponents, saved->getArray("moments"));
    }
  llvm::Expected<std::vector<ArgumentScale>> scales =
      readArgumentEntries(*value, "scales", addScale);
  if (!scales)
    return scales.takeError();
  llvm::append_range(options.scales, *scales);
  return llvm::Error::success();
}

static llvm::Error readStage(Stage &stage, llvm::StringRef key,
                             llvm::StringRef name) {
  std::optional<Stage> found = symbolizeStage(name);
  if (!found)
    return llvm::createStringError("unknown stage '" + name + "' in option '" +
                                   key + "': expected one of " +
                                   getStageNames());
  stage = *found;
  return llvm::Error::success();
}

namespace {
/// Reads the value of a plain option into its member, by the member's type.
struct PlainReader {
  PlainOptions &options;
  llvm::StringRef key;
  const llvm::json::Value &value;

  llvm::Error operator()(bool PlainOptions::*member) const {
    return read(member, value.getAsBoolean(), "true or false");
  }
  llvm::Error operator()(int64_t PlainOptions::*member) const {
    return read(member, value.getAsInteger(), "a number");
  }
  llvm::Error operator()(std::string PlainOptions::*member) const {
    return read(member, value.getAsString(), "a string");
  }
  llvm::Error operator()(std::vector<std::string> PlainOptions::*member) const {
    const llvm::json::Array *array = value.getAsArray();
    if (!array || !llvm::all_of(*array, [](const llvm::json::Value &entry) {
          return entry.getAsString().has_value();
        }))
      return llvm::createStringError("option '" + key +
                                     "' must be a list of strings");
    for (const llvm::json::Value &entry : *array)
      (options.*member).push_back(entry.getAsString()->str());
    return llvm::Error::success();
  }

private:
  template <typename T, typename U>
  llvm::Error read(T PlainOptions::*member, std::optional<U> given,
                   llvm::StringRef expected) const {
    if (!given)
      return llvm::createStringError("option '" + key + "' must be " +
                                     expected);
    options.*member = T(*given);
    return llvm::Error::success();
  }
};
} // namespace

using ReadCastFn = llvm::function_ref<llvm::Error(
    const llvm::json::Object &object, CastPlace place)>;

/// Reads a list of objects that each name a cast; `read` reads the rest.
static llvm::Error readCasts(llvm::StringRef key, llvm::StringRef needs,
                             const llvm::json::Value &value, ReadCastFn read) {
  const llvm::json::Array *array = value.getAsArray();
  if (!array)
    return llvm::createStringError("option '" + key + "' must be a list");
  for (const llvm::json::Value &entry : *array) {
    const llvm::json::Object *object = entry.getAsObject();
    if (!object)
      return llvm::createStringError("an entry of '" + key +
                                     "' must be an object");
    std::optional<llvm::StringRef> cast = object->getString("cast");
    std::optional<llvm::StringRef> names = object->getString("names");
    std::optional<int64_t> elements = object->getInteger("elements");
    if (!cast || !names || !elements)
      return llvm::createStringError(
          "an entry of '" + key + "' needs cast, names, elements and " + needs);
    if (llvm::Error error =
            read(*object, {cast->str(), *elements, names->str()}))
      return error;
  }
  return llvm::Error::success();
}

static llvm::Error readCastScales(std::vector<CastScale> &scales,
                                  const llvm::json::Value &value) {
  llvm::StringRef needs = "an exponent from -120 to 120";
  return readCasts(
      "castScales", needs, value,
      [&](const llvm::json::Object &object, CastPlace place) -> llvm::Error {
        std::optional<int64_t> exponent = object.getInteger("exponent");
        // Scales and their inverses stay normal f32 numbers.
        if (!exponent || *exponent < -120 || *exponent > 120)
          return llvm::createStringError("an entry of 'castScales' needs " +
                                         needs);
        scales.push_back({std::move(place), static_cast<int32_t>(*exponent)});
        return llvm::Error::success();
      });
}

static llvm::Error readWideCasts(std::vector<WideCast> &casts,
                                 const llvm::json::Value &value) {
  llvm::StringRef needs = "a reason";
  return readCasts(
      "wide", needs, value,
      [&](const llvm::json::Object &object, CastPlace place) -> llvm::Error {
        std::optional<llvm::StringRef> reason = object.getString("reason");
        if (!reason)
          return llvm::createStringError("an entry of 'wide' needs " + needs);
        casts.push_back({std::move(place), reason->str()});
        return llvm::Error::success();
      });
}

/// Reads a list of [pattern, role] or [pattern, role, [replaced roles]]. Its
/// order matters.
static llvm::Error readRoles(std::vector<ArgumentRole> &roles,
                             const llvm::json::Value &value) {
  auto fail = [] {
    return llvm::createStringError(
        "option 'roles' must be a list of [pattern, role]");
  };
  const llvm::json::Array *list = value.getAsArray();
  if (!list)
    return fail();
  for (const llvm::json::Value &entry : *list) {
    const llvm::json::Array *parts = entry.getAsArray();
    if (!parts || parts->size() < 2 || parts->size() > 3 ||
        !(*parts)[0].getAsString() || !(*parts)[1].getAsString())
      return fail();
    ArgumentRole role{
        (*parts)[0].getAsString()->str(), (*parts)[1].getAsString()->str(), {}};
    if (parts->size() == 3) {
      const llvm::json::Array *over = (*parts)[2].getAsArray();
      if (!over)
        return fail();
      for (const llvm::json::Value &name : *over)
        role.over.push_back(name.getAsString().value_or("").str());
    }
    roles.push_back(std::move(role));
  }
  return llvm::Error::success();
}

static llvm::Error readOption(CompileOptions &options, llvm::StringRef key,
                              const llvm::json::Value &value) {
  if (key == "scales")
    return readArgumentEntries(value, key, addScale).moveInto(options.scales);
  if (key == "ranges")
    return readArgumentRanges(value).moveInto(options.ranges);
  if (key == "roles")
    return readRoles(options.roles, value);
  if (key == "wide")
    return readWideCasts(options.wide, value);
  if (key == "castScales")
    return readCastScales(options.castScales, value);
  if (key == "bucketBytes") {
    options.bucketBytes = value.getAsInteger();
    if (!options.bucketBytes)
      return llvm::createStringError("option 'bucketBytes' must be a number");
    return llvm::Error::success();
  }
  if (key == "simulateRanks") {
    options.simulateRanks = value.getAsInteger();
    if (!options.simulateRanks || *options.simulateRanks < 0)
      return llvm::createStringError(
          "option 'simulateRanks' must be a number of ranks, or 0 "
          "for those of the mesh");
    return llvm::Error::success();
  }
  if (key == "compileFrom" || key == "compileTo") {
    std::optional<llvm::StringRef> given = value.getAsString();
    if (!given)
      return llvm::createStringError("option '" + key + "' must be a string");
    return readStage(key == "compileTo" ? options.compileTo
                                        : options.compileFrom,
                     key, *given);
  }
  for (const PlainOption &option : getPlainOptions())
    if (option.key == key)
      return std::visit(PlainReader{options, key, value}, option.member);
  return llvm::createStringError("unknown option '" + key + "'");
}

llvm::Expected<CompileOptions>
scalify::parseCompileOptions(llvm::StringRef json) {
  llvm::Expected<llvm::json::Value> value = parseJSON(json);
  if (!value)
    return value.takeError();
  const llvm::json::Object *object = value->getAsObject();
  if (!object)
    return llvm::createStringError("options must be a JSON object");
  CompileOptions options;
  for (const auto &[key, member] : *object)
    if (llvm::Error error = readOption(options, key, member))
      return std::move(error);
  return options;
}
