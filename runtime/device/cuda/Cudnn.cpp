// Attentions by cuDNN, through its frontend's graphs, if the headers of both
// and of CUDA's runtime are found at build time; else an error with the way
// out. The libraries are opened when an artefact needs them.
#include "device/cuda/Attention.h"
#include "device/cuda/AttentionContract.h"
#include "device/cuda/Library.h"
#include "support/Error.h"

#if __has_include(<cudnn_frontend.h>) && __has_include(<cudnn.h>) &&             \
    __has_include(<cuda_runtime.h>)
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

#include <mutex>
#include <unordered_map>

namespace cudnn_frontend {
// The frontend looks up cuDNN's entry points in this library.
void *cudnn_dlhandle = nullptr;
} // namespace cudnn_frontend

using namespace scalify::rt;
using namespace scalify::rt::cuda;
namespace fe = cudnn_frontend;

namespace {
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Builds the graph of one attention; a tensor's uid is its buffer's index.
class GraphBuilder {
public:
  explicit GraphBuilder(const AttentionShape &shape) : shape(shape) {
    graph
        ->set_io_data_type(shape.type == DType::F16 ? fe::DataType_t::HALF
                                                    : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<fe::graph::Graph> build() {
    shape.isGradient ? buildGradient() : buildForward();
    return graph;
  }

private:
  using Extents = std::vector<int64_t>;

  Extents extents(size_t buffer) const {
    bool isStatistics = buffer == shape.statistics();
    return {shape.batch, shape.headsOf(buffer), shape.rowsOf(buffer),
            isStatistics ? 1 : shape.channels};
  }
  Extents strides(size_t buffer) const {
    if (buffer == shape.statistics())
      return {shape.heads * shape.queries, shape.queries, 1, 1};
    size_t matrix = buffer - (buffer > shape.statistics() ? 1 : 0);
    const AttentionWindow &window = shape.windows[matrix];
    return {window.batch, window.head, window.row, 1};
  }
  void place(fe::graph::Tensor_attributes &tensor, size_t buffer) const {
    tensor.set_name(bufferName(shape, buffer))
        .set_uid(int64_t(buffer))
        .set_dim(extents(buffer))
        .set_stride(strides(buffer));
    if (buffer == shape.statistics())
      tensor.set_data_type(fe::DataType_t::FLOAT);
  }
  Tensor input(size_t buffer) {
    fe::graph::Tensor_attributes tensor;
    place(tensor, buffer);
    return graph->tensor(tensor);
  }
  void output(const Tensor &tensor, size_t buffer) const {
    place(*tensor, buffer);
    tensor->set_output(true);
  }
  void buildForward() {
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(true)
                       .set_causal_mask(shape.isCausal)
                       .set_attn_scale(shape.scale);
    auto [result, statistics] =
        graph->sdpa(input(0), input(1), input(2), options);
    output(result, 3);
    output(statistics, shape.statistics());
  }
  void buildGradient() {
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention_grad")
                       .set_causal_mask(shape.isCausal)
                       .set_attn_scale(shape.scale);
    auto [q, k, v] =
        graph->sdpa_backward(input(0), input(1), input(2), input(3), input(4),
                             input(shape.statistics()), options);
    output(q, 6);
    output(k, 7);
    output(v, 8);
  }

  const AttentionShape &shape;
  std::shared_ptr<fe::graph::Graph> graph =
      std::make_shared<fe::graph::Graph>();
};

class CudnnPlan : public AttentionPlan {
public:
  CudnnPlan(cudnnHandle_t handle, const AttentionShape &shape)
      : handle(handle), shape(shape), graph(GraphBuilder(shape).build()) {}

  /// Returns why cuDNN has no plan for it, or "".
  std::string prepare() {
    auto status = graph->build(handle, {fe::HeurMode_t::A});
    if (status.is_good())
      status = graph->get_workspace_size(bytes);
    return status.is_good() ? "" : status.get_message();
  }

  size_t workspaceBytes() const override { return size_t(bytes); }

  std::string issue(void *const *buffers, void *workspace,
                    StreamHandle stream) override {
    if (fe::detail::set_stream(handle, reinterpret_cast<cudaStream_t>(
                                           stream)) != CUDNN_STATUS_SUCCESS)
      return "cudnnSetStream failed";
    std::unordered_map<int64_t, void *> places;
    for (size_t i = 0; i < shape.buffers(); ++i)
      places[int64_t(i)] = buffers[i];
    for (size_t matrix = 0; matrix < shape.windows.size(); ++matrix) {
      size_t buffer = shape.bufferOf(matrix);
      places[int64_t(buffer)] =
          static_cast<char *>(buffers[buffer]) +
          shape.windows[matrix].offset * byteWidth(shape.type);
    }
    auto status = graph->execute(handle, places, workspace);
    return status.is_good() ? "" : status.get_message();
  }

private:
  cudnnHandle_t handle;
  AttentionShape shape;
  std::shared_ptr<fe::graph::Graph> graph;
  int64_t bytes = 0;
};

class Cudnn : public AttentionLibrary {
public:
  explicit Cudnn(cudnnHandle_t handle) : handle(handle) {}
  Cudnn(const Cudnn &) = delete;
  Cudnn &operator=(const Cudnn &) = delete;
  ~Cudnn() override { fe::detail::destroy_handle(handle); }

  std::unique_ptr<AttentionPlan> plan(const AttentionShape &shape,
                                      std::string &why) override {
    why = attentionViolation(shape);
    if (!why.empty())
      return nullptr;
    auto made = std::make_unique<CudnnPlan>(handle, shape);
    why = made->prepare();
    return why.empty() ? std::move(made) : nullptr;
  }

private:
  cudnnHandle_t handle;
};

void openCudnn() {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (fe::cudnn_dlhandle)
    return;
  std::string advice = std::string("install cuDNN 9 (PyPI: nvidia-cudnn-cu13) "
                                   "and CUDA's runtime, or name their folders "
                                   "in ") +
                       foldersVariable;
  // The frontend opens this library by its name, which succeeds once it is
  // open.
  openLibrary({"libcudart.so.13", "libcudart.so.12"}, advice);
  fe::cudnn_dlhandle = openLibrary({"libcudnn.so.9"}, advice);
}
} // namespace

std::unique_ptr<AttentionLibrary> cuda::loadCudnn() {
  openCudnn();
  cudnnHandle_t handle = nullptr;
  cudnnStatus_t status = fe::detail::create_handle(&handle);
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error(SCALIFY_RT_INTERNAL, std::string("cudnnCreate failed: ") +
                                         fe::detail::get_error_string(status));
  return std::make_unique<Cudnn>(handle);
}

#else

using namespace scalify::rt;

std::unique_ptr<cuda::AttentionLibrary> cuda::loadCudnn() {
  unsupported(
      std::string("the artefact has attentions by cuDNN, but this runtime was "
                  "built without it: build it with cuDNN's headers (PyPI: "
                  "nvidia-cudnn-cu13, nvidia-cudnn-frontend; "
                  "docs/runtime.md), or compile the step without "
                  "(scalify-compile --library-attention=false, "
                  "library_attention=False in Python)") +
      wayOut);
}

#endif
