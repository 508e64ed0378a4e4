#include "device/cuda/Graphs.h"

#include <algorithm>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

bool Graphs::find(const StepCall &call) {
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].args == call.args && entries[i].results == call.results) {
      current = i;
      return true;
    }
  return false;
}

void Graphs::begin(const Session &session, StreamHandle stream) {
  // Capture this thread's calls only: another library's threads may allocate
  // meanwhile.
  session.check(
      session.driver->cuStreamBeginCapture_v2(stream, CaptureThreadLocal),
      "cuStreamBeginCapture");
  isCapturing = true;
}

void Graphs::finish(const Session &session, StreamHandle stream,
                    const StepCall &call) {
  GraphHandle handle = nullptr;
  isCapturing = false;
  Status status = session.driver->cuStreamEndCapture(stream, &handle);
  Owned<GraphHandle> graph(handle, [driver = session.driver](GraphHandle g) {
    driver->cuGraphDestroy(g);
  });
  session.check(status, "cuStreamEndCapture");
  Entry &entry = entryFor(session, graph.get());
  entry.args = call.args;
  entry.results = call.results;
  current = size_t(&entry - entries.data());
}

Graphs::Entry &Graphs::entryFor(const Session &session, GraphHandle graph) {
  const Driver &driver = *session.driver;
  Entry taken;
  if (entries.size() == maxGraphs) {
    auto oldest = std::min_element(
        entries.begin(), entries.end(),
        [](const Entry &x, const Entry &y) { return x.lastUse < y.lastUse; });
    taken = std::move(*oldest);
    entries.erase(oldest); // before the update, which may fail
    GraphUpdateInfo info = {};
    Status status = driver.cuGraphExecUpdate_v2(taken.exec.get(), graph, &info);
    if (status != Success && status != GraphUpdateFailure)
      session.check(status, "cuGraphExecUpdate");
    if (status == GraphUpdateFailure)
      taken.exec = {};
  }
  if (!taken.exec) {
    GraphExecHandle handle = nullptr;
    session.check(driver.cuGraphInstantiateWithFlags(&handle, graph, 0),
                  "cuGraphInstantiate");
    taken.exec = {handle, [driver = session.driver](GraphExecHandle e) {
                    driver->cuGraphExecDestroy(e);
                  }};
  }
  entries.push_back(std::move(taken));
  return entries.back();
}

void Graphs::launch(const Session &session, StreamHandle stream) {
  Entry &entry = entries[current];
  entry.lastUse = ++uses;
  session.check(session.driver->cuGraphLaunch(entry.exec.get(), stream),
                "cuGraphLaunch");
}

void Graphs::abandon(const Session &session, StreamHandle stream) noexcept {
  if (!isCapturing)
    return;
  isCapturing = false;
  GraphHandle graph = nullptr;
  session.driver->cuStreamEndCapture(stream, &graph);
  if (graph)
    session.driver->cuGraphDestroy(graph);
}
