//===- ExpandRaggedDots.cpp - Ragged dots as batched products of tiles ----===//
//
// The rows of a group are divided into tiles of equally many rows, the last of
// which is filled up. A batched product multiplies each tile by the matrix of
// its group. The number of tiles has a bound that the groups' sizes do not
// change: n rows in g groups need less than n / rows + g tiles.
//
//===----------------------------------------------------------------------===//

#include "Expansions.h"

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Fusion/Passes.h"

#include "llvm/Support/MathExtras.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDRAGGEDDOTS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// A matrix is copied for each tile, which costs as much as its product with
/// some hundred rows. Beyond, larger tiles only multiply more filling.
static constexpr int64_t kLeastRows = 8, kMostRows = 512;

namespace {
class RaggedDot {
public:
  RaggedDot(ImplicitLocOpBuilder &b, chlo::RaggedDotOp op)
      : b(b), op(op), dims(op.getRaggedDotDimensionNumbers()), lhs(op.getLhs()),
        rhs(op.getRhs()), dim(dims.getLhsRaggedDimensions()[0]),
        rows(typeOf(lhs).getDimSize(dim)), groups(countOf(op.getGroupSizes())),
        tileRows(std::clamp<int64_t>(
            llvm::PowerOf2Ceil(llvm::divideCeil(rows, groups)), kLeastRows,
            kMostRows)),
        tiles((rows + groups * (tileRows - 1)) / tileRows) {}

  Value multiplyRows();
  Value sumRows();

private:
  void divide();
  Value gatherRows(Value value, int64_t along);
  Value multiplyTiles(Value left, Value right, ArrayRef<int64_t> leftDims,
                      ArrayRef<int64_t> rightDims, Type element);

  RankedTensorType ints(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, b.getI32Type());
  }
  Value number(Value like, int64_t value) {
    return buildConstant(b, like.getType(), static_cast<int32_t>(value));
  }
  template <typename Op> Value apply(Value x, Value y) {
    return Op::create(b, x, y);
  }
  template <typename Op> Value apply(Value x, int64_t y) {
    return apply<Op>(x, number(x, y));
  }
  Value iota(ArrayRef<int64_t> shape, int64_t along) {
    return IotaOp::create(b, ints(shape), along);
  }
  Value spread(Value value, ArrayRef<int64_t> shape, int64_t along) {
    return BroadcastInDimOp::create(b, typeOf(value).clone(shape), value,
                                    ArrayRef<int64_t>(along));
  }
  Value compare(Value x, Value y, ComparisonDirection direction) {
    return CompareOp::create(b, x, y, direction, ComparisonType::SIGNED);
  }
  Value sumOver(Value condition, Value values) {
    Value zero = number(values, 0);
    values = SelectOp::create(b, condition, values, zero);
    return buildReduce<AddOp>(b, b.getLoc(), values,
                              buildIndex(b, b.getLoc(), 0), {1});
  }
  Value sumBefore(Value values);
  Value findGroup(Value places, Value ends);
  Value ofGroup(Value group, Value values);
  Value gather(Value value, Value indices, int64_t along);

  ImplicitLocOpBuilder &b;
  chlo::RaggedDotOp op;
  chlo::RaggedDotDimensionNumbersAttr dims;
  Value lhs, rhs;
  int64_t dim, rows, groups, tileRows, tiles;
  /// Of each group: its first row, and the row and the tile after its last.
  Value starts, ends, firstTiles, endTiles;
  /// The group of each tile, `groups` for those that no group uses.
  Value tileGroups;
  /// The row that each row of a tile has, [tiles, tileRows], and whether it is
  /// one of the group's.
  Value places, isRow;
};
} // namespace

/// Returns for each group the sum of the values of those before it.
Value RaggedDot::sumBefore(Value values) {
  SmallVector<int64_t> square = {groups, groups};
  Value isBefore =
      compare(iota(square, 1), iota(square, 0), ComparisonDirection::LT);
  return sumOver(isBefore, spread(values, square, 1));
}

/// Returns the number of groups that end at or before each place.
Value RaggedDot::findGroup(Value places, Value ends) {
  SmallVector<int64_t> shape = {countOf(places), groups};
  Value isPast = compare(spread(ends, shape, 1), spread(places, shape, 0),
                         ComparisonDirection::LE);
  Value ones = buildConstant(b, ints(shape), int32_t(1));
  return sumOver(isPast, ones);
}

/// Returns the values of the groups, and 0 for what is none.
Value RaggedDot::ofGroup(Value group, Value values) {
  SmallVector<int64_t> shape = {countOf(group), groups};
  Value isGroup =
      compare(iota(shape, 1), spread(group, shape, 0), ComparisonDirection::EQ);
  return sumOver(isGroup, spread(values, shape, 1));
}

