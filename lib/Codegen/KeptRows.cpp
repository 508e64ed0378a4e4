//===- KeptRows.cpp - Rows of expensive values kept between passes --------===//
//
// A softmax sums exponentials in one pass over a row and divides them in the
// next. Computing them twice costs more than a row of memory that stays in the
// L1 cache.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

// Half of a small L1 cache in f32.
static constexpr int64_t kKeptColumns = 4096;

// Collects the ops that `roots` depend on, up to reductions, which have passes
// of their own.
static void collectSlice(ValueRange roots, llvm::DenseSet<Operation *> &slice) {
  SmallVector<Value> stack(roots);
  while (!stack.empty()) {
    Operation *op = stack.pop_back_val().getDefiningOp();
    if (!op || isa<stablehlo::ReduceOp>(op) || !slice.insert(op).second)
      continue;
    stack.append(op->operand_begin(), op->operand_end());
  }
}

static bool isCostly(Operation &op) {
  return isa<stablehlo::ExpOp, stablehlo::Expm1Op, stablehlo::LogOp,
             stablehlo::Log1pOp, stablehlo::LogisticOp, stablehlo::PowOp,
             stablehlo::TanhOp>(op);
}

// Returns expensive values of the reductions' shape that a later pass needs.
SmallVector<Value>
KernelEmitter::valuesToKeep(ArrayRef<stablehlo::ReduceOp> group) {
  llvm::DenseSet<Operation *> mine, others;
  Block &body = kernel.getBody().front();
  collectSlice(body.getTerminator()->getOperands(), others);
  for (auto reduce : body.getOps<stablehlo::ReduceOp>())
    collectSlice(reduce.getInputs(),
                 llvm::is_contained(group, reduce) ? mine : others);
  stablehlo::ReduceOp first = group.front();
  auto type = cast<RankedTensorType>(first.getInputs()[0].getType());
  int64_t columns = 1;
  for (int64_t dim : first.getDimensions())
    columns *= type.getDimSize(dim);
  SmallVector<Value> values;
  if (columns > kKeptColumns)
    return values;
  for (Operation &op : body) {
    if (!isCostly(op) || !mine.contains(&op) || !others.contains(&op))
      continue;
    Value value = op.getResult(0);
    auto result = cast<RankedTensorType>(value.getType());
    if (result.getShape() == type.getShape() && !keptRows.count(value))
      values.push_back(value);
  }
  return values;
}

// Stores the value just computed to the row's memory.
void KernelEmitter::keep(Value value, const Index &index,
                         ArrayRef<int64_t> dims, ArrayRef<AffineExpr> loops,
                         ArrayRef<int64_t> extents) {
  Location loc = kernel.getLoc();
  Value now = element(value, index)->value;
  KeptRow &row = keptRows[value];
  if (!row.memory) {
    int64_t columns = 1;
    for (int64_t extent : extents)
      columns *= extent;
    row.memory = memref::AllocaOp::create(
        atEntry(), loc,
        MemRefType::get({columns}, getElementTypeOrSelf(now.getType())));
    row.dims.assign(dims.begin(), dims.end());
    row.extents.assign(extents.begin(), extents.end());
    for (auto [d, expr] : llvm::enumerate(index))
      if (!llvm::is_contained(dims, d))
        row.row.push_back(expr);
  }
  Value column = asIndex(scope.linearise(loops, extents));
  OpBuilder &b = at(innermost());
  if (scope.laneDim && scope.lanes > 1)
    vector::StoreOp::create(b, loc, broadcast(b, now), row.memory, column);
  else
    memref::StoreOp::create(b, loc, now, row.memory, column);
}

// Returns an element of a row that an earlier pass kept, if there is one.
FailureOr<Element> KernelEmitter::kept(Value value, const Index &index) {
  auto found = keptRows.find(value);
  if (found == keptRows.end() || !found->second.isComplete)
    return failure();
  const KeptRow &row = found->second;
  Index own, columns;
  for (auto [d, expr] : llvm::enumerate(index))
    (llvm::is_contained(row.dims, d) ? columns : own).push_back(expr);
  if (own != row.row)
    return failure();
  AffineExpr column = scope.linearise(columns, row.extents);
  bool isVector = scope.dependsOnLanes(column);
  if (isVector && scope.laneStride(column) != 1)
    return failure();
  // The memory changes with the row, even where the column does not.
  unsigned level = scope.level(column);
  for (AffineExpr expr : own)
    level = std::max(level, scope.level(expr));
  Location loc = kernel.getLoc();
  Value place = asIndex(column);
  OpBuilder &b = at(level);
  Type type = cast<MemRefType>(row.memory.getType()).getElementType();
  if (!isVector)
    return Element{memref::LoadOp::create(b, loc, row.memory, place), level};
  return Element{vector::LoadOp::create(b, loc,
                                        cast<VectorType>(vectorOf(type)),
                                        row.memory, place),
                 level};
}
