// The recording's cuDNN: accepts what the contract allows.
#include "device/cuda/AttentionContract.h"
#include "device/cuda/RecordingObjects.h"

using namespace scalify::rt;
using namespace scalify::rt::cuda;

class RecordingDriver::Attention : public AttentionPlan {
public:
  Attention(RecordingDriver &driver, AttentionShape shape)
      : driver(driver), shape(std::move(shape)) {}

  /// As in cuDNN's frontend on Hopper: F32 sums of the gradient of q, and one
  /// number per row.
  size_t workspaceBytes() const override {
    int64_t rows = shape.batch * shape.heads * shape.queries;
    return shape.isGradient ? size_t(rows * (shape.channels + 1) * 4) : 0;
  }

  std::string issue(void *const *buffers, void *workspace,
                    StreamHandle stream) override;

private:
  RecordingDriver &driver;
  AttentionShape shape;
};

std::string RecordingDriver::Attention::issue(void *const *buffers,
                                              void *workspace,
                                              StreamHandle stream) {
  if (driver.fails("cudnnExecute") || !driver.get(stream, Kind::Stream))
    return "recorded failure";
  std::string reason = checkAttentionAddresses(shape, buffers);
  std::string places;
  for (size_t i = 0; i < shape.buffers(); ++i) {
    std::string place = driver.at(buffers[i]);
    if (reason.empty() && place.empty())
      reason = "an operand is not on the device";
    places += std::string(" ") + bufferName(shape, i) + "=" + place;
  }
  if (reason.empty() && workspaceBytes() &&
      !driver.covers(onDevice(workspace), workspaceBytes()))
    reason = "the workspace is missing or too small";
  if (!reason.empty())
    return reason;
  Status status = driver.work(std::string("cudnnExecute attention") +
                                  (shape.isGradient ? "_grad" : "") + places +
                                  " | " + describe(shape),
                              stream);
  return status == Success ? "" : "the stream accepts no work now";
}

class RecordingDriver::Cudnn : public AttentionLibrary {
public:
  explicit Cudnn(RecordingDriver &driver) : driver(driver) {}

  std::unique_ptr<AttentionPlan> plan(const AttentionShape &shape,
                                      std::string &why) override {
    why = driver.fails("cudnnPlan") ? "recorded failure"
                                    : attentionViolation(shape);
    return why.empty() ? std::make_unique<Attention>(driver, shape) : nullptr;
  }

private:
  RecordingDriver &driver;
};

std::unique_ptr<AttentionLibrary> RecordingDriver::openAttention() {
  return std::make_unique<Cudnn>(*this);
}
