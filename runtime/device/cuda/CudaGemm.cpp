#include "device/cuda/CudaGemm.h"
#include "support/Error.h"

#include <algorithm>
#include <iterator>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
DataType dataType(DType type) {
  switch (type) {
  case DType::F8E4M3FN:
    return R8F_E4M3;
  case DType::F8E5M2:
    return R8F_E5M2;
  case DType::BF16:
    return R16BF;
  case DType::F16:
    return R16F;
  default: // the reader lets only f32 through
    return R32F;
  }
}

/// Merges dimensions that step evenly over one another: fewer products.
std::vector<BatchDim> coalesce(const std::vector<BatchDim> &batch) {
  std::vector<BatchDim> out;
  for (const BatchDim &dim : batch) {
    if (dim.n == 1)
      continue;
    if (!out.empty()) {
      BatchDim &outer = out.back();
      auto fits = [&](int64_t step, int64_t inner) {
        return step == dim.n * inner;
      };
      if (fits(outer.a, dim.a) && fits(outer.b, dim.b) &&
          fits(outer.c, dim.c)) {
        outer = {outer.n * dim.n, dim.a, dim.b, dim.c};
        continue;
      }
    }
    out.push_back(dim);
  }
  return out;
}

/// Removes and returns the largest dimension, for cuBLASLt.
BatchDim takeLargest(std::vector<BatchDim> &batch) {
  auto largest = std::max_element(
      batch.begin(), batch.end(),
      [](const BatchDim &x, const BatchDim &y) { return x.n < y.n; });
  if (largest == batch.end())
    return {};
  BatchDim taken = *largest;
  batch.erase(largest);
  return taken;
}

/// The minimal alignment of a buffer, in bytes.
constexpr int64_t bufferAlignment = 64;

/// Returns the alignment of an operand's addresses in all products: that of
/// buffers, unless an offset or a stride reduces it.
uint32_t alignmentOf(const Command &command, const LtPlan &plan, int operand,
                     int64_t batchStride) {
  auto steps = uint64_t(bufferAlignment) |
               uint64_t(command.gemmOffsets[size_t(operand)]) |
               uint64_t(batchStride);
  for (const BatchDim &dim : plan.outer)
    steps |= uint64_t(operand == 0 ? dim.a : operand == 1 ? dim.b : dim.c);
  return uint32_t(steps & (~steps + 1));
}

ScaleMode modeOf(Scaling scaling) {
  switch (scaling) {
  case Scaling::Tensor:
    return ScaleScalar;
  case Scaling::Rows:
    return ScaleOuterVec;
  case Scaling::Vectors:
    return ScaleVec128;
  case Scaling::Blocks:
    return ScaleBlk128x128;
  }
  return ScaleScalar;
}

LtEpilogue epilogueOf(const GemmTypes &types) {
  switch (types.epilogue) {
  case Epilogue::None:
    return EpilogueDefault;
  case Epilogue::Bias:
    return EpilogueBias;
  case Epilogue::ReLU:
    return types.aux < 0 ? EpilogueReLU : EpilogueReLUAux;
  case Epilogue::BiasReLU:
    return types.aux < 0 ? EpilogueReLUBias : EpilogueReLUAuxBias;
  case Epilogue::GELU:
    return types.aux < 0 ? EpilogueGELU : EpilogueGELUAux;
  case Epilogue::BiasGELU:
    return types.aux < 0 ? EpilogueGELUBias : EpilogueGELUAuxBias;
  case Epilogue::ReLUGrad:
    return EpilogueDReLU;
  case Epilogue::GELUGrad:
    return EpilogueDGELU;
  }
  return EpilogueDefault;
}

LtSide side(DType type, bool transposed, int64_t rows, int64_t cols,
            int64_t leading) {
  LtSide out;
  out.type = dataType(type);
  out.rows = uint64_t(transposed ? cols : rows);
  out.cols = uint64_t(transposed ? rows : cols);
  out.leading = leading;
  return out;
}

void setBatch(LtProblem &p, const BatchDim &dim, bool isSwapped) {
  p.a.batch = p.b.batch = p.d.batch = int32_t(dim.n);
  p.a.batchStride = isSwapped ? dim.a : dim.b;
  p.b.batchStride = isSwapped ? dim.b : dim.a;
  p.d.batchStride = dim.c;
}
} // namespace

