#include "device/cuda/LtContract.h"

#include <algorithm>
#include <iterator>
#include <utility>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
const char *auxName(LtEpilogue epilogue) {
  return hasMask(epilogue) ? "the mask of a ReLU" : "the operand of a GELU";
}

constexpr int64_t vectorBytes = 16; // one load of the tensor cores' copies

std::string number(int64_t value) { return std::to_string(value); }

bool isAligned(int64_t elements, DataType type) {
  return elements * bytesOf(type) % vectorBytes == 0;
}

std::string shapeViolation(const LtProblem &p) {
  uint64_t aRows = p.opA == OpN ? p.m() : p.k();
  uint64_t aCols = p.opA == OpN ? p.k() : p.m();
  uint64_t bRows = p.opB == OpN ? p.k() : p.n();
  uint64_t bCols = p.opB == OpN ? p.n() : p.k();
  if (p.m() == 0 || p.n() == 0 || p.k() == 0)
    return "an extent is zero";
  if (p.a.rows != aRows || p.a.cols != aCols || p.b.rows != bRows ||
      p.b.cols != bCols)
    return "the layouts of A, B and D do not fit together";
  for (const LtSide *side : {&p.a, &p.b, &p.d})
    if (side->leading < int64_t(side->rows))
      return "leading dimension " + number(side->leading) +
             " is less than the " + number(int64_t(side->rows)) + " rows";
  if (p.a.batch != p.d.batch || p.b.batch != p.d.batch || p.d.batch < 1)
    return "the batch counts of A, B and D differ";
  if (p.d.batch > 1 && p.d.batchStride == 0)
    return "all products of the batch would be written to one place";
  return "";
}

/// Checks the type combinations of the manual's table, for f32 sums.
std::string typeViolation(const LtProblem &p) {
  const std::string pair = std::string(nameOf(p.a.type)) + " times " +
                           nameOf(p.b.type) + " into " + nameOf(p.d.type);
  DataType d = p.d.type;
  if (isFP8(p.a.type) != isFP8(p.b.type))
    return pair + ": both operands or none must be FP8";
  if (isFP8(p.a.type)) {
    if (p.a.type == R8F_E5M2 && p.b.type == R8F_E5M2)
      return pair + ": one of the operands must be f8E4M3FN";
    bool mixed = p.a.type != p.b.type;
    if (d == R8F_E5M2 && !mixed)
      return pair + ": f8E5M2 results need an f8E5M2 operand";
    if (isFP8(d) && p.cType != R16BF && p.cType != R16F)
      return pair + ": C must be bf16 or f16";
    if (!isFP8(d) && p.cType)
      return pair + ": C must have D's type";
    return "";
  }
  if (p.a.type != p.b.type)
    return pair + ": wide operands must have one type";
  if ((d != p.a.type && d != R32F) || p.cType)
    return pair + ": the result must have the operands' type or be f32";
  return "";
}

const char *modeName(ScaleMode mode) {
  switch (mode) {
  case ScaleScalar:
    return "scalar";
  case ScaleOuterVec:
    return "rows";
  case ScaleVec128:
    return "1x128";
  case ScaleBlk128x128:
    return "128x128";
  }
  return "?";
}

/// Checks the mode combinations that the manual lists for compute capability
/// 9.0, and its constraints on products with them.
std::string modeViolation(const LtProblem &p) {
  ScaleMode a = p.aMode, b = p.bMode;
  if (a == ScaleScalar && b == ScaleScalar)
    return "";
  auto is128 = [](ScaleMode mode) {
    return mode == ScaleVec128 || mode == ScaleBlk128x128;
  };
  bool isPair =
      (a == ScaleOuterVec && b == ScaleOuterVec) ||
      (is128(a) && is128(b) && (a == ScaleVec128 || b == ScaleVec128));
  if (!isPair)
    return std::string("there is no product with scales by ") + modeName(a) +
           " and " + modeName(b);
  if (isFP8(p.d.type))
    return "a result of FP8 needs operands of one scale each";
  // The manual has no stride between the scales of two matrices of a batch.
  if (p.d.batch != 1)
    return "a batch needs operands of one scale each";
  if (is128(a) && (p.m() % 4 || p.n() % 4))
    return "scales by blocks need m and n of multiples of 4";
  // The manual does not say whether fast accumulation is refused here; clients
  // of the library never request it.
  if (is128(a) && p.fastAccumulation)
    return "scales by blocks do not support fast accumulation";
  return "";
}

