#include "device/cuda/Timing.h"

#include <algorithm>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

void Timing::begin(bool isOn) {
  on = isOn;
  pending.clear();
  times.clear();
}

void Timing::record(const Session &session, StreamHandle stream) {
  if (events.size() <= pending.size())
    events.push_back(session.makeEvent());
  session.check(
      session.driver->cuEventRecord(events[pending.size()].get(), stream),
      "cuEventRecord");
}

void Timing::start(const Session &session, StreamHandle stream,
                   size_t command) {
  record(session, stream);
  pending.push_back(command);
}

void Timing::end(const Session &session, StreamHandle stream) {
  if (on)
    record(session, stream);
}

void Timing::read(const Session &session) {
  for (size_t i = 0; i < pending.size(); ++i) {
    float milliseconds = 0;
    session.check(session.driver->cuEventElapsedTime(
                      &milliseconds, events[i].get(), events[i + 1].get()),
                  "cuEventElapsedTime");
    times.resize(std::max(times.size(), pending[i] + 1));
    ++times[pending[i]].calls;
    times[pending[i]].nanoseconds += uint64_t(double(milliseconds) * 1e6);
  }
  pending.clear();
}
