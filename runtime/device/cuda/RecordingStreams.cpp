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
    line("cuStreamSynchronize" + on(stream));
    return Success;
  };
  cuStreamQuery = [this](StreamHandle stream) {
    if (fails("cuStreamQuery"))
      return LaunchFailed;
    if (!get(stream, Kind::Stream) || capturing)
      return capturing ? CaptureUnsupported : InvalidHandle;
    return isStuck ? NotReady : Success;
  };
  cuStreamWaitEvent = [this](StreamHandle handle, EventHandle awaited,
                             unsigned) {
    Object *stream = get(handle, Kind::Stream);
    Object *event = get(awaited, Kind::Event);
    if (fails("cuStreamWaitEvent") || !stream || !event)
      return InvalidHandle;
    std::string text = "cuStreamWaitEvent event" + event->name + on(handle);
    if (!event->isRecorded || event->isCaptured != bool(capturing)) {
      line(text + " refused: the event is not recorded");
      return InvalidValue;
    }
    stream->isCaptured = bool(capturing);
    for (const auto &[other, issued] : event->seen)
      stream->seen[other] = std::max(stream->seen[other], issued);
    line(text);
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
  cuEventRecord = [this](EventHandle handle, StreamHandle onto) {
    Object *event = get(handle, Kind::Event);
    Object *stream = get(onto, Kind::Stream);
    if (fails("cuEventRecord") || !event || !stream)
      return InvalidHandle;
    event->time = clock += 1e-3; // a microsecond per command
    event->isRecorded = true;
    event->isCaptured = stream->isCaptured;
    event->seen = stream->seen;
    event->seen[stream] = stream->issued;
    line("cuEventRecord event" + event->name + on(onto));
    return Success;
  };
  // On a stuck stream no event completes: the first one is blamed.
  cuEventQuery = [this](EventHandle event) {
    if (fails("cuEventQuery") || !get(event, Kind::Event))
      return InvalidHandle;
    return isStuck ? NotReady : Success;
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
    origin = get(stream, Kind::Stream);
    origin->isCaptured = true;
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
    const Object *unjoined = nullptr;
    for (const auto &[handle, object] : objects) {
      bool isSide = object->isCaptured && object.get() != origin &&
                    object->kind == Kind::Stream;
      if (isSide && origin->seen[object.get()] < object->issued)
        unjoined = object.get();
      object->isCaptured = false;
    }
    if (unjoined)
      line("cuStreamEndCapture refused: stream " + unjoined->name +
           " is not joined");
    if (fails("cuStreamEndCapture") || unjoined) {
      destroy(graph, Kind::Graph);
      return unjoined ? CaptureUnjoined : CaptureUnmatched;
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
