#include "comm/local/Rendezvous.h"
#include "comm/Patience.h"
#include "support/Error.h"
#include "support/File.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace scalify::rt;
using namespace scalify::rt::local;

namespace {
constexpr uint64_t magic = 0x31796669'6c616373;

struct Hello {
  uint64_t magic;
  int32_t rank, size, process;
};

struct Reply {
  int32_t isRefusal;
  char text[2044];
};

/// The job's socket address: abstract, so that it disappears with rank 0.
struct Address {
  explicit Address(const std::string &job) {
    uint64_t hash = 0xcbf29ce484222325;
    for (unsigned char c : job)
      hash = (hash ^ c) * 0x100000001b3;
    address.sun_family = AF_UNIX;
    int written =
        std::snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
                      "scalify-%u-%016llx", unsigned(::geteuid()),
                      static_cast<unsigned long long>(hash));
    length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + size_t(written));
  }
  const sockaddr *get() const {
    return reinterpret_cast<const sockaddr *>(&address);
  }
  sockaddr_un address = {};
  socklen_t length;
};

File makeSocket() {
  File file(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!file)
    failedCall("make a socket");
  return file;
}

ucred ownerOf(const File &connection) {
  ucred owner = {};
  socklen_t length = sizeof(owner);
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &owner, &length))
    failedCall("ask who connected");
  return owner;
}

/// Sends the reply, with the memory's descriptor unless it is a refusal.
void sendReply(const File &connection, const std::string &refusal,
               const File *memory) {
  Reply reply = {};
  reply.isRefusal = !refusal.empty();
  std::snprintf(reply.text, sizeof(reply.text), "%s", refusal.c_str());
  iovec part = {&reply, sizeof(reply)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (memory) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    int number = memory->get();
    std::memcpy(CMSG_DATA(head), &number, sizeof(int));
  }
  // If the rank has died since, its peers' first exchange detects it.
  (void)::sendmsg(connection.get(), &message, MSG_NOSIGNAL);
}

/// Rank 0's side of the rendezvous.
class Host {
public:
  Host(const scalify_transport_options &options, File memory, Mapping &mapping)
      : options(options), memory(std::move(memory)), mapping(mapping),
        patience(options.wait), members(size_t(options.size)) {}

  void gather() {
    listen();
    try {
      while (joined + 1 < options.size) {
        if (patience.isOver())
          failed("rank " + missing() + " has not joined job '" + options.job +
                 "'" + patience.text());
        takeOne();
      }
    } catch (const Error &error) {
      for (const File &member : members)
        if (member)
          sendReply(member, std::string("rank 0 stopped: ") + error.what(),
                    nullptr);
      throw;
    }
    // Close the listener first: a rank that opens another communicator of the
    // job must not connect here.
    listener = File();
    for (const File &member : members)
      if (member)
        sendReply(member, "", &memory);
  }

private:
  void listen() {
    Address address(options.job);
    listener = makeSocket();
    // Another of the job's communicators may be opening.
    while (::bind(listener.get(), address.get(), address.length)) {
      if (errno != EADDRINUSE)
        failedCall("bind a socket");
      if (patience.isOver())
        failed("another rank 0 waits for the ranks of job '" +
               std::string(options.job) + "'");
      patience.sleep(5);
    }
    if (::listen(listener.get(), options.size))
      failedCall("listen for ranks");
  }

  std::string missing() const {
    std::string text;
    for (int32_t rank = 1; rank < options.size; ++rank)
      if (!members[size_t(rank)])
        text += (text.empty() ? "" : ", ") + std::to_string(rank);
    return text;
  }

