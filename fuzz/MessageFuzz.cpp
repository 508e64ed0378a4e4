// Bytes that another program sends where a rank expects another rank. The
// input's first byte chooses the place, the rest are the bytes.
#include "comm/Message.h"
#include "comm/Secret.h"
#include "comm/tcp/Callers.h"
#include "comm/tcp/Introduction.h"
#include "comm/tcp/Link.h"
#include "comm/tcp/Notice.h"
#include "support/Error.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

using namespace scalify::rt;
using namespace scalify::rt::tcp;

namespace {
struct Input {
  const uint8_t *data;
  size_t size;
  uint8_t takeByte() {
    if (size == 0)
      return 0;
    --size;
    return *data++;
  }
};

void require(bool isTrue) {
  if (!isTrue)
    std::abort();
}

Patience patience() {
  return Patience(scalify_transport_wait{1, nullptr, nullptr});
}

/// Two connected sockets.
struct Pair {
  File own, other;
  Pair() {
    int files[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, files) == 0);
    own = File(files[0]);
    other = File(files[1]);
  }
};

void send(const File &file, const uint8_t *data, size_t size) {
  (void)::send(file.get(), data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// A listener, and strangers with pieces of the input. No stranger may prove
/// itself, since the input cannot know the nonce.
void callers(Input input) {
  static const File listener = [] {
    File file(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    sockaddr_un none = {};
    none.sun_family = AF_UNIX; // the system chooses a name
    require(::bind(file.get(), reinterpret_cast<sockaddr *>(&none),
                   sizeof(sa_family_t)) == 0 &&
            ::listen(file.get(), 256) == 0);
    return file;
  }();
  sockaddr_un place = {};
  socklen_t length = sizeof(place);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr *>(&place), &length);
  Callers callers(0, 2, {"job", "0123456789abcdef"}, 0.01);
  std::vector<File> strangers;
  // Always readable, so that no poll waits.
  static const File ready(::eventfd(1, EFD_CLOEXEC));
  std::vector<pollfd> others = {{ready.get(), POLLIN, 0}};
  for (size_t count = 1 + input.takeByte() % 4; count-- > 0;) {
    File &file = strangers.emplace_back(::socket(AF_UNIX, SOCK_STREAM, 0));
    require(::connect(file.get(), reinterpret_cast<sockaddr *>(&place),
                      length) == 0);
    require(callers.look(listener, others, patience()).empty());
    size_t size =
        count ? std::min<size_t>(input.takeByte(), input.size) : input.size;
    size_t first = size / 2;
    send(file, input.data, first);
    require(callers.look(listener, others, patience()).empty());
    send(file, input.data + first, size - first);
    input.data += size;
    input.size -= size;
    if (count % 2)
      ::shutdown(file.get(), SHUT_WR);
    require(callers.look(listener, others, patience()).empty());
  }
}

/// A caller, whose listener answers with the input.
void introduction(Input input) {
  Pair pair;
  send(pair.other, input.data, input.size);
  ::shutdown(pair.other.get(), SHUT_WR);
  Hello hello = {};
  hello.magic = greetingMagic;
  require(introduce(pair.own, hello, {"job", "0123456789abcdef"}, patience()) !=
          Answer::Accepted);
}

/// A rank that exchanges messages, whose peer sends the input.
void frames(Input input) {
  constexpr uint64_t most = 1024;
  Pair pair;
  Peer peer;
  peer.connection = std::move(pair.own);
  Link link(std::move(peer), 4);
  uint8_t settings = input.takeByte();
  uint64_t bytes = uint64_t(settings) * 4;
  std::vector<uint8_t> header(SCALIFY_TRANSPORT_HEADER), data(bytes);
  scalify_transport_message message = {1, header.data(), data.data(), bytes};
  Link::Note onNote = [](const Frame &note, const std::string &text) {
    require(note.rank >= -1 && note.rank < 4 && text.size() <= 4096);
  };
  link.begin(nullptr, &message);
  while (input.size) {
    size_t part = std::min<size_t>(1 + input.takeByte() * size_t(4), most);
    part = std::min(part, input.size);
    send(pair.other, input.data, part);
    input.data += part;
    input.size -= part;
    link.receive(onNote);
    if (link.isDone())
      link.begin(nullptr, &message);
    if (const uint64_t *other = link.otherLength()) {
      require(*other != bytes);
      break;
    }
  }
  link.giveUp();
  pair.other = File();
  link.receive(onNote);
  require(!link.lost.empty());
}

void header(Input input) {
  MessageHeader came = {}, expected = {};
  std::memcpy(static_cast<void *>(&came), input.data,
              std::min(input.size, sizeof(came)));
  Collective collective;
  collective.elements = 8;
  collective.members = {0, 1};
  collective.name = "grads";
  expected = makeHeader(collective, 3);
  // What seems to be readable must have a text.
  std::string text = difference(came, expected, 1, 0);
  require(!text.empty() || came.sequence == expected.sequence);
}

void notice(Input input) {
  static const File file(::memfd_create("notice", MFD_CLOEXEC));
  require(::ftruncate(file.get(), 0) == 0 &&
          ::pwrite(file.get(), input.data, input.size, 0) ==
              ssize_t(input.size));
  ::fchmod(file.get(), 0600);
  Notice found;
  readNotice("/proc/self/fd/" + std::to_string(file.get()), "job", 1, found);
  require(found.place.host.size() < 512 && found.secret.size() < 512);
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr void (*places[])(Input) = {callers, introduction, frames, header,
                                       notice};
  Input input = {data, size};
  size_t place = input.takeByte() % std::size(places);
  try {
    places[place](input);
  } catch (const Error &) {
    // Refused with a text.
  }
  return 0;
}
