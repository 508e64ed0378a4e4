#include "Communicator.h"
#include "scalify/comm.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

using namespace scalify::rt;
using namespace scalify::rt::py;
using py::Communicator;

Communicator::Communicator(const std::optional<std::string> &transport,
                           double timeout, int32_t rank, int32_t size,
                           const std::optional<std::string> &job) {
  scalify_rt_comm_options options = {};
  options.transport = transport ? transport->c_str() : nullptr;
  options.timeout_seconds = timeout;
  options.rank = rank;
  options.size = size;
  options.job = job ? job->c_str() : nullptr;
  options.poll = checkSignals;
  scalify_rt_comm *opened = nullptr;
  scalify_rt_status status;
  {
    nb::gil_scoped_release unlock;
    status = scalify_rt_comm_open(&options, &opened);
  }
  check(status);
  handle = CommRef(opened, scalify_rt_comm_free);
}

nb::list Communicator::allGather(const nb::bytes &part) {
  const int32_t size = scalify_rt_comm_size(handle.get());
  std::string all(part.size() * static_cast<size_t>(size), 0);
  scalify_rt_status status;
  {
    nb::gil_scoped_release unlock;
    status = scalify_rt_comm_gather_bytes(handle.get(), part.c_str(),
                                          part.size(), all.data());
  }
  check(status);
  nb::list parts;
  for (int32_t rank = 0; rank < size; ++rank)
    parts.append(nb::bytes(all.data() + static_cast<size_t>(rank) * part.size(),
                           part.size()));
  return parts;
}

void Communicator::barrier() {
  scalify_rt_status status;
  {
    nb::gil_scoped_release unlock;
    status = scalify_rt_comm_barrier(handle.get());
  }
  check(status);
}

void Communicator::abort(const std::string &text) {
  check(scalify_rt_comm_abort(handle.get(), text.c_str()));
}

static std::pair<int32_t, int32_t> launched() {
  int32_t rank = 0, size = 1;
  check(scalify_rt_comm_launched(&rank, &size));
  return {rank, size};
}

void scalify::rt::py::bindCommunicator(nb::module_ &module) {
  nb::class_<Communicator>(module, "Communicator",
                           "Connects this process to the other ranks.")
      .def(nb::init<std::optional<std::string>, double, int32_t, int32_t,
                    std::optional<std::string>>(),
           nb::arg("transport") = nb::none(), nb::arg("timeout") = 0.0,
           nb::arg("rank") = 0, nb::arg("size") = 0,
           nb::arg("job") = nb::none())
      .def("all_gather", &Communicator::allGather, nb::arg("part"),
           "Returns every rank's bytes, of one length, in their order.")
      .def("barrier", &Communicator::barrier,
           "Returns when all ranks have called it.")
      .def("abort", &Communicator::abort, nb::arg("reason"),
           "Aborts this rank: the others' calls fail with `reason`.")
      .def_prop_ro("rank",
                   [](const Communicator &self) {
                     return scalify_rt_comm_rank(self.share().get());
                   })
      .def_prop_ro("size",
                   [](const Communicator &self) {
                     return scalify_rt_comm_size(self.share().get());
                   })
      .def_prop_ro("transport",
                   [](const Communicator &self) {
                     return scalify_rt_comm_transport(self.share().get());
                   })
      .def_prop_ro("bytes_sent", [](const Communicator &self) {
        return scalify_rt_comm_bytes_sent(self.share().get());
      });
  module.def("launched", &launched,
             "Returns this process's rank and the number of ranks.");
}