  void takeOne() {
    std::vector<pollfd> files = {{listener.get(), POLLIN, 0}};
    for (const File &member : members)
      files.push_back({member.get(), POLLIN, 0});
    for (const File &caller : callers)
      files.push_back({caller.get(), POLLIN, 0});
    patience.waitFor(files);
    // Members send nothing after their hello: a readable connection has ended.
    for (size_t rank = 0; rank < members.size(); ++rank)
      if (files[1 + rank].revents)
        failed("rank " + std::to_string(rank) +
               " ended while the ranks of job '" + options.job + "' joined");
    for (size_t i = callers.size(); i-- > 0;)
      if (files[1 + members.size() + i].revents) {
        File caller = std::move(callers[i]);
        callers.erase(callers.begin() + int64_t(i));
        hear(std::move(caller));
      }
    if (files[0].revents) {
      File caller(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (caller && ownerOf(caller).uid == ::geteuid())
        callers.push_back(std::move(caller));
    }
  }

  void hear(File caller) {
    Hello hello = {};
    if (::recv(caller.get(), &hello, sizeof(hello), 0) != sizeof(hello) ||
        hello.magic != magic)
      return;
    std::string refusal;
    if (hello.size != options.size)
      refusal = "a rank was started as one of " + std::to_string(hello.size) +
                ", rank 0 as one of " + std::to_string(options.size);
    else if (hello.rank < 1 || hello.rank >= options.size ||
             members[size_t(hello.rank)])
      refusal = "two processes are rank " + std::to_string(hello.rank) +
                " of job '" + options.job + "'";
    else if (ownerOf(caller).pid != hello.process)
      refusal = "rank " + std::to_string(hello.rank) +
                " is in another PID namespace: ranks of transport 'local' "
                "must see one another's processes";
    if (!refusal.empty()) {
      sendReply(caller, refusal, nullptr);
      failed(refusal);
    }
    mapping.segment().slot(hello.rank).process = hello.process;
    members[size_t(hello.rank)] = std::move(caller);
    ++joined;
  }

  const scalify_transport_options &options;
  File memory;
  Mapping &mapping;
  Patience patience;
  File listener;
  std::vector<File> callers; // connected, but no hello received yet
  std::vector<File> members; // by rank
  int32_t joined = 0;
};

/// Every other rank's side: returns the memory's descriptor.
File askForMemory(const scalify_transport_options &options) {
  Patience patience(options.wait);
  Address address(options.job);
  File connection = makeSocket();
  while (::connect(connection.get(), address.get(), address.length)) {
    if (errno != ECONNREFUSED && errno != EINTR && errno != EAGAIN)
      failedCall("connect to rank 0");
    if (patience.isOver())
      failed("rank 0 has not opened job '" + std::string(options.job) + "'" +
             patience.text());
    patience.sleep(5);
  }
  if (ownerOf(connection).uid != ::geteuid())
    failed("rank 0 of job '" + std::string(options.job) +
           "' belongs to another user");
  Hello hello = {magic, options.rank, options.size, int32_t(::getpid())};
  (void)::send(connection.get(), &hello, sizeof(hello), MSG_NOSIGNAL);
  // Rank 0 may have started later, and times out by its own clock. It replies
  // then, unless it was stopped: hence twice the timeout.
  std::vector<pollfd> files = {{connection.get(), POLLIN, 0}};
  while (!files[0].revents) {
    if (patience.isOver(2))
      failed("rank 0 has not answered in job '" + std::string(options.job) +
             "'");
    patience.waitFor(files);
  }
  Reply reply = {};
  iovec part = {&reply, sizeof(reply)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (::recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC) != sizeof(reply))
    failed("rank 0 ended while the ranks of job '" + std::string(options.job) +
           "' joined");
  if (reply.isRefusal)
    failed(reply.text);
  int number = -1;
  if (cmsghdr *head = CMSG_FIRSTHDR(&message))
    std::memcpy(&number, CMSG_DATA(head), sizeof(int));
  if (number < 0)
    failed("rank 0 sent no memory");
  return File(number);
}

/// Returns the process's only mapping of a file.
std::shared_ptr<Mapping> mappingOf(const File &file, int32_t size) {
  static std::mutex mutex;
  static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Mapping>> known;
  struct stat about = {};
  if (::fstat(file.get(), &about))
    failedCall("look at the shared memory");
  std::lock_guard<std::mutex> lock(mutex);
  for (auto it = known.begin(); it != known.end();)
    it = it->second.expired() ? known.erase(it) : std::next(it);
  std::weak_ptr<Mapping> &entry = known[{about.st_dev, about.st_ino}];
  std::shared_ptr<Mapping> mapping = entry.lock();
  if (!mapping)
    entry = mapping = std::make_shared<Mapping>(file.get(), size);
  return mapping;
}
} // namespace

Mapping::Mapping(int file, int32_t size) : length(Segment::bytes(size)) {
  memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    failedCall("map the ranks' memory");
  view = Segment(static_cast<uint8_t *>(memory), size);
}

Mapping::~Mapping() { ::munmap(memory, length); }

std::shared_ptr<Mapping>
scalify::rt::local::join(const scalify_transport_options &options) {
  if (options.rank > 0)
    return mappingOf(askForMemory(options), options.size);
  File memory(::memfd_create("scalify", MFD_CLOEXEC));
  if (!memory || ::ftruncate(memory.get(), off_t(Segment::bytes(options.size))))
    failedCall("make the ranks' memory");
  std::shared_ptr<Mapping> mapping = mappingOf(memory, options.size);
  mapping->segment().slot(0).process = int32_t(::getpid());
  if (options.size > 1)
    Host(options, std::move(memory), *mapping).gather();
  return mapping;
}
