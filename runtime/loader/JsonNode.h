// Typed access to parsed JSON, with errors that name the path in the manifest.
#ifndef SCALIFY_RUNTIME_LOADER_JSONNODE_H
#define SCALIFY_RUNTIME_LOADER_JSONNODE_H

#include "support/Error.h"
#include "support/Types.h"

#include <nlohmann/json.hpp>

namespace scalify::rt {

/// A JSON value and its path from the manifest's root ("buffers[3].shape").
class JsonNode {
public:
  JsonNode(const nlohmann::json &value, std::string path)
      : value(&value), path(std::move(path)) {}

  [[noreturn]] void fail(const std::string &what) const {
    badArtefact("bad manifest: " + (path.empty() ? "the root" : path) + " " +
                what);
  }

  bool has(const char *key) const {
    return value->is_object() && value->contains(key) &&
           !(*value)[key].is_null();
  }
  JsonNode operator[](const char *key) const {
    if (!value->is_object())
      fail("must be an object");
    std::string inner = path.empty() ? key : path + "." + key;
    auto found = value->find(key);
    if (found == value->end())
      JsonNode(*value, inner).fail("is missing");
    return JsonNode(*found, inner);
  }
  JsonNode at(size_t i) const {
    return JsonNode((*value)[i], path + "[" + std::to_string(i) + "]");
  }
  size_t size() const {
    if (!value->is_array())
      fail("must be an array");
    return value->size();
  }

  int64_t integer() const {
    if (value->is_number_unsigned() &&
        value->get<uint64_t>() > uint64_t(INT64_MAX))
      fail("does not fit in 64 bits");
    if (!value->is_number_integer())
      fail("must be an integer");
    return value->get<int64_t>();
  }
  int64_t atLeast(int64_t low) const {
    int64_t number = integer();
    if (number < low)
      fail("must be at least " + std::to_string(low) + ", not " +
           std::to_string(number));
    return number;
  }
  /// Returns an index into a table of `count` entries named `what`.
  int32_t index(size_t count, const char *what) const {
    int64_t number = integer();
    if (number < 0 || static_cast<uint64_t>(number) >= count)
      fail("is " + std::to_string(number) + ", but there are " +
           std::to_string(count) + " " + what);
    return static_cast<int32_t>(number);
  }
  bool boolean() const {
    if (!value->is_boolean())
      fail("must be true or false");
    return value->get<bool>();
  }
  double number() const {
    if (!value->is_number())
      fail("must be a number");
    return value->get<double>();
  }
  std::string text() const {
    if (!value->is_string())
      fail("must be a string");
    return value->get<std::string>();
  }
  std::string textOr(const char *key, const char *otherwise) const {
    return has(key) ? (*this)[key].text() : otherwise;
  }
  int64_t integerOr(const char *key, int64_t otherwise) const {
    return has(key) ? (*this)[key].integer() : otherwise;
  }
  /// Reads the keys "dtype" and "shape".
  TensorType tensor() const {
    std::string dtypeName = (*this)["dtype"].text();
    std::optional<DType> dtype = parseDType(dtypeName);
    if (!dtype)
      (*this)["dtype"].fail("'" + dtypeName + "' is not a known element type");
    JsonNode list = (*this)["shape"];
    std::vector<int64_t> shape;
    for (size_t i = 0; i < list.size(); ++i)
      shape.push_back(list.at(i).atLeast(0));
    std::optional<TensorType> type = makeTensorType(*dtype, std::move(shape));
    if (!type)
      list.fail("has more bytes than fit in memory");
    return *type;
  }

  const nlohmann::json &json() const { return *value; }

private:
  const nlohmann::json *value;
  std::string path;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_JSONNODE_H
