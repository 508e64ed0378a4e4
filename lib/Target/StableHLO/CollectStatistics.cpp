//===- CollectStatistics.cpp - Statistics of every cast -------------------===//
//
// Extra results carry sums out of loops and branches, so that any cast can be
// measured. All arithmetic is in units of the cast's data, where neither
// squares of gradients underflow nor sums overflow.
//
//===----------------------------------------------------------------------===//

#include "ProbeCasts.h"
#include "scalify/Target/StableHLO/Passes.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Precision/Blocks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_COLLECTSTATISTICS
#include "scalify/Target/StableHLO/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::ComparisonDirection;

static constexpr int64_t kColumns = 8;
static constexpr int64_t kAmaxColumn = 1;
static constexpr int64_t kScaleColumn = 7;

namespace {
/// Builds the row of one cast after it.
class RowBuilder {
public:
  explicit RowBuilder(ImplicitLocOpBuilder &b) : b(b) {}

  Value build(QuantizeOp op);
  /// The row of a cast that did not run.
  Value zeros();
  /// Merges two rows: sums, the larger amax, the later scale.
  Value merge(Value sum, Value next);

private:
  Value scalar(float x);
  Value splat(RankedTensorType type, Value x);
  Value compare(Value x, Value y, ComparisonDirection direction) {
    return stablehlo::CompareOp::create(b, x, y, direction);
  }
  Value reduce(Value value, bool maximum, ArrayRef<int64_t> dims, Value init);
  /// Over all elements; row by row first, so that no sum has too many terms.
  Value reduceAll(Value value, bool maximum);
  Value count(Value mask);
  Value isSaturated(Value magnitude, FloatType format);
  Value stack(ArrayRef<Value> scalars);
  Value column(Value row, int64_t begin, int64_t end);

  ImplicitLocOpBuilder &b;
};

/// Rebuilds loops and branches so that they return the rows of their casts.
class Collector {
public:
  explicit Collector(MLIRContext *context)
      : b(UnknownLoc::get(context), context), rows(b) {}

  /// Returns the rows of all casts of the block, in order, as its values.
  SmallVector<Value> collect(Block &block);
  unsigned numCasts = 0;

private:
  SmallVector<Value> zerosOfCondition(stablehlo::WhileOp op);
  SmallVector<Value> collectWhile(stablehlo::WhileOp op);
  SmallVector<Value> collectBranches(Operation *op);

  ImplicitLocOpBuilder b;
  RowBuilder rows;
};
} // namespace

Value RowBuilder::scalar(float x) {
  return stablehlo::buildScalar(b, b.getLoc(), x);
}

Value RowBuilder::splat(RankedTensorType type, Value x) {
  return stablehlo::BroadcastInDimOp::create(b, type, x, ArrayRef<int64_t>{});
}

Value RowBuilder::reduce(Value value, bool maximum, ArrayRef<int64_t> dims,
                         Value init) {
  return maximum ? stablehlo::buildReduce<stablehlo::MaxOp>(b, b.getLoc(),
                                                            value, init, dims)
                 : stablehlo::buildReduce<stablehlo::AddOp>(b, b.getLoc(),
                                                            value, init, dims);
}

Value RowBuilder::reduceAll(Value value, bool maximum) {
  auto type = cast<RankedTensorType>(value.getType());
  Value init = stablehlo::buildZero(b, b.getLoc(), type.getElementType());
  if (type.getRank() > 1)
    value = reduce(value, maximum, {type.getRank() - 1}, init);
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  if (rank == 0)
    return value;
  return reduce(value, maximum, llvm::to_vector(llvm::seq<int64_t>(0, rank)),
                init);
}

/// Counts in integers: a sum of ones in f32 stops growing at 2^24.
Value RowBuilder::count(Value mask) {
  Value ones = stablehlo::ConvertOp::create(b, mask, b.getI32Type());
  return stablehlo::ConvertOp::create(b, reduceAll(ones, /*maximum=*/false),
                                      b.getF32Type());
}