/// Checks the manual's constraints on `aux`.
std::string auxViolation(const LtProblem &p) {
  if (!hasAux(p.epilogue))
    return p.aux ? "the aux buffer has an address, but no epilogue stores or "
                   "reads it"
                 : "";
  const int64_t unit = hasMask(p.epilogue) ? 128 : 8; // bits or elements
  const std::string what = std::string(auxName(p.epilogue)) + " ";
  if (!p.aux)
    return what + "has no address, but the epilogue needs it";
  if (p.auxLeading < int64_t(p.m()) || p.auxLeading % unit)
    return what + "needs a leading dimension of a multiple of " + number(unit) +
           " and at least the rows, not " + number(p.auxLeading);
  if (p.d.batch > 1 && (p.auxBatchStride == 0 || p.auxBatchStride % unit))
    return what + "needs a batch stride of a multiple of " + number(unit) +
           ", not " + number(p.auxBatchStride);
  return "";
}

/// Checks the operation on the sums before they are stored.
std::string epilogueViolation(const LtProblem &p) {
  if (p.bias && !addsBias(p.epilogue))
    return "a bias has an address, but no epilogue adds it";
  if (std::string reason = auxViolation(p); !reason.empty())
    return reason;
  if (p.epilogue == EpilogueDefault)
    return "";
  const LtEpilogue known[] = {
      EpilogueReLU,     EpilogueBias,        EpilogueReLUBias,    EpilogueGELU,
      EpilogueGELUBias, EpilogueGELUAux,     EpilogueGELUAuxBias, EpilogueDGELU,
      EpilogueReLUAux,  EpilogueReLUAuxBias, EpilogueDReLU};
  if (std::find(std::begin(known), std::end(known), p.epilogue) ==
      std::end(known))
    return "epilogue " + number(p.epilogue) +
           " is none of bias, ReLU, GELU and their gradients";
  // The manual does not say which epilogues these products support.
  if (p.aMode != ScaleScalar || p.bMode != ScaleScalar)
    return "an epilogue needs operands of one scale each";
  if (isFP8(p.a.type) && p.d.batch != 1)
    return "an epilogue of FP8 products needs one product and no batch";
  if (isFP8(p.a.type) && hasMask(p.epilogue))
    return "FP8 products store and read no mask of a ReLU";
  if (isFP8(p.d.type) && hasAux(p.epilogue))
    return "an FP8 result supports no aux buffer";
  if (!addsBias(p.epilogue))
    return "";
  if (!p.bias)
    return "the epilogue adds a bias, which has no address";
  DataType wanted = ltBiasType(p.a.type, p.d.type);
  if (p.biasType != wanted)
    return std::string("a product of ") + nameOf(p.a.type) + " into " +
           nameOf(p.d.type) + " takes a bias of " + nameOf(wanted) + ", not " +
           nameOf(p.biasType);
  return "";
}

