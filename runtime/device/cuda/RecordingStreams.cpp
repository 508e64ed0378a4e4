// The recording's streams, events and graphs.
#include "device/cuda/RecordingObjects.h"

using namespace scalify::rt;
using namespace scalify::rt::cuda;

void RecordingDriver::bindStreams() {
  cuStreamCreate = [this](StreamHandle *out, unsigned) {
    return fails("cuStreamCreate") ? OutOfMemory : make(out, Kind::Stream);
  };
  cuStreamDestroy_v2 = [this](StreamHandle stream) {
    return destroy(stream, Kind::Stream);
  };
  cuStreamSynchronize = [this](StreamHandle stream) {
    if (fails("cuStreamSynchronize"))
      return LaunchFailed;
    if (!get(stream, Kind::Stream) || capturing)
      return capturing ? CaptureUnsupported : InvalidHandle;
    line("cuStreamSynchronize");
    return Success;
  };
}

void RecordingDriver::bindEvents() {
  cuEventCreate = [this](EventHandle *out, unsigned) {
    return fails("cuEventCreate") ? OutOfMemory : make(out, Kind::Event);
  };
  cuEventDestroy_v2 = [this](EventHandle event) {
    return destroy(event, Kind::Event);
  };
  cuEventRecord = [this](EventHandle handle, StreamHandle) {
    Object *event = get(handle, Kind::Event);
    if (fails("cuEventRecord") || !event)
      return InvalidHandle;
    event->time = clock += 1e-3; // a microsecond a command
    line("cuEventRecord event" + event->name);
    return Success;
  };
  cuEventElapsedTime = [this](float *out, EventHandle from, EventHandle to) {
    Object *first = get(from, Kind::Event), *last = get(to, Kind::Event);
    if (fails("cuEventElapsedTime") || !first || !last)
      return InvalidHandle;
    *out = float(last->time - first->time);
    return Success;
  };
}

void RecordingDriver::bindCapture() {
  cuStreamBeginCapture_v2 = [this](StreamHandle stream, CaptureMode) {
    if (fails("cuStreamBeginCapture") || !get(stream, Kind::Stream) ||
        capturing)
      return CaptureUnsupported;
    GraphHandle graph = nullptr;
    make(&graph, Kind::Graph);
    capturing = get(graph, Kind::Graph);
    line("cuStreamBeginCapture");
    return Success;
  };
  cuStreamEndCapture = [this](StreamHandle, GraphHandle *out) {
    *out = nullptr;
    if (!capturing)
      return CaptureUnmatched;
    auto graph = reinterpret_cast<GraphHandle>(capturing);
    size_t nodes = capturing->nodes.size();
    capturing = nullptr;
    if (fails("cuStreamEndCapture")) {
      destroy(graph, Kind::Graph);
      return CaptureUnmatched;
    }
    *out = graph;
    line("cuStreamEndCapture nodes=" + std::to_string(nodes));
    return Success;
  };
}

void RecordingDriver::bindGraphs() {
  cuGraphInstantiateWithFlags = [this](GraphExecHandle *out, GraphHandle graph,
                                       unsigned long long) {
    Object *from = get(graph, Kind::Graph);
    if (fails("cuGraphInstantiate") || !from)
      return OutOfMemory;
    make(out, Kind::GraphExec);
    Object *exec = get(*out, Kind::GraphExec);
    exec->nodes = from->nodes;
    line("cuGraphInstantiate exec" + exec->name);
    return Success;
  };
  cuGraphExecUpdate_v2 = [this](GraphExecHandle handle, GraphHandle graph,
                                GraphUpdateInfo *info) {
    Object *exec = get(handle, Kind::GraphExec);
    Object *from = get(graph, Kind::Graph);
    if (fails("cuGraphExecUpdate") || !exec || !from)
      return InvalidHandle;
    *info = {};
    if (exec->nodes != from->nodes) {
      line("cuGraphExecUpdate exec" + exec->name + " refused: other nodes");
      return GraphUpdateFailure;
    }
    line("cuGraphExecUpdate exec" + exec->name);
    return Success;
  };
  cuGraphLaunch = [this](GraphExecHandle handle, StreamHandle) {
    Object *exec = get(handle, Kind::GraphExec);
    if (fails("cuGraphLaunch") || !exec)
      return InvalidHandle;
    line("cuGraphLaunch exec" + exec->name +
         " nodes=" + std::to_string(exec->nodes.size()));
    if (onGraphLaunch)
      onGraphLaunch();
    return Success;
  };
  cuGraphDestroy = [this](GraphHandle graph) {
    return destroy(graph, Kind::Graph);
  };
  cuGraphExecDestroy = [this](GraphExecHandle exec) {
    return destroy(exec, Kind::GraphExec);
  };
}
