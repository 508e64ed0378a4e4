//===- FP8Dots.cpp - Forms of a dot on FP8 data ---------------------------===//
//
// XLA:GPU walks from a dot's operand up to FP8 data: moves, a multiply by the
// broadcast of a scalar, a convert. No other op may be in between, and the
// matmul it calls has one M, one N and one K besides batch dimensions. Here all
// moves are on the FP8 data, so that nothing is in between and a transpose
// reads one byte per element.
//
//===----------------------------------------------------------------------===//

#include "FP8Dots.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace scalify;
using stablehlo::DotGeneralOp;

namespace {
/// One side of a dot: FP8 data of [batch..., M, K] or [batch..., K, M].
struct Side {
  Value data;
  Value scale;
  int64_t contracting;
};

/// Lists of dimensions of one side of a dot.
struct Dims {
  ArrayRef<int64_t> batch, contracting;
  int64_t rank;

  SmallVector<int64_t> free() const;
};

class DotWriter {
public:
  explicit DotWriter(DotGeneralOp dot)
      : dot(dot), builder(dot), loc(dot.getLoc()) {}

  bool hasFP8Operands();
  void writeForXLAGPU();
  void writePlain();

private:
  DequantizeOp getSource(unsigned operand) {
    return dot->getOperand(operand).getDefiningOp<DequantizeOp>();
  }
  Side makeMatrix(DequantizeOp source, const Dims &dims);
  Value dequantizeToBF16(const Side &side);
  Value createDot(Value lhs, Value rhs, stablehlo::DotDimensionNumbersAttr dims,
                  RankedTensorType type, ArrayAttr precision);
  ArrayAttr getPrecision();
  void finish(Value result);

  DotGeneralOp dot;
  OpBuilder builder;
  Location loc;
};
} // namespace

static FloatType getFormat(DequantizeOp op) {
  return cast<FloatType>(getElementTypeOrSelf(op.getData().getType()));
}

bool DotWriter::hasFP8Operands() {
  for (unsigned operand : {0, 1}) {
    DequantizeOp source = getSource(operand);
    if (!source || !hasFP8Elements(getFormat(source)))
      return false;
  }
  auto element = getElementTypeOrSelf(dot.getType());
  return element.isF32() || element.isBF16() || element.isF16();
}

SmallVector<int64_t> Dims::free() const {
  SmallVector<int64_t> result;
  for (int64_t dim : llvm::seq<int64_t>(0, rank))
    if (!llvm::is_contained(batch, dim) &&
        !llvm::is_contained(contracting, dim))
      result.push_back(dim);
  return result;
}

static bool isIdentity(ArrayRef<int64_t> order) {
  return llvm::equal(order, llvm::seq<int64_t>(0, order.size()));
}

/// Moves the FP8 data to one M and one K after the batch dimensions. If a
/// transpose is needed anyway, K becomes the minor dimension: Hopper's tensor
/// cores read FP8 operands in no other layout.
Side DotWriter::makeMatrix(DequantizeOp source, const Dims &dims) {
  Value data = source.getData();
  auto type = cast<RankedTensorType>(data.getType());
  SmallVector<int64_t> free = dims.free();
  SmallVector<int64_t> minor(dims.batch), major(dims.batch);
  llvm::append_range(minor, free);
  llvm::append_range(minor, dims.contracting);
  llvm::append_range(major, dims.contracting);
  llvm::append_range(major, free);
  bool isMajor = isIdentity(major) && !isIdentity(minor);
  if (!isMajor && !isIdentity(minor))
    data = stablehlo::TransposeOp::create(builder, loc, data, minor);

  auto product = [&](ArrayRef<int64_t> list) {
    int64_t size = 1;
    for (int64_t dim : list)
      size *= type.getDimSize(dim);
    return size;
  };
  SmallVector<int64_t> shape;
  for (int64_t dim : dims.batch)
    shape.push_back(type.getDimSize(dim));
  int64_t m = product(free), k = product(dims.contracting);
  llvm::append_range(shape, isMajor ? ArrayRef({k, m}) : ArrayRef({m, k}));
  if (cast<RankedTensorType>(data.getType()).getShape() != ArrayRef(shape))
    data = stablehlo::ReshapeOp::create(builder, loc, type.clone(shape), data);
  auto batch = static_cast<int64_t>(dims.batch.size());
  return {data, source.getScale(), isMajor ? batch : batch + 1};
}

/// BF16 has more mantissa bits than FP8 and the exponents of F32, so that data
/// times a power of two is exact.
Value DotWriter::dequantizeToBF16(const Side &side) {
  Type bf16 = builder.getBF16Type();
  Value wide = stablehlo::ConvertOp::create(builder, loc, side.data, bf16);
  Value scale = stablehlo::ConvertOp::create(builder, loc, side.scale, bf16);
  Value spread = stablehlo::BroadcastInDimOp::create(
      builder, loc, cast<RankedTensorType>(wide.getType()), scale,
      ArrayRef<int64_t>{});
  return stablehlo::MulOp::create(builder, loc, wide, spread);
}

/// XLA:GPU interprets DEFAULT as Hopper's fast accumulation, which is good
/// enough for activations. Gradients get the precise one, unless the recipe
/// says otherwise.
ArrayAttr DotWriter::getPrecision() {
  bool isFast = getAccumulation(dot) == Accumulation::Fast;
  auto precision =
      isFast ? stablehlo::Precision::DEFAULT : stablehlo::Precision::HIGHEST;
  Attribute attr =
      stablehlo::PrecisionAttr::get(builder.getContext(), precision);
  return builder.getArrayAttr({attr, attr});
}