/// Returns the slices at the indices; the dimensions of the indices come first.
Value RaggedDot::gather(Value value, Value indices, int64_t along) {
  RankedTensorType type = typeOf(value);
  SmallVector<int64_t> sizes(type.getShape()), offsets,
      shape(typeOf(indices).getShape());
  sizes[along] = 1;
  int64_t rank = typeOf(indices).getRank();
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (d != along) {
      offsets.push_back(static_cast<int64_t>(shape.size()));
      shape.push_back(type.getDimSize(d));
    }
  auto numbers = GatherDimensionNumbersAttr::get(
      b.getContext(), offsets, {along}, {}, {}, {along}, rank);
  return GatherOp::create(b, type.clone(shape), value, indices, numbers, sizes,
                          /*indices_are_sorted=*/false);
}

void RaggedDot::divide() {
  Value sizes = op.getGroupSizes();
  if (!typeOf(sizes).getElementType().isSignlessInteger(32))
    sizes = ConvertOp::create(b, ints({groups}), sizes);
  sizes = apply<MaxOp>(sizes, 0);
  starts = sumBefore(sizes);
  ends = apply<MinOp>(apply<AddOp>(starts, sizes), rows);
  starts = apply<MinOp>(starts, rows);
  Value own = apply<SubtractOp>(ends, starts);
  Value needed = apply<DivOp>(apply<AddOp>(own, tileRows - 1), tileRows);
  firstTiles = sumBefore(needed);
  endTiles = apply<AddOp>(firstTiles, needed);

  Value tile = iota({tiles}, 0);
  tileGroups = findGroup(tile, endTiles);
  Value number = apply<SubtractOp>(tile, ofGroup(tileGroups, firstTiles));
  Value first =
      apply<AddOp>(ofGroup(tileGroups, starts), apply<MulOp>(number, tileRows));
  SmallVector<int64_t> shape = {tiles, tileRows};
  places = apply<AddOp>(spread(first, shape, 0), iota(shape, 1));
  isRow = compare(places, spread(ofGroup(tileGroups, ends), shape, 0),
                  ComparisonDirection::LT);
  places = apply<MinOp>(places, rows - 1);
}

/// Returns the tiles of a value, [tiles, tileRows, other dimensions].
Value RaggedDot::gatherRows(Value value, int64_t along) {
  Value found = gather(value, places, along);
  RankedTensorType type = typeOf(found);
  Value isKept = BroadcastInDimOp::create(b, type.clone(b.getI1Type()), isRow,
                                          ArrayRef<int64_t>{0, 1});
  return SelectOp::create(b, isKept, found, buildZeros(b, b.getLoc(), type));
}

/// Returns the batched product; dimensions are those of the tiles.
Value RaggedDot::multiplyTiles(Value left, Value right,
                               ArrayRef<int64_t> leftDims,
                               ArrayRef<int64_t> rightDims, Type element) {
  SmallVector<int64_t> shape = {tiles};
  for (auto [value, summed] :
       {std::pair(left, leftDims), std::pair(right, rightDims)})
    for (int64_t d = 1; d < typeOf(value).getRank(); ++d)
      if (!llvm::is_contained(summed, d))
        shape.push_back(typeOf(value).getDimSize(d));
  ArrayAttr precision;
  if (op.getPrecisionConfigAttr())
    precision = b.getArrayAttr(llvm::map_to_vector(
        op.getPrecisionConfigAttr(), [&](Attribute attr) -> Attribute {
          auto value = cast<chlo::PrecisionAttr>(attr).getValue();
          return PrecisionAttr::get(b.getContext(),
                                    static_cast<Precision>(value));
        }));
  auto numbers = DotDimensionNumbersAttr::get(b.getContext(), {0}, {0},
                                              leftDims, rightDims);
  return DotGeneralOp::create(b, RankedTensorType::get(shape, element), left,
                              right, numbers, precision, nullptr);
}

/// Returns where a dimension goes when `gather` moves `along` to the front.
static int64_t moveBehind(int64_t d, int64_t along, int64_t front) {
  return d < along ? d + front : d + front - 1;
}