int64_t LtPlan::products() const {
  int64_t count = 1;
  for (const BatchDim &dim : outer)
    count *= dim.n;
  return problem.m() && problem.n() && problem.d.batch ? count : 0;
}

LtPlan cuda::planLt(const Command &command) {
  // The plan's row-major matrix is its transpose in column-major order: D' = B'
  // A'.
  const GemmPlan &rows = command.gemmPlan;
  const GemmTypes &types = command.gemmTypes;
  LtPlan plan;
  plan.isSwapped = rows.swapped;
  LtProblem &p = plan.problem;
  size_t a = plan.isSwapped ? 0 : 1; // the command's operand that is A
  p.opA = rows.transB ? OpT : OpN;
  p.opB = rows.transA ? OpT : OpN;
  p.a = side(types.operands[a], rows.transB, rows.n, rows.k, rows.ldb);
  p.b = side(types.operands[1 - a], rows.transA, rows.k, rows.m, rows.lda);
  p.d = side(types.operands[2], false, rows.n, rows.m, rows.ldc);
  if (isFP8(p.d.type))
    p.cType = R16BF; // from the manual's table, which also has the bias's type
  p.compute = types.isTF32 ? Compute32FFastTF32 : Compute32F;
  p.fastAccumulation = types.isFastAccumulation;
  p.aMode = modeOf(plan.isSwapped ? types.aScaling : types.bScaling);
  p.bMode = modeOf(plan.isSwapped ? types.bScaling : types.aScaling);
  p.epilogue = epilogueOf(types);
  p.biasType = dataType(types.biasType);
  plan.outer = coalesce(command.gemm.batch);
  setBatch(p, takeLargest(plan.outer), plan.isSwapped);
  if (hasMask(p.epilogue)) {
    // A bit mask, in rows as in the plan.
    constexpr int64_t unit = 128;
    p.auxLeading = (rows.n + unit - 1) / unit * unit;
  } else if (types.aux >= 0) {
    p.auxLeading = p.d.leading;
    p.auxBatchStride = p.d.batchStride;
  }
  for (BatchDim &dim : plan.outer) {
    dim.a *= byteWidth(types.operands[0]);
    dim.b *= byteWidth(types.operands[1]);
    dim.c *= byteWidth(types.operands[2]);
  }
  if (plan.products() && rows.k == 0)
    unsupported("gemm '" + command.name +
                "' sums over no elements; fill its result instead");
  return plan;
}

LtContext::LtContext(const Session &session, StreamHandle stream)
    : stream(stream), asked(getNumCandidates()),
      cache(asked > 1 ? std::make_unique<AlgorithmCache>() : nullptr),
      owner(&session),
      workspaceMemory(session.allocate(workspaceBytes, "workspace")),
      oneMemory(session.allocate(sizeof(float), "one")) {
  BlasHandle handle = nullptr;
  session.check(session.driver->cublasLtCreate(&handle), "cublasLtCreate");
  blas = {handle, [driver = session.driver](BlasHandle h) {
            driver->cublasLtDestroy(h);
          }};
  const float value = 1.0f;
  session.check(session.driver->cuMemcpyHtoDAsync_v2(oneMemory.get(), &value,
                                                     sizeof(value), stream),
                "cuMemcpyHtoDAsync");
  session.check(session.driver->cuStreamSynchronize(stream),
                "cuStreamSynchronize");
}

void CudaGemm::set(DescAttribute what, const void *value, size_t size) const {
  session->check(session->driver->cublasLtMatmulDescSetAttribute(
                     desc.get(), what, value, size),
                 "cublasLtMatmulDescSetAttribute");
}

void CudaGemm::setScales(const void *a, const void *b) const {
  const void *scales[] = {plan.isSwapped ? a : b, plan.isSwapped ? b : a};
  set(DescAScalePointer, static_cast<const void *>(&scales[0]), sizeof(void *));
  set(DescBScalePointer, static_cast<const void *>(&scales[1]), sizeof(void *));
}

void CudaGemm::setBias(const void *bias) const {
  set(DescBiasPointer, static_cast<const void *>(&bias), sizeof(void *));
}

void CudaGemm::setAux(const void *aux) const {
  set(DescAuxPointer, static_cast<const void *>(&aux), sizeof(void *));
}

