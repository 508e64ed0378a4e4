// Computes nothing and records every command, so that a test can check a plan's
// commands on any machine.
#include "device/HostDevice.h"

using namespace scalify::rt;

namespace {
class NullDevice : public HostDevice {
public:
  void kernel(const Command &command, void *const *, uint64_t *) override {
    record(command, command.symbol + " rows=" + std::to_string(command.rows) +
                        " per_task=" + std::to_string(command.rowsPerTask) +
                        " tasks=" + std::to_string(command.tasks()));
  }
  void gemm(const Command &command, void *const *) override {
    const GemmShape &g = command.gemm;
    record(command, command.name + " " + std::to_string(g.m) + "x" +
                        std::to_string(g.n) + "x" + std::to_string(g.k) +
                        " batch=" + std::to_string(g.batchCount()));
  }
  void lapack(const Command &command, void *const *) override {
    const LapackShape &s = command.lapack.shape;
    record(command, command.name + " '" + s.letters + "' " +
                        std::to_string(s.m) + "x" + std::to_string(s.n) + "x" +
                        std::to_string(s.k) +
                        " batch=" + std::to_string(s.batch) +
                        " tasks=" + std::to_string(command.lapack.tasks));
  }
  void collective(const Command &command, Communicator *, const void *,
                  void *) override {
    record(
        command,
        std::string(name(command.collective.kind)) +
            " elements=" + std::to_string(command.collective.elements) +
            (command.stream ? " stream" + std::to_string(command.stream) : ""));
  }
  void copy(const Command &command, const void *, void *) override {
    record(command, "bytes=" + std::to_string(command.bytes));
  }
  void fill(const Command &command, void *) override {
    record(command, "bytes=" + std::to_string(command.bytes) +
                        " byte=" + std::to_string(command.fillByte));
  }
  void record(const Command &command) override { recordEvent(command); }
  void wait(const Command &command) override { recordEvent(command); }
  std::string trace() const override { return lines; }
  bool isReal() const override { return false; }

private:
  void recordEvent(const Command &command) {
    lines += std::string(name(command.op)) + " event" +
             std::to_string(command.event) + " stream" +
             std::to_string(command.stream) + "\n";
  }
  void record(const Command &command, const std::string &what) {
    lines += std::string(name(command.op)) + " " + what + " bufs=[";
    for (size_t i = 0; i < command.buffers.size(); ++i)
      lines += (i ? "," : "") + std::to_string(command.buffers[i]);
    lines += "]\n";
  }

  std::string lines;
};
} // namespace

std::unique_ptr<Device> scalify::rt::makeNullDevice() {
  return std::make_unique<NullDevice>();
}
