// One connection between two ranks, as a stream of frames: messages, and notes
// about ranks between them.
#ifndef SCALIFY_RUNTIME_COMM_TCP_LINK_H
#define SCALIFY_RUNTIME_COMM_TCP_LINK_H

#include "comm/tcp/Rendezvous.h"

#include <deque>
#include <functional>

namespace scalify::rt::tcp {

struct Frame {
  enum Kind : uint32_t { Data, Stopped, Closed, WaitsFor } kind = Data;
  /// That stopped first, or that the sender waits for; -1 for nobody.
  int32_t rank = -1;
  uint64_t length = 0; // of what follows
  uint8_t header[SCALIFY_TRANSPORT_HEADER] = {};
};

class Link {
public:
  using Note = std::function<void(const Frame &, const std::string &text)>;
  Link(Peer other, int32_t size) : peer(std::move(other)), size(size) {}

  void begin(const scalify_transport_message *out,
             const scalify_transport_message *in);
  /// Puts a note behind the message that is on its way.
  void add(const Frame &note, const std::string &text);

  /// Moves what can be moved now; returns whether any of a message was.
  bool send();
  bool receive(const Note &onNote);

  bool isDone() const { return !isOut && !receiving; }
  bool isReceiving() const { return receiving != nullptr; }
  /// The length of what came, where it is not what is received.
  const uint64_t *otherLength() const {
    return isOfOtherSize ? &inFrame.length : nullptr;
  }
  /// What to wait for: no input where what comes next is not wanted yet.
  pollfd wanted() const;

  /// The messages' memory is the caller's again: what is left of one that has
  /// begun is filled up and marked, and what comes is not kept.
  void giveUp();
  bool hasSent() const { return !isOut && notes.empty(); }
  /// The other end sees, behind what was sent, that no more comes.
  void end() const;

  Peer peer;
  std::string lost; // why there is no connection any more
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

  bool isOfRank(const Frame &frame) const;

  int32_t size; // of all ranks
  const scalify_transport_message *sending = nullptr, *receiving = nullptr;
  Frame outFrame, inFrame;
  uint64_t outDone = 0, inDone = 0; // bytes of frame, data and mark
  uint8_t mark = 0;                 // behind data: 1 where they are given up
  bool isOut = false, isOfOtherSize = false, hasGivenUp = false;
  std::deque<Bytes> notes;
  std::string noteText;
};

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_LINK_H