void CudaGemm::setResult(const Command &command, const void *scale,
                         const void *amax) const {
  if (command.gemmTypes.cScale >= 0)
    set(DescDScalePointer, static_cast<const void *>(&scale), sizeof(void *));
  if (command.gemmTypes.amax >= 0)
    set(DescAmaxDPointer, static_cast<const void *>(&amax), sizeof(void *));
}

const void *CudaGemm::getBiasAlignedAddress(const LtContext &context,
                                            const Command &command) const {
  auto steps =
      uint64_t(bufferAlignment) | uint64_t(command.gemmTypes.biasOffset);
  return static_cast<const char *>(context.workspace()) +
         (steps & (~steps + 1));
}

CudaGemm::CudaGemm(LtContext &context, const Command &command)
    : session(&context.session()), plan(planLt(command)) {
  if (plan.products() == 0)
    return;
  const LtProblem &p = plan.problem;
  requireModes(command);
  desc = makeDesc(p);
  if (isFP8(p.a.type) || isFP8(p.b.type))
    setScales(context.one(), context.one());
  if (command.gemmTypes.bias >= 0)
    setBias(getBiasAlignedAddress(context, command));
  if (command.gemmTypes.aux >= 0)
    setAux(static_cast<const char *>(context.workspace()) + bufferAlignment);
  setResult(command, context.one(), context.workspace());
  LtSide c = p.d;
  c.type = p.cType.value_or(c.type);
  const LtSide *sides[] = {&p.a, &p.b, &p.d, &c};
  for (size_t i = 0; i < std::size(layouts); ++i)
    layouts[i] = makeLayout(*sides[i]);
  choose(context, command);
}

void CudaGemm::requireModes(const Command &command) const {
  const LtProblem &p = plan.problem;
  if (p.aMode == ScaleScalar && p.bMode == ScaleScalar)
    return;
  // cuBLASLt takes the scales of one matrix, so issue() must not loop.
  if (plan.products() != 1)
    unsupported("gemm '" + command.name +
                "' has a batch, and more than one scale per operand");
  size_t version = session->driver->cublasLtGetVersion();
  if (version < ltVersionOfModes)
    unsupported("gemm '" + command.name + "' at " + command.loc +
                " scales its operands by rows or blocks, which cuBLASLt has "
                "from 12.9 on (CUDA 12.9); this one is " +
                std::to_string(version / 10000) + "." +
                std::to_string(version / 100 % 100) +
                ". Install a newer one, or compile with a recipe of one scale "
                "per tensor");
}

Owned<MatmulDesc> CudaGemm::makeDesc(const LtProblem &p) const {
  const Driver &driver = *session->driver;
  MatmulDesc handle = nullptr;
  session->check(
      driver.cublasLtMatmulDescCreate(&handle, p.compute, p.scaleType),
      "cublasLtMatmulDescCreate");
  Owned<MatmulDesc> made(handle, [driver = session->driver](MatmulDesc d) {
    driver->cublasLtMatmulDescDestroy(d);
  });
  auto set = [&](DescAttribute what, const auto &value) {
    session->check(driver.cublasLtMatmulDescSetAttribute(handle, what, &value,
                                                         sizeof(value)),
                   "cublasLtMatmulDescSetAttribute");
  };
  set(DescTransA, p.opA);
  set(DescTransB, p.opB);
  if (p.fastAccumulation)
    set(DescFastAccum, int8_t(1));
  if (p.epilogue != EpilogueDefault)
    set(DescEpilogue, p.epilogue);
  if (addsBias(p.epilogue))
    set(DescBiasDataType, p.biasType);
  if (hasAux(p.epilogue))
    set(DescAuxLd, p.auxLeading);
  if (hasAux(p.epilogue) && p.d.batch > 1)
    set(DescAuxBatchStride, p.auxBatchStride);
  // Libraries before 12.8 do not know the attribute.
  if (p.aMode != ScaleScalar)
    set(DescAScaleMode, p.aMode);
  if (p.bMode != ScaleScalar)
    set(DescBScaleMode, p.bMode);
  return made;
}

