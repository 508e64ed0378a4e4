// Binds the arguments of one call: memory to read, Arrays to consume, owners to
// keep alive.
#ifndef SCALIFY_PYTHON_RUNTIME_INPUTS_H
#define SCALIFY_PYTHON_RUNTIME_INPUTS_H

#include "Array.h"

namespace scalify::rt::py {

struct Parameter {
  std::string name;
  std::string role;
  TensorType type;
  int32_t alias;
};

/// What a call does with donated arguments.
enum class Donation : uint8_t {
  Take,    // consumes Arrays, copies others
  InPlace, // the same, but overwrites NumPy arrays
  Spare    // of a trial: copies what it writes, leaves all to the caller
};

class Inputs {
public:
  /// `inputs` are the arguments from `first` on.
  Inputs(Loaded &loaded, const std::vector<Parameter> &parameters,
         const nb::sequence &inputs, size_t first = 0,
         Donation donation = Donation::Take);

  std::vector<void *> pointers;
  std::vector<SlotRef> donated; // per argument; null where not donated
  /// Empties the Arrays that the step has taken over, after it has run.
  void consume() const;

private:
  void bind(const Parameter &parameter, size_t index, nb::handle input);
  void bindArray(const Parameter &parameter, size_t index, Array &array);
  /// Binds GPU memory of another library.
  void bindForeign(const Parameter &parameter, size_t index, nb::handle input);
  void bindHost(const Parameter &parameter, size_t index, nb::handle input);
  /// True if the call works in memory of a donated argument, or a copy of it.
  bool isWritten(const Parameter &parameter, size_t index) const;
  void copyToDonated(const Parameter &parameter, size_t index, const void *from,
                     bool isHost);

  Loaded &loaded;
  Donation donation;
  std::vector<Array *> consumed;
  std::vector<nb::object> alive;
  std::vector<SlotRef> copies;
};

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_INPUTS_H