Value DotWriter::createDot(Value lhs, Value rhs,
                           stablehlo::DotDimensionNumbersAttr dims,
                           RankedTensorType type, ArrayAttr precision) {
  auto created = DotGeneralOp::create(builder, loc, type, lhs, rhs, dims,
                                      precision, dot.getAlgorithmAttr());
  created->setDiscardableAttrs(dot->getDiscardableAttrDictionary());
  return created;
}

/// Moves a cast of the result before the reshape, where XLA:GPU fuses it into
/// the matmul.
static void hoistCastAboveReshape(stablehlo::ReshapeOp reshape) {
  Value data = reshape.getOperand();
  for (Operation *user : llvm::make_early_inc_range(reshape->getUsers())) {
    auto cast = dyn_cast<QuantizeOp>(user);
    if (!cast)
      continue;
    OpBuilder builder(cast);
    auto narrow = mlir::cast<RankedTensorType>(cast.getType());
    auto shape = mlir::cast<RankedTensorType>(data.getType()).getShape();
    auto quantize =
        QuantizeOp::create(builder, cast.getLoc(), narrow.clone(shape), data,
                           cast.getScale(), cast.getCastAttr());
    cast.replaceAllUsesWith(
        stablehlo::ReshapeOp::create(builder, cast.getLoc(), narrow, quantize)
            .getResult());
    cast.erase();
  }
}

void DotWriter::finish(Value result) {
  DequantizeOp lhs = getSource(0), rhs = getSource(1);
  stablehlo::ReshapeOp reshape;
  if (result.getType() != dot.getType())
    result = reshape = stablehlo::ReshapeOp::create(
        builder, loc, cast<RankedTensorType>(dot.getType()), result);
  dot.replaceAllUsesWith(result);
  dot.erase();
  if (reshape)
    hoistCastAboveReshape(reshape);
  // Both sides may be the same value.
  if (lhs != rhs && lhs->use_empty())
    lhs.erase();
  if (rhs->use_empty())
    rhs.erase();
}

void DotWriter::writeForXLAGPU() {
  if (isa<Float8E5M2Type>(getFormat(getSource(0))) &&
      isa<Float8E5M2Type>(getFormat(getSource(1))))
    dot.emitRemark("both operands are f8E5M2, which cuBLASLt does not "
                   "multiply: XLA:GPU runs this dot in BF16");
  auto numbers = dot.getDotDimensionNumbers();
  // Pairs of contracting dimensions in the order of the left side.
  SmallVector<std::pair<int64_t, int64_t>> pairs;
  for (auto [left, right] :
       llvm::zip_equal(numbers.getLhsContractingDimensions(),
                       numbers.getRhsContractingDimensions()))
    pairs.emplace_back(left, right);
  llvm::sort(pairs);
  SmallVector<int64_t> left(llvm::make_first_range(pairs));
  SmallVector<int64_t> right(llvm::make_second_range(pairs));
  auto rank = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getRank();
  };
  Side lhs = makeMatrix(getSource(0), {numbers.getLhsBatchingDimensions(), left,
                                       rank(dot.getLhs())});
  Side rhs = makeMatrix(getSource(1), {numbers.getRhsBatchingDimensions(),
                                       right, rank(dot.getRhs())});
  auto batch = static_cast<int64_t>(numbers.getLhsBatchingDimensions().size());
  auto batches = llvm::to_vector(llvm::seq<int64_t>(0, batch));
  auto canonical = stablehlo::DotDimensionNumbersAttr::get(
      builder.getContext(), batches, batches, {lhs.contracting},
      {rhs.contracting});
  auto sizes = [](const Side &side) {
    return cast<RankedTensorType>(side.data.getType()).getShape();
  };
  // One of the two dimensions after the batch is contracted; the other stays.
  SmallVector<int64_t> shape(sizes(lhs).take_front(batch));
  shape.push_back(sizes(lhs)[2 * batch + 1 - lhs.contracting]);
  shape.push_back(sizes(rhs)[2 * batch + 1 - rhs.contracting]);
  Value a = dequantizeToBF16(lhs), b = dequantizeToBF16(rhs);
  auto type = cast<RankedTensorType>(dot.getType()).clone(shape);
  finish(createDot(a, b, canonical, type, getPrecision()));
}

void DotWriter::writePlain() {
  DequantizeOp lhs = getSource(0), rhs = getSource(1);
  auto type = cast<RankedTensorType>(dot.getType());
  // The scale follows the sum: the sum must not overflow a narrower result.
  auto wide = type.clone(builder.getF32Type());
  Value sum =
      createDot(lhs.getData(), rhs.getData(), dot.getDotDimensionNumbersAttr(),
                wide, dot.getPrecisionConfigAttr());
  Value scale =
      stablehlo::MulOp::create(builder, loc, lhs.getScale(), rhs.getScale());
  Value spread = stablehlo::BroadcastInDimOp::create(builder, loc, wide, scale,
                                                     ArrayRef<int64_t>{});
  Value result = stablehlo::MulOp::create(builder, loc, sum, spread);
  if (type != wide)
    result = stablehlo::ConvertOp::create(builder, loc, result,
                                          type.getElementType());
  finish(result);
}

void scalify::writeFP8Dots(Operation *root, FP8Form form) {
  if (form == FP8Form::Wide)
    return;
  SmallVector<DotGeneralOp> dots;
  root->walk([&](DotGeneralOp dot) { dots.push_back(dot); });
  for (DotGeneralOp dot : dots) {
    DotWriter writer(dot);
    if (!writer.hasFP8Operands())
      continue;
    if (form == FP8Form::XLAGPU)
      writer.writeForXLAGPU();
    else
      writer.writePlain();
  }
}
