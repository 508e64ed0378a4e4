//===- ScalifyOps.cpp - Folds and verifiers -------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/Support/InterleavedRange.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;

/// The type is written unless it has rank 0.
static ParseResult parseScaleType(OpAsmParser &parser, Type &type) {
  if (succeeded(parser.parseOptionalKeyword("by")))
    return parser.parseType(type);
  type = RankedTensorType::get({}, parser.getBuilder().getF32Type());
  return success();
}

static void printScaleType(OpAsmPrinter &printer, Operation *, Type type) {
  if (cast<ShapedType>(type).getRank() > 0)
    printer << " by " << type;
}

#define GET_OP_CLASSES
#include "scalify/Dialect/Scalify/ScalifyOps.cpp.inc"

static LogicalResult verifySameShape(Operation *op, Type a, Type b) {
  if (cast<ShapedType>(a).getShape() != cast<ShapedType>(b).getShape())
    return op->emitOpError("expects operand and result of one shape, got ")
           << a << " and " << b;
  return success();
}

/// Returns one scale per block; the last block may be partial.
static RankedTensorType getScaleType(RankedTensorType data,
                                     ArrayRef<int64_t> block) {
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::zip(data.getShape(), block))
    shape.push_back(size == 0 ? 1 : llvm::divideCeil(dim, size));
  return RankedTensorType::get(shape, Float32Type::get(data.getContext()));
}

static LogicalResult verifyBlocks(Operation *op, RankedTensorType data,
                                  std::optional<ArrayRef<int64_t>> block,
                                  RankedTensorType scale) {
  if (!block) {
    if (scale.getRank() > 0)
      return op->emitOpError("has scales of type ")
             << scale
             << " and no blocks: give 'block', one size per dimension of "
             << data << ", or one scale of rank 0";
    return success();
  }
  if (static_cast<int64_t>(block->size()) != data.getRank())
    return op->emitOpError("has ")
           << block->size() << " sizes in 'block': give one per dimension of "
           << data << ", 0 to span a dimension";
  for (int64_t size : *block)
    if (size < 0)
      return op->emitOpError("has the size '")
             << size
             << "' in 'block': give 1 or more, or 0 to span a dimension";
  RankedTensorType expected = getScaleType(data, *block);
  if (scale == expected || block->empty())
    return success();
  return op->emitOpError("has scales of type ")
         << scale << " for blocks of [" << llvm::interleaved(*block, ", ")
         << "] of " << data << ": give " << expected;
}

static LogicalResult verifyWhole(Operation *op, RankedTensorType part,
                                 std::optional<ArrayRef<int64_t>> whole) {
  auto contains = [](auto sizes) {
    auto [own, all] = sizes;
    return ShapedType::isStatic(own) && own <= all;
  };
  if (!whole)
    return success();
  // Indices have 64 bits.
  int64_t elements = 1;
  bool isCounted = llvm::none_of(*whole, [&](int64_t size) {
    return size < 0 || llvm::MulOverflow(elements, size, elements);
  });
  if (isCounted && static_cast<int64_t>(whole->size()) == part.getRank() &&
      llvm::all_of(llvm::zip(part.getShape(), *whole), contains))
    return success();
  return op->emitOpError("has 'whole' of [")
         << llvm::interleaved(*whole, ", ")
         << "]: give the shape of a tensor that " << part << " is a part of";
}

static LogicalResult verifyRounding(QuantizeOp op) {
  if (!op.isStochastic()) {
    if (op.getCounter() || op.getStream() || op.getFirst() || op.getWhole())
      return op.emitOpError("rounds to nearest and has a counter, a stream or "
                            "a place: leave them out, or give 'rounding = "
                            "#scalify.rounding<stochastic>'");
    return success();
  }
  if (op.getBlock())
    return op.emitOpError("rounds stochastically by blocks: leave out 'block' "
                          "or 'rounding'");
  if (!op.getStream())
    return op.emitOpError("rounds stochastically without a 'stream': give a "
                          "number that no other cast of the step has");
  if (int64_t stream = *op.getStream(); stream < 0 || stream >> 33)
    return op.emitOpError("has the stream '")
           << stream << "': give a number from 0 to 2^33 - 1";
  return verifyWhole(op, cast<RankedTensorType>(op.getType()), op.getWhole());
}

LogicalResult RandomBitsOp::verify() {
  return verifyWhole(*this, cast<RankedTensorType>(getType()), getWhole());
}

LogicalResult QuantizeOp::verify() {
  if (failed(verifyRounding(*this)))
    return failure();
  auto type = cast<RankedTensorType>(getValue().getType());
  return success(
      succeeded(verifySameShape(*this, type, getType())) &&
      succeeded(verifyBlocks(*this, type, getBlock(),
                             cast<RankedTensorType>(getScale().getType()))));
}

LogicalResult DequantizeOp::verify() {
  auto type = cast<RankedTensorType>(getData().getType());
  return success(
      succeeded(verifySameShape(*this, type, getType())) &&
      succeeded(verifyBlocks(*this, type, getBlock(),
                             cast<RankedTensorType>(getScale().getType()))));
}