Owned<MatrixLayout> CudaGemm::makeLayout(const LtSide &side) const {
  const Driver &driver = *session->driver;
  MatrixLayout handle = nullptr;
  session->check(driver.cublasLtMatrixLayoutCreate(
                     &handle, side.type, side.rows, side.cols, side.leading),
                 "cublasLtMatrixLayoutCreate");
  Owned<MatrixLayout> made(handle, [driver = session->driver](MatrixLayout l) {
    driver->cublasLtMatrixLayoutDestroy(l);
  });
  auto set = [&](LayoutAttribute what, const auto &value) {
    session->check(driver.cublasLtMatrixLayoutSetAttribute(handle, what, &value,
                                                           sizeof(value)),
                   "cublasLtMatrixLayoutSetAttribute");
  };
  if (side.batch > 1) {
    set(LayoutBatchCount, side.batch);
    set(LayoutBatchStride, side.batchStride);
  }
  return made;
}

Owned<MatmulPreference> CudaGemm::makePreference(const Command &command) const {
  const Driver &driver = *session->driver;
  MatmulPreference handle = nullptr;
  session->check(driver.cublasLtMatmulPreferenceCreate(&handle),
                 "cublasLtMatmulPreferenceCreate");
  Owned<MatmulPreference> made(handle,
                               [driver = session->driver](MatmulPreference p) {
                                 driver->cublasLtMatmulPreferenceDestroy(p);
                               });
  auto set = [&](PreferenceAttribute what, const auto &value) {
    session->check(driver.cublasLtMatmulPreferenceSetAttribute(
                       handle, what, &value, sizeof(value)),
                   "cublasLtMatmulPreferenceSetAttribute");
  };
  set(PrefMaxWorkspace, LtContext::workspaceBytes);
  // Without the attribute cuBLASLt assumes 256 bytes.
  int a = plan.isSwapped ? 0 : 1;
  auto alignment = [&](int operand, const LtSide &side) {
    return alignmentOf(command, plan, operand,
                       side.batch > 1 ? side.batchStride * bytesOf(side.type)
                                      : 0);
  };
  set(PrefAlignmentA, alignment(a, plan.problem.a));
  set(PrefAlignmentB, alignment(1 - a, plan.problem.b));
  set(PrefAlignmentC, alignment(2, plan.problem.d));
  set(PrefAlignmentD, alignment(2, plan.problem.d));
  return made;
}

std::vector<HeuristicResult> CudaGemm::candidates(const LtContext &context,
                                                  const Command &command,
                                                  int asked) const {
  Owned<MatmulPreference> preference = makePreference(command);
  std::vector<HeuristicResult> results(static_cast<size_t>(asked));
  int found = 0;
  BlasStatus status = session->driver->cublasLtMatmulAlgoGetHeuristic(
      context.handle(), desc.get(), layouts[0].get(), layouts[1].get(),
      layouts[3].get(), layouts[2].get(), preference.get(), asked,
      results.data(), &found);
  results.resize(static_cast<size_t>(std::max(found, 0)));
  if (status == BlasSuccess)
    status = results.empty() ? BlasNotSupported : results.front().state;
  std::string wayOut =
      plan.problem.epilogue == EpilogueDefault && !plan.problem.cType
          ? ""
          : "; a kernel can compute the epilogue or cast (scalify-compile "
            "--epilogues=none, epilogues=\"none\" in Python)";
  session->check(status, "cublasLtMatmulAlgoGetHeuristic",
                 "the product is " + describe(plan.problem) + wayOut);
  return results;
}

void CudaGemm::choose(LtContext &context, const Command &command) {
  std::vector<HeuristicResult> found =
      candidates(context, command, context.asked);
  algo = found.front().algo;
  if (found.size() == 1)
    return;
  std::string key = session->deviceName() + ", cuBLASLt " +
                    std::to_string(session->driver->cublasLtGetVersion()) +
                    ", " + std::to_string(context.asked) + ": " +
                    describe(plan.problem) +
                    (command.gemmTypes.amax < 0 ? "" : " amax");
  if (int kept = context.cache->find(key, found); kept >= 0) {
    algo = found[size_t(kept)].algo;
    return;
  }
  algo = measure(context, command, found);
  context.cache->keep(key, algo);
}

