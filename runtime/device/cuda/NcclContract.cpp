#include "device/cuda/NcclContract.h"
#include "comm/JoinParts.h"
#include "support/Error.h"
#include "support/FloatFormats.h"

#include <optional>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
std::optional<NcclType> typeOf(DType type) {
  switch (type) {
  case DType::I8:
    return NcclInt8;
  case DType::I1:
  case DType::U8:
    return NcclUint8;
  case DType::I32:
    return NcclInt32;
  case DType::U32:
    return NcclUint32;
  case DType::I64:
    return NcclInt64;
  case DType::U64:
    return NcclUint64;
  case DType::F16:
    return NcclFloat16;
  case DType::F32:
    return NcclFloat32;
  case DType::F64:
    return NcclFloat64;
  case DType::BF16:
    return NcclBfloat16;
  case DType::F8E4M3FN:
    return NcclFloat8e4m3;
  case DType::F8E5M2:
    return NcclFloat8e5m2;
  default:
    return std::nullopt;
  }
}

/// Booleans are bytes of 0 and 1, whose minimum is "and".
std::optional<NcclOp> opOf(Join join, DType type) {
  const bool isTruth = type == DType::I1;
  switch (join) {
  case Join::Sum:
    return isTruth ? NcclMax : NcclSum;
  case Join::Product:
    return isTruth ? NcclMin : NcclProd;
  case Join::Max:
    return NcclMax;
  case Join::Min:
    return NcclMin;
  case Join::And:
    return isTruth ? std::optional(NcclMin) : std::nullopt;
  case Join::Or:
    return isTruth ? std::optional(NcclMax) : std::nullopt;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const Collective &what, const std::string &reason) {
  unsupported(std::string(name(what.kind)) + " '" + what.name + "' (" +
              name(what.join) + " of " + name(what.type) + "): " + reason);
}
} // namespace

bool cuda::isJoined(const Collective &collective) {
  return collective.kind == Collective::Kind::AllReduce ||
         collective.kind == Collective::Kind::ReduceScatter;
}

NcclReduction cuda::joinOf(const Collective &what, int version) {
  requireReduction(what.join, what.type);
  if (isFP8(what.type) &&
      (what.join == Join::Sum || what.join == Join::Product))
    refuse(what, "NCCL rounds to FP8 after every rank, which loses small "
                 "values; exchange the parts by all_to_all and reduce them in "
                 "f32, or reduce f32");
  if (isFP8(what.type) && version < ncclVersionOfFP8)
    refuse(what, "NCCL " + std::to_string(version) +
                     " does not reduce FP8; update it to 2.24");
  std::optional<NcclType> type = typeOf(what.type);
  std::optional<NcclOp> op = opOf(what.join, what.type);
  if (!type || !op)
    refuse(what, "NCCL has no such reduction; convert to i32 or f32 first, or "
                 "exchange the parts by all_to_all and reduce them after it");
  return {*type, *op};
}
