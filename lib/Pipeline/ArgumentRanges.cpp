//===- ArgumentRanges.cpp - Ranges as an input of compilation -------------===//

#include "ArgumentRanges.h"

#include "ArgumentEntries.h"
#include "scalify/Scaling/RangeAnalysis.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace json = llvm::json;

/// Reads a number that may be absent.
static llvm::Error readNumber(const json::Object &object, llvm::StringRef key,
                              std::optional<double> &number) {
  const json::Value *value = object.get(key);
  if (!value)
    return llvm::Error::success();
  number = value->getAsNumber();
  if (number && std::isfinite(*number))
    return llvm::Error::success();
  return llvm::createStringError("'" + key +
                                 "' of a range must be a finite number");
}

/// Reads one number per axis; null for an axis without a bound.
static llvm::Error readNorms(const json::Value &value,
                             std::vector<double> &norms) {
  const json::Array *list = value.getAsArray();
  if (!list)
    return llvm::createStringError("'norms' of a range must be a list");
  for (const json::Value &entry : *list) {
    double norm = entry.getAsNumber().value_or(RangeState::infinity());
    bool isKnown = entry.kind() != json::Value::Null;
    if (norm < 0 || (isKnown && std::isinf(norm)))
      return llvm::createStringError(
          "an entry of 'norms' of a range must be a finite "
          "number from 0, or null");
    norms.push_back(norm);
  }
  return llvm::Error::success();
}

static llvm::Error addRange(std::vector<ArgumentRange> &ranges,
                            llvm::StringRef argument,
                            const json::Value &value) {
  if (value.kind() == json::Value::Null)
    return llvm::Error::success();
  const json::Object *object = value.getAsObject();
  if (!object)
    return llvm::createStringError(
        "the range of argument '" + argument +
        "' must be an object of max, min, norms and frobenius, "
        "or null");
  for (const auto &[key, member] : *object)
    if (!llvm::is_contained({"max", "min", "norms", "frobenius"},
                            llvm::StringRef(key)))
      return llvm::createStringError(
          "unknown key '" + llvm::StringRef(key) +
          "' in the range of argument '" + argument +
          "': expected max, min, norms or frobenius");
  ArgumentRange range;
  range.argument = argument.str();
  for (auto [key, member] :
       {std::pair<llvm::StringRef, std::optional<double> &>("max", range.max),
        {"min", range.min},
        {"frobenius", range.frobenius}})
    if (llvm::Error error = readNumber(*object, key, member))
      return error;
  if (const json::Value *norms = object->get("norms"))
    if (llvm::Error error = readNorms(*norms, range.norms))
      return error;
  // An empty range contains no value, so anything could be proved of it.
  double least = range.min.value_or(-range.max.value_or(0));
  if (least > range.max.value_or(RangeState::infinity()) ||
      range.frobenius.value_or(0) < 0)
    return llvm::createStringError(
        "the range of argument '" + argument +
        "' is empty: max and frobenius must be 0 at least, or "
        "min must be no more than max");
  ranges.push_back(std::move(range));
  return llvm::Error::success();
}

llvm::Expected<std::vector<ArgumentRange>>
scalify::readArgumentRanges(const json::Value &value) {
  return readArgumentEntries(value, "ranges", addRange);
}

static DictionaryAttr makeRangeAttr(MLIRContext *context,
                                    const ArgumentRange &range) {
  Builder builder(context);
  NamedAttrList entries;
  auto set = [&](StringRef key, std::optional<double> number) {
    if (number)
      entries.set(key, builder.getF64FloatAttr(*number));
  };
  set("max", range.max);
  set("min", range.min);
  set("frobenius", range.frobenius);
  if (!range.norms.empty())
    entries.set("norms", builder.getDenseF64ArrayAttr(range.norms));
  return entries.getDictionary(context);
}

LogicalResult scalify::applyArgumentRanges(ModuleOp module,
                                           ArrayRef<ArgumentRange> ranges) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (ranges.empty() || !main)
    return success();
  ArgumentFinder arguments(main);
  for (const ArgumentRange &range : ranges) {
    FailureOr<unsigned> index = arguments.find(range.argument, "range");
    if (failed(index))
      return failure();
    ArgumentRange given = range;
    if (main.getArgAttr(*index, kFlatAttr)) {
      // A flat share has no rows of its own, and zeros as padding.
      given.norms.clear();
      if (given.min)
        given.min = std::min(*given.min, 0.0);
      if (given.max)
        given.max = std::max(*given.max, 0.0);
    }
    main.setArgAttr(*index, kRangeAttr,
                    makeRangeAttr(module.getContext(), given));
  }
  return success();
}
