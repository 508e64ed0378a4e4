#include "comm/OpenCommunicator.h"
#include "comm/Launch.h"
#include "comm/RecordCommunicator.h"
#include "comm/SlowLink.h"
#include "comm/TransportCommunicator.h"
#include "comm/local/LocalTransport.h"
#include "comm/tcp/TcpTransport.h"
#include "support/Error.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace scalify::rt;

namespace {
/// Returns the folder of the library or program that contains this code.
std::string ownFolder() {
  Dl_info info = {};
  if (!::dladdr(reinterpret_cast<void *>(&ownFolder), &info) || !info.dli_fname)
    return ".";
  std::string path = info.dli_fname;
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// Opens libscalify_comm_NAME.so: from SCALIFY_TRANSPORTS, beside this library,
/// from the build folder, or from the system's search path.
void *openLibrary(const std::string &transport) {
  std::string file = "libscalify_comm_" + transport + ".so";
  std::vector<std::string> places;
  if (const char *folder = std::getenv("SCALIFY_TRANSPORTS"))
    places.push_back(std::string(folder) + "/" + file);
  places.push_back(ownFolder() + "/" + file);
#ifdef SCALIFY_TRANSPORTS_BUILT
  places.push_back(SCALIFY_TRANSPORTS_BUILT "/" + file);
#endif
  places.push_back(file);
  std::string faults;
  for (const std::string &place : places) {
    // RTLD_GLOBAL, since an MPI finds its own components by its symbols.
    if (void *library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL))
      return library;
    faults += std::string("\n  ") + ::dlerror();
  }
  unsupported("transport '" + transport + "' cannot be opened:" + faults);
}

scalify_transport openShared(const std::string &name,
                             const scalify_transport_options &options) {
  void *library = openLibrary(name);
  auto open = reinterpret_cast<scalify_transport_open_function>(
      ::dlsym(library, SCALIFY_TRANSPORT_OPEN));
  if (!open)
    unsupported("transport '" + name + "' lacks " SCALIFY_TRANSPORT_OPEN);
  scalify_transport transport = {};
  scalify_transport_fault fault = {-1, ""};
  scalify_transport_status status = open(&options, &transport, &fault);
  if (status != SCALIFY_TRANSPORT_OK)
    throw Error(status == SCALIFY_TRANSPORT_INTERRUPTED ? SCALIFY_RT_INTERRUPTED
                                                        : SCALIFY_RT_COMM,
                "transport '" + name + "': " + fault.text);
  return transport;
}
} // namespace

OpenedCommunicator
scalify::rt::openCommunicator(const scalify_rt_comm_options &options) {
  Launch launch = readLaunch();
  if (options.size) {
    launch.rank = options.rank;
    launch.size = options.size;
  }
  if (launch.size < 1 || launch.rank < 0 || launch.rank >= launch.size)
    badArgument("rank " + std::to_string(launch.rank) + " of " +
                std::to_string(launch.size) + " ranks");
  std::string name = options.transport ? options.transport : launch.transport;
  if (name == "record")
    return {std::make_unique<RecordCommunicator>(launch.rank, launch.size),
            name};

  // Parsed before joining the other ranks, which would wait for a rank that
  // failed.
  const char *slow = std::getenv("SCALIFY_COMM_LINK");
  if (slow && !*slow)
    slow = nullptr;
  Link link = slow ? parseLink(slow) : Link();
  double seconds = options.timeout_seconds;
  if (!(seconds >= 0))
    badArgument("a timeout must not be negative");
  std::string job;
  Meeting meeting;
  if (name == "tcp" && launch.size > 1) {
    meeting = readMeeting();
    job = meeting.job;
  }
  if (options.job)
    job = options.job;
  else if (name == "local" && launch.size > 1)
    job = readJob();
  scalify_transport_options opening = {};
  opening.version = SCALIFY_TRANSPORT_VERSION;
  opening.rank = launch.rank;
  opening.size = launch.size;
  opening.job = job.c_str();
  opening.wait = {seconds > 0 ? seconds : readTimeout(), options.poll,
                  options.context};
  scalify_transport transport = name == "local" ? local::open(opening)
                                : name == "tcp" ? tcp::open(opening, meeting)
                                                : openShared(name, opening);
  auto communicator = makeCommunicator(transport, opening.wait);
  if (slow)
    communicator = makeSlowCommunicator(std::move(communicator), link,
                                        options.poll, options.context);
  return {std::move(communicator), name};
}
