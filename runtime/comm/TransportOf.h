// Adapts a transport class to the C interface of transports.
#ifndef SCALIFY_RUNTIME_COMM_TRANSPORTOF_H
#define SCALIFY_RUNTIME_COMM_TRANSPORTOF_H

#include "scalify/transport.h"

namespace scalify::rt {

/// Returns the C interface of `self`; closing it deletes `self`.
template <typename T>
scalify_transport makeTransport(T *self,
                                const scalify_transport_options &options) {
  scalify_transport transport = {};
  transport.self = self;
  transport.rank = options.rank;
  transport.size = options.size;
  transport.exchange =
      [](void *self, const scalify_transport_message *sends, int32_t numSends,
         const scalify_transport_message *receives, int32_t numReceives,
         const scalify_transport_wait *wait, scalify_transport_fault *fault) {
        return static_cast<T *>(self)->exchange(sends, numSends, receives,
                                                numReceives, *wait, *fault);
      };
  transport.abort = [](void *self, const char *text) {
    static_cast<T *>(self)->abort(text);
  };
  transport.close = [](void *self) { delete static_cast<T *>(self); };
  return transport;
}

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_TRANSPORTOF_H