/// True if the magnitude rounds beyond the largest finite value. A tie rounds
/// up if the largest mantissa is odd.
Value RowBuilder::isSaturated(Value magnitude, FloatType format) {
  const llvm::fltSemantics &semantics = format.getFloatSemantics();
  double largest = getLargestFinite(format);
  int digits = static_cast<int>(APFloat::semanticsPrecision(semantics)) - 1;
  double half = std::ldexp(1.0, std::ilogb(largest) - digits - 1);
  bool isOdd = APFloat::getLargest(semantics).bitcastToAPInt()[0];
  auto type = cast<RankedTensorType>(magnitude.getType());
  // A format as wide as f32 has no midpoint in f32.
  Value limit = splat(type, scalar(static_cast<float>(largest + half)));
  return compare(magnitude, limit,
                 isOdd ? ComparisonDirection::GE : ComparisonDirection::GT);
}

Value RowBuilder::stack(ArrayRef<Value> scalars) {
  auto type = RankedTensorType::get({1}, b.getF32Type());
  SmallVector<Value> parts;
  for (Value x : scalars)
    parts.push_back(stablehlo::ReshapeOp::create(b, type, x));
  return stablehlo::ConcatenateOp::create(b, parts, 0);
}

Value RowBuilder::column(Value row, int64_t begin, int64_t end) {
  return stablehlo::SliceOp::create(b, row, 0, begin, end);
}

Value RowBuilder::zeros() {
  return splat(RankedTensorType::get({kColumns}, b.getF32Type()), scalar(0));
}

Value RowBuilder::merge(Value sum, Value next) {
  auto add = [&](int64_t begin, int64_t end) -> Value {
    return stablehlo::AddOp::create(b, column(sum, begin, end),
                                    column(next, begin, end));
  };
  Value amax =
      stablehlo::MaxOp::create(b, column(sum, kAmaxColumn, kAmaxColumn + 1),
                               column(next, kAmaxColumn, kAmaxColumn + 1));
  SmallVector<Value> parts{add(0, kAmaxColumn), amax,
                           add(kAmaxColumn + 1, kScaleColumn),
                           column(next, kScaleColumn, kColumns)};
  return stablehlo::ConcatenateOp::create(b, parts, 0);
}

Value RowBuilder::build(QuantizeOp op) {
  b.setInsertionPointAfter(op);
  b.setLoc(op.getLoc());
  Type f32 = b.getF32Type();
  auto type = cast<RankedTensorType>(op.getType()).clone(f32);
  auto widen = [&](Value x) -> Value {
    if (cast<RankedTensorType>(x.getType()) == type)
      return x;
    return stablehlo::ConvertOp::create(b, x, f32);
  };
  Value scale = op.getScale();
  Value scaled =
      stablehlo::DivOp::create(b, widen(op.getValue()), splat(type, scale));
  Value narrow = widen(op.getResult());
  Value isFinite = stablehlo::IsFiniteOp::create(b, scaled);
  Value zero = splat(type, scalar(0));
  Value finite = stablehlo::SelectOp::create(b, isFinite, scaled, zero);
  Value noise = stablehlo::SubtractOp::create(
      b, stablehlo::SelectOp::create(b, isFinite, narrow, zero), finite);
  auto sumOfSquares = [&](Value x) {
    return reduceAll(stablehlo::MulOp::create(b, x, x), /*maximum=*/false);
  };
  Value amax = reduceAll(stablehlo::AbsOp::create(b, finite), true);
  Value flushed = stablehlo::AndOp::create(
      b, compare(finite, zero, ComparisonDirection::NE),
      compare(narrow, zero, ComparisonDirection::EQ));
  auto format =
      cast<FloatType>(cast<ShapedType>(op.getType()).getElementType());
  Value saturated =
      count(isSaturated(stablehlo::AbsOp::create(b, finite), format));
  Value notFinite = count(stablehlo::NotOp::create(b, isFinite));
  Value elements = stablehlo::SubtractOp::create(
      b, scalar(static_cast<float>(type.getNumElements())), notFinite);
  return stack({elements, stablehlo::MulOp::create(b, amax, scale),
                sumOfSquares(finite), sumOfSquares(noise), saturated,
                count(flushed), notFinite, scale});
}

/// A condition returns only a boolean: its casts are not measured.
SmallVector<Value> Collector::zerosOfCondition(stablehlo::WhileOp op) {
  size_t count = 0;
  op.getCond().walk([&](QuantizeOp) { ++count; });
  numCasts += count;
  b.setLoc(op.getLoc());
  b.setInsertionPoint(op);
  return count ? SmallVector<Value>(count, rows.zeros()) : SmallVector<Value>{};
}

