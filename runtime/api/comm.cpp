// The C interface of communicators.
#include "scalify/comm.h"
#include "api/Guarded.h"
#include "comm/Launch.h"
#include "comm/OpenCommunicator.h"
#include "comm/RecordCommunicator.h"

using namespace scalify::rt;

struct scalify_rt_comm {
  OpenedCommunicator opened;
};

Communicator &scalify::rt::getCommunicator(scalify_rt_comm *comm) {
  if (!comm)
    badArgument("the communicator is null");
  return *comm->opened.communicator;
}

scalify_rt_status scalify_rt_comm_launched(int32_t *rank, int32_t *size) {
  return guarded([&] {
    if (!rank || !size)
      badArgument("the output pointer for the rank or the size is null");
    Launch launch = readLaunch();
    *rank = launch.rank;
    *size = launch.size;
  });
}

scalify_rt_status scalify_rt_comm_open(const scalify_rt_comm_options *options,
                                       scalify_rt_comm **out) {
  return guarded([&] {
    if (!out)
      badArgument("the output pointer for the communicator is null");
    *out = nullptr;
    scalify_rt_comm_options chosen = {};
    if (options)
      chosen = *options;
    *out = new scalify_rt_comm{openCommunicator(chosen)};
  });
}

void scalify_rt_comm_free(scalify_rt_comm *comm) { delete comm; }

int32_t scalify_rt_comm_rank(const scalify_rt_comm *comm) {
  return comm ? comm->opened.communicator->rank() : 0;
}

int32_t scalify_rt_comm_size(const scalify_rt_comm *comm) {
  return comm ? comm->opened.communicator->size() : 0;
}

const char *scalify_rt_comm_transport(const scalify_rt_comm *comm) {
  return comm ? comm->opened.transport.c_str() : "";
}

uint64_t scalify_rt_comm_bytes_sent(const scalify_rt_comm *comm) {
  return comm ? comm->opened.communicator->bytesSent() : 0;
}

scalify_rt_status scalify_rt_comm_barrier(scalify_rt_comm *comm) {
  return guarded([&] {
    Communicator &communicator = getCommunicator(comm);
    communicator.run(makeGatherOfAll(communicator.size(), "barrier", 0),
                     nullptr, nullptr);
  });
}

scalify_rt_status scalify_rt_comm_gather_bytes(scalify_rt_comm *comm,
                                               const void *data, uint64_t bytes,
                                               void *out) {
  return guarded([&] {
    Communicator &communicator = getCommunicator(comm);
    if (bytes && (!data || !out))
      badArgument("the source or destination of the gather is null");
    communicator.run(makeGatherOfAll(communicator.size(), "gather", bytes),
                     data, out);
  });
}

scalify_rt_status scalify_rt_comm_abort(scalify_rt_comm *comm,
                                        const char *text) {
  return guarded([&] { getCommunicator(comm).abort(text ? text : ""); });
}

scalify_rt_status scalify_rt_comm_set_poll(scalify_rt_comm *comm,
                                           scalify_rt_poll poll,
                                           void *context) {
  return guarded([&] { getCommunicator(comm).setPoll(poll, context); });
}

const char *scalify_rt_comm_trace(const scalify_rt_comm *comm) {
  const auto *record =
      comm ? dynamic_cast<RecordCommunicator *>(comm->opened.communicator.get())
           : nullptr;
  return record ? record->trace().c_str() : "";
}