std::string fp8Violation(const LtProblem &p) {
  if (p.opA != OpT || p.opB != OpN)
    return std::string("FP8 operands must lie in the TN form, both with their "
                       "sum's dimension contiguous; this is ") +
           (p.opA == OpT ? "T" : "N") + (p.opB == OpT ? "T" : "N");
  if (p.compute != Compute32F)
    return "FP8 products are summed as f32 only";
  if (!isAligned(int64_t(p.k()), p.a.type))
    return "FP8 needs an inner extent of a multiple of 16, not " +
           number(int64_t(p.k()));
  if (!isAligned(int64_t(p.m()), p.d.type))
    return "FP8 needs rows of the result of a multiple of 16 bytes, not " +
           number(int64_t(p.m()) * bytesOf(p.d.type));
  for (const LtSide *side : {&p.a, &p.b, &p.d}) {
    if (!isAligned(side->leading, side->type))
      return "FP8 needs leading dimensions of a multiple of 16 bytes, not " +
             number(side->leading * bytesOf(side->type));
    if (side->batch > 1 && !isAligned(side->batchStride, side->type))
      return "FP8 needs batch strides of a multiple of 16 bytes, not " +
             number(side->batchStride * bytesOf(side->type));
  }
  if (!p.aScale || !p.bScale)
    return "FP8 operands need their scales' addresses";
  // The manual does not say which products of a batch the amax would cover.
  if (p.amax && p.d.batch != 1)
    return "the amax of a result needs one product and no batch";
  return modeViolation(p);
}
} // namespace

size_t cuda::ltScaleBytes(ScaleMode mode, uint64_t rows, uint64_t k) {
  constexpr uint64_t block = 128, columns = 4; // multiples of these
  auto parts = [](uint64_t extent, uint64_t size) {
    return (extent + size - 1) / size;
  };
  uint64_t along = parts(k, block), count = 1;
  if (mode == ScaleOuterVec)
    count = rows;
  else if (mode == ScaleVec128)
    count = rows * along;
  else if (mode == ScaleBlk128x128)
    count = parts(rows, block) * parts(along, columns) * columns;
  return size_t(count) * sizeof(float);
}

bool cuda::addsBias(LtEpilogue epilogue) {
  return (uint32_t(epilogue) & uint32_t(EpilogueBias)) != 0;
}

bool cuda::hasAux(LtEpilogue epilogue) {
  return (uint32_t(epilogue) & 128U) != 0;
}

bool cuda::hasMask(LtEpilogue epilogue) {
  constexpr uint32_t either = uint32_t(EpilogueReLU) | 8U; // or its gradient
  return hasAux(epilogue) && (uint32_t(epilogue) & either) != 0;
}

size_t cuda::ltAuxBytes(const LtProblem &p) {
  uint64_t last = (p.n() - 1) * uint64_t(p.auxLeading) + p.m() +
                  uint64_t(p.d.batch - 1) * uint64_t(p.auxBatchStride);
  return hasMask(p.epilogue) ? size_t(last + 7) / 8
                             : size_t(last) * size_t(bytesOf(p.d.type));
}

DataType cuda::ltBiasType(DataType operand, DataType result) {
  return !isFP8(operand) || result == R16F ? result : R16BF;
}

bool cuda::isFP8(DataType type) { return type == R8F_E4M3 || type == R8F_E5M2; }

int64_t cuda::bytesOf(DataType type) {
  return isFP8(type) ? 1 : type == R32F ? 4 : 2;
}

const char *cuda::nameOf(DataType type) {
  switch (type) {
  case R32F:
    return "f32";
  case R16F:
    return "f16";
  case R16BF:
    return "bf16";
  case R8F_E4M3:
    return "f8E4M3FN";
  case R8F_E5M2:
    return "f8E5M2";
  }
  return "?";
}