SmallVector<Value> Collector::collectWhile(stablehlo::WhileOp op) {
  Block &body = op.getBody().front();
  SmallVector<Value> found = zerosOfCondition(op);
  SmallVector<Value> inner = collect(body);
  if (inner.empty())
    return found;
  b.setLoc(op.getLoc());
  auto row = RankedTensorType::get({kColumns}, b.getF32Type());
  Operation *terminator = body.getTerminator();
  b.setInsertionPoint(terminator);
  SmallVector<Value> yields(terminator->getOperands());
  for (Value next : inner) {
    op.getCond().front().addArgument(row, op.getLoc());
    Value sum = body.addArgument(row, op.getLoc());
    yields.push_back(rows.merge(sum, next));
  }
  terminator->setOperands(yields);
  b.setInsertionPoint(op);
  SmallVector<Value> starts(inner.size(), rows.zeros());
  Operation *next =
      stablehlo::extendControlFlow(op, starts, ValueRange(starts).getTypes());
  llvm::append_range(found, next->getResults().take_back(inner.size()));
  return found;
}

SmallVector<Value> Collector::collectBranches(Operation *op) {
  SmallVector<SmallVector<Value>> inner;
  size_t count = 0;
  for (Region &region : op->getRegions()) {
    inner.push_back(collect(region.front()));
    count += inner.back().size();
  }
  if (count == 0)
    return {};
  b.setLoc(op->getLoc());
  size_t place = 0;
  for (auto [region, found] : llvm::zip(op->getRegions(), inner)) {
    Operation *terminator = region.front().getTerminator();
    b.setInsertionPoint(terminator);
    SmallVector<Value> all(count, rows.zeros());
    llvm::copy(found, all.begin() + place);
    place += found.size();
    SmallVector<Value> yields(terminator->getOperands());
    yields.append(all);
    terminator->setOperands(yields);
  }
  auto row = RankedTensorType::get({kColumns}, b.getF32Type());
  Operation *next =
      stablehlo::extendControlFlow(op, {}, SmallVector<Type>(count, row));
  return llvm::to_vector_of<Value>(next->getResults().take_back(count));
}

SmallVector<Value> Collector::collect(Block &block) {
  SmallVector<Value> found;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto quantize = dyn_cast<QuantizeOp>(op)) {
      found.push_back(rows.build(quantize));
      ++numCasts;
    } else if (auto loop = dyn_cast<stablehlo::WhileOp>(op)) {
      llvm::append_range(found, collectWhile(loop));
    } else if (isa<stablehlo::CaseOp, stablehlo::IfOp>(op)) {
      llvm::append_range(found, collectBranches(&op));
    }
  }
  return found;
}

/// Adds a result to the function: the rows, concatenated.
static void returnRows(func::FuncOp func, ArrayRef<Value> rows) {
  Operation *terminator = func.getBody().front().getTerminator();
  ImplicitLocOpBuilder b(func.getLoc(), terminator);
  auto rowType = RankedTensorType::get({1, kColumns}, b.getF32Type());
  SmallVector<Value> parts;
  for (Value row : rows)
    parts.push_back(stablehlo::ReshapeOp::create(b, rowType, row));
  Value table =
      parts.empty()
          ? stablehlo::buildConstant(
                b, RankedTensorType::get({0, kColumns}, b.getF32Type()),
                ArrayRef<float>{})
                .getResult()
          : stablehlo::ConcatenateOp::create(b, parts, 0).getResult();
  appendResults(func, table);
}

namespace {
struct CollectStatisticsPass
    : scalify::impl::CollectStatisticsBase<CollectStatisticsPass> {
  using CollectStatisticsBase::CollectStatisticsBase;

  void runOnOperation() override {
    expandBlocks(getOperation());
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (func.isExternal() || !func.isPublic() ||
          !func.getBody().hasOneBlock())
        continue;
      if (failed(checkCastsAreReachable(func)))
        return signalPassFailure();
      Collector collector(&getContext());
      returnRows(func, collector.collect(func.getBody().front()));
      numCasts += collector.numCasts;
    }
  }
};
} // namespace
