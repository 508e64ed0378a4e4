//===- ArgumentEntries.h - Inputs by arguments of main ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_ARGUMENTENTRIES_H
#define SCALIFY_LIB_PIPELINE_ARGUMENTENTRIES_H

#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace scalify {

/// Reads `what`, an object of argument names or a list in main's order: calls
/// `add` with the entries so far, an argument's name or number, and its value.
template <typename EntryT>
llvm::Expected<std::vector<EntryT>>
readArgumentEntries(const llvm::json::Value &value, llvm::StringRef what,
                    llvm::Error (*add)(std::vector<EntryT> &entries,
                                       llvm::StringRef argument,
                                       const llvm::json::Value &value)) {
  std::vector<EntryT> entries;
  if (const llvm::json::Object *object = value.getAsObject()) {
    for (const auto &[name, member] : *object)
      if (llvm::Error error = add(entries, name, member))
        return std::move(error);
    // The key order of a JSON object is undefined; diagnostics must not be.
    llvm::sort(entries, [](const EntryT &a, const EntryT &b) {
      return a.argument < b.argument;
    });
    return entries;
  }
  const llvm::json::Array *array = value.getAsArray();
  if (!array)
    return llvm::createStringError(
        what +
        " must be an object of argument names or a list in main's order");
  for (const auto &[index, member] : llvm::enumerate(*array))
    if (llvm::Error error = add(entries, std::to_string(index), member))
      return std::move(error);
  return entries;
}

/// Finds arguments of main by name, by number, or by the default name of an
/// unnamed argument ("arg3").
class ArgumentFinder {
public:
  explicit ArgumentFinder(mlir::func::FuncOp main) : main(main) {
    for (mlir::BlockArgument argument : main.getArguments())
      numbers.try_emplace(getArgumentName(argument), argument.getArgNumber());
  }

  /// Returns the argument's number; an error says that it cannot be given
  /// `what`.
  mlir::FailureOr<unsigned> find(llvm::StringRef name, llvm::StringRef what) {
    if (auto it = numbers.find(name); it != numbers.end())
      return it->second;
    llvm::StringRef number = name;
    number.consume_front("arg");
    unsigned index;
    if (!number.getAsInteger(10, index) && index < main.getNumArguments())
      return index;
    return main.emitOpError("has no argument '")
           << name << "' to give a " << what << " (it has "
           << main.getNumArguments() << " arguments)";
  }

private:
  mlir::func::FuncOp main;
  llvm::StringMap<unsigned> numbers;
};

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_ARGUMENTENTRIES_H
