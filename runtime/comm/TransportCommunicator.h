// Collectives built from a transport's messages.
#ifndef SCALIFY_RUNTIME_COMM_TRANSPORTCOMMUNICATOR_H
#define SCALIFY_RUNTIME_COMM_TRANSPORTCOMMUNICATOR_H

#include "comm/Communicator.h"
#include "comm/Message.h"
#include "scalify/transport.h"

#include <memory>

namespace scalify::rt {

/// Takes ownership of `transport`. `wait` has the time that a rank may be late.
std::unique_ptr<Communicator>
makeCommunicator(const scalify_transport &transport,
                 const scalify_transport_wait &wait);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_TRANSPORTCOMMUNICATOR_H
