// A communicator without other ranks, which records this rank's exchanges.
#ifndef SCALIFY_RUNTIME_COMM_RECORDCOMMUNICATOR_H
#define SCALIFY_RUNTIME_COMM_RECORDCOMMUNICATOR_H

#include "comm/Communicator.h"

namespace scalify::rt {

class RecordCommunicator : public Communicator {
public:
  RecordCommunicator(int32_t rank, int32_t size) : self(rank), ranks(size) {}
  int32_t rank() const override { return self; }
  int32_t size() const override { return ranks; }
  bool hasOthers() const override { return false; }
  void beginStep(uint64_t number, uint64_t) override { step = number; }
  void run(const Collective &collective, const void *source,
           void *destination) override;
  uint64_t bytesSent() const override { return total; }
  void addBytesSent(uint64_t bytes) override { total += bytes; }
  const std::string &trace() const { return lines; }

private:
  int32_t self, ranks;
  uint64_t step = 0, total = 0;
  std::string lines;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_RECORDCOMMUNICATOR_H