std::string cuda::ltViolation(const LtProblem &p, BlasStatus &status) {
  status = BlasInvalidValue;
  if (std::string reason = shapeViolation(p); !reason.empty())
    return reason;
  if (p.scaleType != R32F)
    return "alpha and beta must be f32";
  status = BlasNotSupported;
  if (std::string reason = typeViolation(p); !reason.empty())
    return reason;
  if (p.compute == Compute32FFastTF32 && p.a.type != R32F)
    return "TF32 is for f32 operands";
  bool fp8 = isFP8(p.a.type);
  if (std::string reason = fp8 ? fp8Violation(p) : ""; !reason.empty())
    return reason;
  status = BlasInvalidValue;
  if (!fp8 && (p.aScale || p.bScale || p.aMode || p.bMode))
    return "scales of operands belong to FP8 only";
  if (!fp8 && p.fastAccumulation)
    return "fast accumulation belongs to FP8 only";
  if (!isFP8(p.d.type) && (p.dScale || p.amax))
    return "a scale and an amax of the result belong to FP8 only";
  status = BlasNotSupported;
  return epilogueViolation(p);
}

std::string cuda::checkLtAddresses(const LtProblem &p,
                                   std::array<const void *, 3> addresses) {
  const LtSide *sides[] = {&p.a, &p.b, &p.d};
  for (size_t i = 0; i < 3; ++i) {
    auto address = reinterpret_cast<uintptr_t>(addresses[i]);
    int64_t unit = isFP8(p.a.type) ? vectorBytes : bytesOf(sides[i]->type);
    if (address % uint64_t(unit))
      return std::string("matrix ") + "ABD"[i] + " is not at a multiple of " +
             number(unit) + " bytes";
  }
  const std::pair<ScaleMode, const void *> scales[] = {{p.aMode, p.aScale},
                                                       {p.bMode, p.bScale}};
  for (auto [mode, scale] : scales)
    if (mode != ScaleScalar &&
        reinterpret_cast<uintptr_t>(scale) % uint64_t(vectorBytes))
      return std::string("scales by ") + modeName(mode) +
             " are not at a multiple of " + number(vectorBytes) + " bytes";
  if (reinterpret_cast<uintptr_t>(p.bias) % uint64_t(vectorBytes))
    return "the bias is not at a multiple of " + number(vectorBytes) + " bytes";
  if (reinterpret_cast<uintptr_t>(p.aux) % uint64_t(vectorBytes))
    return std::string(auxName(p.epilogue)) + " is not at a multiple of " +
           number(vectorBytes) + " bytes";
  return "";
}

std::string cuda::describe(const LtProblem &p) {
  std::string text = {p.opA == OpT ? 'T' : 'N', p.opB == OpT ? 'T' : 'N'};
  text += " m=" + number(int64_t(p.m())) + " n=" + number(int64_t(p.n())) +
          " k=" + number(int64_t(p.k()));
  const char *names[] = {" a=", " b=", " d="};
  const LtSide *sides[] = {&p.a, &p.b, &p.d};
  for (size_t i = 0; i < 3; ++i) {
    text += std::string(names[i]) + nameOf(sides[i]->type) +
            " ld=" + number(sides[i]->leading);
    if (sides[i]->batch > 1)
      text += " stride=" + number(sides[i]->batchStride);
  }
  text += " batch=" + number(p.d.batch);
  text += p.compute == Compute32FFastTF32 ? " compute=tf32" : " compute=f32";
  if (p.aMode != ScaleScalar || p.bMode != ScaleScalar)
    text +=
        std::string(" scales=") + modeName(p.aMode) + "," + modeName(p.bMode);
  if (p.fastAccumulation)
    text += " fast";
  if (p.epilogue & EpilogueReLU)
    text += " relu";
  if (p.epilogue & EpilogueGELU)
    text += " gelu";
  if (p.epilogue == EpilogueDReLU)
    text += " drelu";
  if (p.epilogue == EpilogueDGELU)
    text += " dgelu";
  if (p.cType)
    text += std::string(" c=") + nameOf(*p.cType);
  if (p.dScale)
    text += " scaled";
  if (p.amax)
    text += " amax";
  if (hasAux(p.epilogue))
    text += " aux=" + number(p.auxLeading);
  if (addsBias(p.epilogue))
    text += std::string(" bias=") + nameOf(p.biasType);
  return text;
}
