// A connection between two ranks as a stream of frames: messages, with notes
// about ranks between them.
#ifndef SCALIFY_RUNTIME_COMM_TCP_LINK_H
#define SCALIFY_RUNTIME_COMM_TCP_LINK_H

#include "comm/tcp/Rendezvous.h"

#include <deque>
#include <functional>

namespace scalify::rt::tcp {

struct Frame {
  enum Kind : uint32_t { Data, Stopped, Closed, WaitsFor } kind = Data;
  /// The rank that stopped first, or that the sender waits for; -1 for none.
  int32_t rank = -1;
  uint64_t length = 0; // of the data that follow
  uint8_t header[SCALIFY_TRANSPORT_HEADER] = {};
};

class Link {
public:
  using Note = std::function<void(const Frame &, const std::string &text)>;
  Link(Peer other, int32_t size) : peer(std::move(other)), size(size) {}

  void begin(const scalify_transport_message *out,
             const scalify_transport_message *in);
  /// Queues a note after the message in flight.
  void add(const Frame &note, const std::string &text);

  /// Moves the data that can be moved now; returns true if any of a message
  /// moved.
  bool send();
  bool receive(const Note &onNote);

  bool isDone() const { return !isOut && !receiving; }
  bool isReceiving() const { return receiving != nullptr; }
  /// Returns the received length if it is not the expected one, else null.
  const uint64_t *otherLength() const {
    return isOfOtherSize ? &inFrame.length : nullptr;
  }
  /// Returns the events to poll for: no input while the next data are not
  /// wanted yet.
  pollfd wanted() const;

  /// Releases the messages' memory to the caller: the rest of a message that
  /// has begun is filled with zeros and marked, and incoming data are
  /// discarded.
  void giveUp();
  bool hasSent() const { return !isOut && notes.empty(); }
  /// Ends sending: the peer sees the end after all data sent so far.
  void end() const;

  Peer peer;
  std::string lost; // why the connection is lost
  bool hasClosed = false;

private:
  struct Bytes {
    std::vector<uint8_t> bytes;
    size_t done = 0;
  };
  bool isInput() const {
    return inDone < sizeof(Frame) || inFrame.kind != Frame::Data || receiving ||
           hasGivenUp;
  }
  size_t write(const void *data, size_t bytes, bool isMore);
  size_t read(void *data, size_t bytes);
  bool sendMessage();
  bool sendNotes();
  bool receiveData();
  bool receiveNote(const Note &onNote);

  bool isValidFrame(const Frame &frame) const;

  int32_t size; // of all ranks
  const scalify_transport_message *sending = nullptr, *receiving = nullptr;
  Frame outFrame, inFrame;
  uint64_t outDone = 0, inDone = 0; // bytes of frame, data and mark
  uint8_t mark = 0;                 // after the data: 1 if they were given up
  bool isOut = false, isOfOtherSize = false, hasGivenUp = false;
  std::deque<Bytes> notes;
  std::string noteText;
};

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_LINK_H
