#ifndef SCALIFY_UNITTESTS_RUNTIME_DAMAGING_H
#define SCALIFY_UNITTESTS_RUNTIME_DAMAGING_H

#include "scalify/transport.h"

#include <vector>

namespace scalify::test {

/// A transport that damages the data it sends, once.
struct Damaging {
  scalify_transport inner;
  int exchanges = 0;

  static scalify_transport wrap(const scalify_transport &inner) {
    scalify_transport outer = inner;
    outer.self = new Damaging{inner};
    outer.exchange = [](void *self, const scalify_transport_message *sends,
                        int32_t numSends,
                        const scalify_transport_message *receives,
                        int32_t numReceives, const scalify_transport_wait *wait,
                        scalify_transport_fault *fault) {
      auto &damaging = *static_cast<Damaging *>(self);
      std::vector<scalify_transport_message> changed(sends, sends + numSends);
      std::vector<uint8_t> data;
      if (++damaging.exchanges == 3 && numSends) {
        auto *bytes = static_cast<uint8_t *>(changed[0].data);
        data.assign(bytes, bytes + changed[0].bytes);
        data[data.size() / 2] ^= 4;
        changed[0].data = data.data();
      }
      return damaging.inner.exchange(damaging.inner.self, changed.data(),
                                     numSends, receives, numReceives, wait,
                                     fault);
    };
    outer.abort = [](void *self, const char *reason) {
      auto &damaging = *static_cast<Damaging *>(self);
      damaging.inner.abort(damaging.inner.self, reason);
    };
    outer.close = [](void *self) {
      auto *damaging = static_cast<Damaging *>(self);
      damaging->inner.close(damaging->inner.self);
      delete damaging;
    };
    return outer;
  }
};

} // namespace scalify::test

#endif // SCALIFY_UNITTESTS_RUNTIME_DAMAGING_H
