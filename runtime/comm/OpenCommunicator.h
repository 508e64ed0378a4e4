// Opens a communicator by its transport's name. Defines the C interface's
// handle.
#ifndef SCALIFY_RUNTIME_COMM_OPENCOMMUNICATOR_H
#define SCALIFY_RUNTIME_COMM_OPENCOMMUNICATOR_H

#include "comm/Communicator.h"
#include "scalify/comm.h"

#include <memory>

namespace scalify::rt {

struct OpenedCommunicator {
  std::unique_ptr<Communicator> communicator;
  std::string transport;
};

/// Joins the other ranks; throws Error.
OpenedCommunicator openCommunicator(const scalify_rt_comm_options &options);

/// Returns the handle's communicator, which lives as long as the handle.
Communicator &getCommunicator(scalify_rt_comm *comm);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_OPENCOMMUNICATOR_H
