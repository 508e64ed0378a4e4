#include "comm/tcp/Link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

using namespace scalify::rt::tcp;

namespace {
constexpr uint64_t frameBytes = sizeof(Frame);
constexpr uint64_t scratchBytes = uint64_t(64) << 10;
constexpr uint64_t maxNoteBytes = 4096;
} // namespace

void Link::begin(const scalify_transport_message *out,
                 const scalify_transport_message *in) {
  receiving = in;
  sending = out;
  isOut = out != nullptr;
  outDone = 0;
  if (!out)
    return;
  outFrame = Frame();
  outFrame.length = out->bytes;
  std::memcpy(outFrame.header, out->header, sizeof(outFrame.header));
}

void Link::add(const Frame &note, const std::string &text) {
  Bytes next;
  Frame frame = note;
  frame.length = std::min<uint64_t>(text.size(), maxNoteBytes);
  next.bytes.resize(frameBytes + frame.length);
  std::memcpy(next.bytes.data(), &frame, frameBytes);
  std::memcpy(next.bytes.data() + frameBytes, text.data(), frame.length);
  notes.push_back(std::move(next));
}

/// Returns the number of bytes written, 0 if none can be written now.
size_t Link::write(const void *data, size_t bytes, bool isMore) {
  if (!lost.empty())
    return 0;
  int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (isMore ? MSG_MORE : 0);
  ssize_t count = ::send(peer.connection.get(), data, bytes, flags);
  if (count < 0 && errno != EAGAIN && errno != EINTR)
    lost = std::strerror(errno);
  return count < 0 ? 0 : size_t(count);
}

size_t Link::read(void *data, size_t bytes) {
  if (!lost.empty())
    return 0;
  ssize_t count = ::recv(peer.connection.get(), data, bytes, MSG_DONTWAIT);
  if (count == 0)
    lost = "the connection ended";
  else if (count < 0 && errno != EAGAIN && errno != EINTR)
    lost = std::strerror(errno);
  return count < 0 ? 0 : size_t(count);
}

/// Returns false if it stops before the message's end.
bool Link::sendMessage() {
  static const uint8_t zeros[scratchBytes] = {};
  const uint64_t end = frameBytes + outFrame.length;
  const uint8_t given = hasGivenUp ? 1 : 0;
  while (isOut) {
    const uint8_t *from = &given;
    uint64_t bytes = 1;
    if (outDone < frameBytes) {
      from = reinterpret_cast<const uint8_t *>(&outFrame) + outDone;
      bytes = frameBytes - outDone;
    } else if (outDone < end) {
      bytes = end - outDone;
      from = zeros;
      if (sending)
        from =
            static_cast<const uint8_t *>(sending->data) + outDone - frameBytes;
      else
        bytes = std::min(bytes, scratchBytes);
    }
    size_t count = write(from, bytes, outDone < end);
    outDone += count;
    isOut = outDone <= end;
    if (count == 0)
      return false;
  }
  outDone = 0;
  return true;
}

bool Link::sendNotes() {
  while (!notes.empty()) {
    Bytes &next = notes.front();
    size_t count = write(next.bytes.data() + next.done,
                         next.bytes.size() - next.done, false);
    next.done += count;
    if (next.done == next.bytes.size())
      notes.pop_front();
    else if (count == 0)
      return false;
  }
  return true;
}

bool Link::send() {
  uint64_t before = outDone;
  bool wasOut = isOut;
  bool isMidway = outDone > 0;
  bool isNote = !notes.empty() && notes.front().done > 0;
  // A message or note that has begun continues; otherwise notes go first, since
  // they are short.
  if (isMidway && !isNote && !sendMessage())
    return outDone != before;
  if (sendNotes() && isOut)
    sendMessage();
  return outDone != before || wasOut != isOut;
}

/// Returns false if it stops before the end of the incoming data.
bool Link::receiveData() {
  uint8_t scratch[4096];
  const uint64_t end = frameBytes + inFrame.length;
  if (!hasGivenUp && inDone == frameBytes) {
    std::memcpy(receiving->header, inFrame.header, sizeof(inFrame.header));
    isOfOtherSize = inFrame.length != receiving->bytes;
    if (isOfOtherSize)
      return false;
  }
  while (inDone <= end) {
    uint8_t *to = &mark;
    uint64_t bytes = 1;
    if (inDone < end) {
      bytes = end - inDone;
      to = hasGivenUp
               ? scratch
               : static_cast<uint8_t *>(receiving->data) + inDone - frameBytes;
      if (hasGivenUp)
        bytes = std::min<uint64_t>(bytes, sizeof(scratch));
    }
    size_t count = read(to, bytes);
    inDone += count;
    if (count == 0)
      return false;
  }
  // If the data were given up, a note with the reason follows.
  if (mark == 0)
    receiving = nullptr;
  inDone = 0;
  return true;
}

/// True if the frame can come from a rank: a known kind, an existing rank, and
/// a bounded note. Data of a stranger are not.
bool Link::isValidFrame(const Frame &frame) const {
  bool isNote = frame.kind != Frame::Data;
  return frame.kind <= Frame::WaitsFor && frame.rank >= -1 &&
         frame.rank < size && !(isNote && frame.length > maxNoteBytes);
}

bool Link::receiveNote(const Note &onNote) {
  noteText.resize(inFrame.length);
  uint64_t done = inDone - frameBytes;
  while (done < inFrame.length) {
    size_t count = read(noteText.data() + done, inFrame.length - done);
    inDone += count;
    done += count;
    if (count == 0)
      return false;
  }
  inDone = 0;
  hasClosed |= inFrame.kind == Frame::Closed;
  onNote(inFrame, noteText);
  return true;
}

bool Link::receive(const Note &onNote) {
  bool moved = false;
  while (lost.empty() && !isOfOtherSize && isInput()) {
    if (inDone < frameBytes) {
      size_t count = read(reinterpret_cast<uint8_t *>(&inFrame) + inDone,
                          frameBytes - inDone);
      inDone += count;
      if (count == 0)
        return moved;
      if (inDone == frameBytes && !isValidFrame(inFrame))
        lost = "the received data are no message of a rank";
      continue;
    }
    uint64_t before = inDone;
    bool isData = inFrame.kind == Frame::Data;
    bool isWhole = isData ? receiveData() : receiveNote(onNote);
    moved |= isData && (isWhole || inDone != before);
    if (!isWhole)
      return moved;
  }
  return moved;
}

pollfd Link::wanted() const {
  short events = 0;
  if (lost.empty() && isInput())
    events |= POLLIN;
  if (lost.empty() && !hasSent())
    events |= POLLOUT;
  // poll() reports errors even without events: such a descriptor is left out.
  return {events ? peer.connection.get() : -1, events, 0};
}

void Link::giveUp() {
  hasGivenUp = true;
  isOfOtherSize = false;
  receiving = sending = nullptr;
  isOut = outDone > 0;
}

void Link::end() const { (void)::shutdown(peer.connection.get(), SHUT_WR); }