/// Multiplies each row by the matrix of its group; rows of none become 0.
Value RaggedDot::multiplyRows() {
  divide();
  int64_t along = dims.getRhsGroupDimensions()[0];
  Value matrices = gather(rhs, apply<MinOp>(tileGroups, groups - 1), along);
  SmallVector<int64_t> leftDims, rightDims;
  for (int64_t d : dims.getLhsContractingDimensions())
    leftDims.push_back(moveBehind(d, dim, 2));
  for (int64_t d : dims.getRhsContractingDimensions())
    rightDims.push_back(moveBehind(d, along, 1));
  auto type = cast<RankedTensorType>(op.getType());
  Value product = multiplyTiles(gatherRows(lhs, dim), matrices, leftDims,
                                rightDims, type.getElementType());
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = tiles * tileRows;
  product = ReshapeOp::create(b, type.clone(shape), product);

  Value row = iota({rows}, 0);
  Value group = findGroup(row, ends);
  Value first = apply<MulOp>(ofGroup(group, firstTiles), tileRows);
  Value place =
      apply<AddOp>(first, apply<SubtractOp>(row, ofGroup(group, starts)));
  place = apply<MinOp>(place, shape[0] - 1);
  Value isInGroup =
      compare(group, number(group, groups), ComparisonDirection::LT);
  isInGroup = spread(isInGroup, type.getShape(), 0);
  return SelectOp::create(b, isInGroup, gather(product, place, 0),
                          buildZeros(b, b.getLoc(), type));
}

/// Sums the products of the rows of each group.
Value RaggedDot::sumRows() {
  divide();
  SmallVector<int64_t> leftDims = {1}, rightDims = {1};
  int64_t rhsDim = -1;
  for (auto [l, r] : llvm::zip(dims.getLhsContractingDimensions(),
                               dims.getRhsContractingDimensions()))
    if (l == dim)
      rhsDim = r;
  for (auto [l, r] : llvm::zip(dims.getLhsContractingDimensions(),
                               dims.getRhsContractingDimensions()))
    if (l != dim) {
      leftDims.push_back(moveBehind(l, dim, 2));
      rightDims.push_back(moveBehind(r, rhsDim, 2));
    }
  auto type = cast<RankedTensorType>(op.getType());
  // Parts of a sum are not rounded to 16 bits.
  Type element = type.getElementType();
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
    element = b.getF32Type();
  Value parts = multiplyTiles(gatherRows(lhs, dim), gatherRows(rhs, rhsDim),
                              leftDims, rightDims, element);
  Value zeros = buildZeros(b, b.getLoc(), type.clone(element));
  auto windows =
      llvm::to_vector(llvm::seq<int64_t>(1, typeOf(parts).getRank()));
  // A tile of no group has an index after the last, which drops it.
  auto numbers = ScatterDimensionNumbersAttr::get(b.getContext(), windows, {0},
                                                  {}, {}, {0}, 1);
  auto scatter = ScatterOp::create(
      b, TypeRange{zeros.getType()}, ValueRange{zeros}, tileGroups,
      ValueRange{parts}, numbers, b.getBoolAttr(true), b.getBoolAttr(false));
  buildReducer<AddOp>(b, b.getLoc(), scatter.getUpdateComputation(), element);
  return ConvertOp::create(b, type, scatter.getResult(0));
}

/// True for rows times a matrix of their group, and for sums over the rows of
/// each group, the first two modes of JAX's `lax.ragged_dot_general`.
static bool isOfRows(Operation *op) {
  auto dot = dyn_cast<chlo::RaggedDotOp>(op);
  if (!dot || typeOf(dot.getGroupSizes()).getRank() != 1 ||
      countOf(dot.getGroupSizes()) == 0 || countOf(dot.getLhs()) == 0)
    return false;
  auto dims = dot.getRaggedDotDimensionNumbers();
  if (!dims.getLhsBatchingDimensions().empty())
    return false;
  int64_t dim = dims.getLhsRaggedDimensions()[0];
  ArrayRef<int64_t> summed = dims.getLhsContractingDimensions();
  if (llvm::is_contained(summed, dim))
    return dims.getRhsGroupDimensions().empty();
  // Rows are the first dimension of the result.
  return dims.getRhsGroupDimensions().size() == 1 &&
         llvm::all_of(llvm::seq<int64_t>(0, dim),
                      [&](int64_t d) { return llvm::is_contained(summed, d); });
}

static FailureOr<SmallVector<Value>> expandDot(ImplicitLocOpBuilder &b,
                                               Operation *op) {
  auto dot = cast<chlo::RaggedDotOp>(op);
  RaggedDot ragged(b, dot);
  bool isSum =
      dot.getRaggedDotDimensionNumbers().getRhsGroupDimensions().empty();
  return SmallVector<Value>{isSum ? ragged.sumRows() : ragged.multiplyRows()};
}

namespace {
struct ExpandRaggedDotsPass
    : scalify::impl::ExpandRaggedDotsBase<ExpandRaggedDotsPass> {
  void runOnOperation() override;
};
} // namespace

void ExpandRaggedDotsPass::runOnOperation() {
  auto count = expandOps(getOperation(), isOfRows, expandDot);
  if (failed(count))
    return signalPassFailure();
  numExpanded += *count;
}