std::vector<size_t> CudaGemm::bytesToMeasure(const Command &command) const {
  const GemmTypes &types = command.gemmTypes;
  std::vector<size_t> bytes(command.buffers.size());
  for (int i = 0; i < 3; ++i) {
    int64_t last = 0;
    command.gemm.lastElement(i, last);
    bytes[size_t(i)] =
        size_t((last + 1) * byteWidth(types.operands[size_t(i)]));
  }
  auto scales = [&](int32_t at, Scaling scaling, int64_t rows) {
    if (at >= 0)
      bytes[size_t(at)] = ltScaleBytes(modeOf(scaling), uint64_t(rows),
                                       uint64_t(command.gemm.k));
  };
  scales(types.aScale, types.aScaling, command.gemm.m);
  scales(types.bScale, types.bScaling, command.gemm.n);
  if (types.aux >= 0)
    bytes[size_t(types.aux)] =
        hasMask(plan.problem.epilogue) ? ltAuxBytes(plan.problem) : bytes[2];
  for (int32_t number : {types.cScale, types.amax})
    if (number >= 0)
      bytes[size_t(number)] = sizeof(float);
  if (types.bias >= 0)
    bytes[size_t(types.bias)] =
        size_t(types.biasOffset + command.gemm.n * byteWidth(types.biasType));
  return bytes;
}

MatmulAlgo CudaGemm::measure(const LtContext &context, const Command &command,
                             const std::vector<HeuristicResult> &found) {
  // Uses memory of its own: at load the arguments are unknown. Its bytes are
  // some small number in every type. They do not resemble a step's data, on
  // which a product's power draw depends.
  constexpr unsigned char someByte = 0x3c;
  std::vector<DeviceBlock> operands;
  std::vector<void *> at;
  for (size_t bytes : bytesToMeasure(command)) {
    operands.push_back(session->allocate(bytes, "search"));
    session->check(session->driver->cuMemsetD8Async(
                       operands.back().get(), someByte, bytes, context.stream),
                   "cuMemsetD8Async");
    at.push_back(pointer(operands.back().get()));
  }
  MatmulAlgo best = found.front().algo;
  double bestTime = 0;
  for (const HeuristicResult &candidate : found) {
    if (candidate.state != BlasSuccess)
      continue;
    algo = candidate.algo;
    double time = measureTime(*session, context.stream, [&] {
      issue(context, command, at.data(), context.stream);
    });
    if (bestTime == 0 || time < bestTime) {
      bestTime = time;
      best = algo;
    }
  }
  return best;
}

void CudaGemm::issue(const LtContext &context, const Command &command,
                     void *const *buffers, StreamHandle stream) const {
  const GemmTypes &types = command.gemmTypes;
  const int64_t products = plan.products();
  if (products && isFP8(plan.problem.a.type)) {
    const void *one = context.one();
    setScales(types.aScale < 0 ? one : buffers[types.aScale],
              types.bScale < 0 ? one : buffers[types.bScale]);
  }
  if (products && types.bias >= 0)
    setBias(static_cast<const char *>(buffers[types.bias]) + types.biasOffset);
  auto bufferAt = [&](int32_t place) {
    return place < 0 ? nullptr : buffers[place];
  };
  if (products)
    setResult(command, bufferAt(types.cScale), bufferAt(types.amax));
  for (int64_t product = 0; product < products; ++product) {
    std::array<char *, 3> at;
    for (size_t i = 0; i < 3; ++i)
      at[i] = static_cast<char *>(buffers[i]);
    int64_t rest = product;
    for (const BatchDim &dim : plan.outer) {
      int64_t index = rest % dim.n;
      rest /= dim.n;
      at[0] += index * dim.a;
      at[1] += index * dim.b;
      at[2] += index * dim.c;
    }
    // `aux` has the result's layout; a bit mask is only used without a batch.
    if (types.aux >= 0)
      setAux(static_cast<char *>(buffers[types.aux]) +
             (at[2] - static_cast<char *>(buffers[2])));
    issueOne(context, command, at, stream);
  }
}

void CudaGemm::issueOne(const LtContext &context, const Command &command,
                        const std::array<char *, 3> &at,
                        StreamHandle stream) const {
  size_t a = plan.isSwapped ? 0 : 1;
  // A C of another type must not use D's memory, even if beta is zero.
  const void *c = plan.problem.cType ? nullptr : at[2];
  session->check(session->driver->cublasLtMatmul(
                     context.handle(), desc.get(), &command.gemm.alpha, at[a],
                     layouts[0].get(), at[1 - a], layouts[1].get(),
                     &command.gemm.beta, c, layouts[3].get(), at[2],
                     layouts[2].get(), &algo, context.workspace(),
                     LtContext::workspaceBytes, stream),
                 "cublasLtMatmul", "the product is " + describe(plan.problem));
}
