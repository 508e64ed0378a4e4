// _runtime.Communicator: connects this rank to the others of the launch.
#ifndef SCALIFY_PYTHON_RUNTIME_COMMUNICATOR_H
#define SCALIFY_PYTHON_RUNTIME_COMMUNICATOR_H

#include "Memory.h"

#include <optional>

namespace scalify::rt::py {

class Communicator {
public:
  /// If `size` is 0, rank and size come from the launch.
  Communicator(const std::optional<std::string> &transport, double timeout,
               int32_t rank, int32_t size,
               const std::optional<std::string> &job);

  const CommRef &share() const { return handle; }
  nb::list allGather(const nb::bytes &part);
  void barrier();
  void abort(const std::string &text);

private:
  CommRef handle;
};

void bindCommunicator(nb::module_ &module);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_COMMUNICATOR_H
