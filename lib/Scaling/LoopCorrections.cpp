//===- LoopCorrections.cpp - Run-time scales through loops and branches ---===//
//
// A growing carry has a run-time scale: one more carry of rank 0, multiplied by
// a constant in each iteration, so that no tensor is read. A loop that stacks
// such values gives each slice a scale, held in a vector, so that the backward
// finds the scale of each slice that it reads. Branches return the correction
// beside the value.
//
//===----------------------------------------------------------------------===//

#include "CorrectionFlow.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Scaling/MeasuredArguments.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using stablehlo::WhileOp;

// The rows that are measured of a carry whose growth follows no line.
static constexpr int64_t kMeasuredRows = 64, kMaxSampleStride = 16;
// A carry this far below its scale is negligible beside what is added to it:
// F32's 24 bits lose it in the sum.
static constexpr int64_t kNegligibleBinades = 40;
// Scales and their inverses stay normal F32 numbers.
static constexpr int64_t kMaxBinades = 100;

/// The carries that are added to a loop, and the carries that they belong to.
struct scalify::LoopCarries {
  WhileOp loop;
  SmallVector<Value> inits, nexts;
  /// The carries whose corrections propagate through the body, and those that
  /// the body measures.
  SmallVector<unsigned> flows, remeasured;
  /// For each added carry: the carry whose scale it is.
  SmallVector<unsigned> owners;
  SmallVector<bool> isMeasured;

  Block &body() { return loop.getBody().front(); }
  Value add(unsigned owner, Value init, bool measured = false) {
    inits.push_back(init);
    owners.push_back(owner);
    isMeasured.push_back(measured);
    loop.getCond().front().addArgument(init.getType(), loop.getLoc());
    return body().addArgument(init.getType(), loop.getLoc());
  }
};

static unsigned getCarryOf(DictionaryAttr entry) {
  return entry.getAs<IntegerAttr>("carry").getInt();
}

static ArrayRef<Attribute> getGrowing(Operation *loop) {
  auto growing = loop->getAttrOfType<ArrayAttr>(kGrowingCarriesAttr);
  return growing ? growing.getValue() : ArrayRef<Attribute>{};
}

/// Returns the slice that each iteration writes into a carry that the body does
/// not read, or null.
static Value getSlices(WhileOp loop, unsigned index) {
  Value update = stablehlo::getStackedUpdate(loop, index);
  if (!update || !isFloatTensor(update.getType()))
    return {};
  auto type = cast<ShapedType>(update.getType());
  return type.getRank() > 0 && type.getDimSize(0) == 1 ? update : Value();
}

static bool isVector(Value change) {
  return cast<ShapedType>(change.getType()).getRank() == 1;
}

//===----------------------------------------------------------------------===//
// Moved and needed values
//===----------------------------------------------------------------------===//

void CorrectionFlow::findMovedByRegions(Operation &op) {
  auto loop = dyn_cast<WhileOp>(op);
  if (isa<sdy::ManualComputationOp>(op))
    for (auto [arg, operand] :
         llvm::zip(op.getRegion(0).getArguments(), op.getOperands()))
      if (moved.contains(operand))
        moved.insert(arg);
  if (!loop) {
    for (Region &region : op.getRegions()) {
      findMoved(region.front());
      if (isa<stablehlo::CaseOp, stablehlo::IfOp>(op))
        for (auto [result, value] :
             llvm::zip(op.getResults(),
                       region.front().getTerminator()->getOperands()))
          if (moved.contains(value))
            moved.insert(result);
    }
    for (Attribute entry : getGrowing(&op))
      moved.insert(op.getResult(getCarryOf(cast<DictionaryAttr>(entry))));
    return;
  }
  Block &body = loop.getBody().front();
  for (Attribute entry : getGrowing(loop)) {
    unsigned index = getCarryOf(cast<DictionaryAttr>(entry));
    moved.insert(body.getArgument(index));
    moved.insert(loop.getResult(index));
    isFractional = true;
  }
  for (auto [i, operand] : llvm::enumerate(loop->getOperands()))
    if ((stablehlo::isInvariantCarry(loop, i) || flowsThrough(loop, i)) &&
        moved.contains(operand)) {
      moved.insert(body.getArgument(i));
      moved.insert(loop.getResult(i));
    }
  findMoved(body);
  // The values that an iteration moves are moved in the next one.
  for (size_t before = 0; before != moved.size();) {
    before = moved.size();
    for (unsigned i = 0; i < loop.getNumResults(); ++i)
      if (flowsThrough(loop, i) &&
          moved.contains(body.getTerminator()->getOperand(i))) {
        moved.insert(body.getArgument(i));
        moved.insert(loop.getResult(i));
      }
    if (before != moved.size())
      findMoved(body);
  }
  for (unsigned i = 0; i < loop.getNumResults(); ++i)
    if (Value slices = getSlices(loop, i); slices && moved.contains(slices))
      moved.insert(loop.getResult(i));
}

void CorrectionFlow::findNeededByRegions(Operation &op) {
  auto loop = dyn_cast<WhileOp>(op);
  for (OpResult result : op.getResults()) {
    unsigned index = result.getResultNumber();
    if (!needed.contains(result) || !moved.contains(result))
      continue;
    if (!loop) {
      for (Region &region : op.getRegions())
        needed.insert(region.front().getTerminator()->getOperand(index));
    } else if (Value slices = getSlices(loop, index)) {
      needed.insert(slices);
    } else if (flowsThrough(loop, index)) {
      needed.insert(loop.getBody().getArgument(index));
    }
  }
  for (Region &region : op.getRegions())
    if (!loop || &region == &loop.getBody())
      findNeeded(region.front());
  for (size_t before = 0; loop && before != needed.size();) {
    before = needed.size();
    for (unsigned i = 0; i < loop.getNumResults(); ++i)
      if (flowsThrough(loop, i) && !getMeasuredStart(loop, i) &&
          moved.contains(loop.getBody().getArgument(i)) &&
          needed.contains(loop.getBody().getArgument(i))) {
        needed.insert(loop->getOperand(i));
        needed.insert(loop.getBody().front().getTerminator()->getOperand(i));
      }
    if (before != needed.size())
      findNeeded(loop.getBody().front());
  }
  if (isa<sdy::ManualComputationOp>(op))
    for (auto [arg, operand] :
         llvm::zip(op.getRegion(0).getArguments(), op.getOperands()))
      if (needed.contains(arg) && moved.contains(operand))
        needed.insert(operand);
  for (unsigned i = 0; loop && i < loop.getNumResults(); ++i)
    if (stablehlo::isInvariantCarry(loop, i) &&
        moved.contains(loop->getOperand(i)) &&
        (needed.contains(loop.getBody().getArgument(i)) ||
         needed.contains(loop.getResult(i))))
      needed.insert(loop->getOperand(i));
}

//===----------------------------------------------------------------------===//
// Corrections
//===----------------------------------------------------------------------===//

Value CorrectionFlow::getScalarCorrection(Value value) {
  Value change = correction(value);
  if (!change || !isVector(change))
    return change;
  Value &entry = largest[change];
  if (!entry) {
    // Insert after the vector's definition, for all readers of its maximum.
    Value zero = scales.constant(0.0f);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(change);
    entry = stablehlo::buildReduce<stablehlo::MaxOp>(builder, change.getLoc(),
                                                     change, zero, {0});
  }
  return entry;
}

/// Returns the correction of a part of a stack.
Value CorrectionFlow::sliceStack(Operation &op, Value change) {
  Location loc = op.getLoc();
  Value part;
  if (auto slice = dyn_cast<stablehlo::DynamicSliceOp>(op))
    part = stablehlo::DynamicSliceOp::create(
        builder, loc, change, slice.getStartIndices().take_front(1),
        slice.getSliceSizes().take_front(1));
  else if (auto slice = dyn_cast<stablehlo::SliceOp>(op))
    part = stablehlo::SliceOp::create(builder, loc, change,
                                      slice.getStartIndices().take_front(1),
                                      slice.getLimitIndices().take_front(1),
                                      slice.getStrides().take_front(1));
  else if (auto reverse = dyn_cast<stablehlo::ReverseOp>(op))
    return llvm::is_contained(reverse.getDimensions(), 0)
               ? stablehlo::ReverseOp::create(builder, loc, change,
                                              ArrayRef<int64_t>{0})
                     .getResult()
               : change;
  else if (isa<stablehlo::ConvertOp, stablehlo::NegOp>(op))
    return change;
  else
    return getScalarCorrection(op.getOperand(0));
  if (cast<ShapedType>(part.getType()).getDimSize(0) > 1)
    return part;
  return stablehlo::ReshapeOp::create(builder, loc, scales.one().getType(),
                                      part);
}

Value CorrectionFlow::moveCorrection(Operation &op) {
  Value change = correction(op.getOperand(0));
  return change && isVector(change) ? sliceStack(op, change) : change;
}

void CorrectionFlow::visitRegions(Operation &op) {
  if (auto loop = dyn_cast<WhileOp>(op))
    return visitLoop(loop);
  // A device's shard of a value has the size of the whole.
  if (isa<sdy::ManualComputationOp>(op))
    for (auto [arg, operand] :
         llvm::zip(op.getRegion(0).getArguments(), op.getOperands()))
      if (Value change = correction(operand))
        corrections[arg] = change;
  for (Region &region : op.getRegions())
    visitBlock(region.front());
  if (isa<stablehlo::CaseOp, stablehlo::IfOp>(op))
    visitBranches(&op);
}

/// Adds the scale itself as a carry: it leaves F32's range only with the data.
void CorrectionFlow::addGrowing(LoopCarries &carries, DictionaryAttr entry) {
  unsigned index = getCarryOf(entry);
  WhileOp loop = carries.loop;
  BlockArgument arg = loop.getBody().getArgument(index);
  if (!needed.contains(arg) && !needed.contains(loop.getResult(index)))
    return;
  auto power = [&](StringRef name) {
    double exponent = entry.getAs<FloatAttr>(name).getValueAsDouble();
    return scales.constant(
        static_cast<float>(std::exp2(std::clamp(exponent, -100.0, 100.0))));
  };
  growthRules[arg] = entry.getAs<StringAttr>("rule");
  bool measures = !entry.contains("growth");
  // A run-time scale is more precise than a line.
  if (flowsThrough(loop, index))
    return;
  builder.setInsertionPoint(loop);
  Value init = loop->getOperand(index);
  Value start = measuresArguments && moved.contains(init)
                    ? getCurrentScale(init)
                    : power("start");
  Value scale = carries.add(index, start, measures);
  builder.setInsertionPointToStart(&carries.body());
  if (measures) {
    auto type = cast<RankedTensorType>(arg.getType());
    int64_t rows = type.getRank() < 2
                       ? 1
                       : *llvm::max_element(type.getShape().drop_back());
    isMeasured = true;
    scale = MeasuredScaleOp::create(
        builder, loop.getLoc(), scale.getType(), Statistic::L2, arg, scale,
        std::clamp<int64_t>(rows / kMeasuredRows, 1, kMaxSampleStride));
    carries.nexts.push_back(scale);
  } else {
    builder.setInsertionPoint(carries.body().getTerminator());
    carries.nexts.push_back(
        scales.product(builder, loop.getLoc(), scale, power("growth")));
    builder.setInsertionPointToStart(&carries.body());
  }
  corrections[arg] = scales.quotient(builder, loop.getLoc(), scale,
                                     scales.powerOfTwo(predicted(arg)));
}

bool CorrectionFlow::flowsThrough(WhileOp loop, unsigned index) const {
  if (!measuresArguments || stablehlo::isInvariantCarry(loop, index) ||
      !isFloatTensor(loop.getResult(index).getType()) || getSlices(loop, index))
    return false;
  return llvm::none_of(getGrowing(loop), [&](Attribute attr) {
    auto entry = cast<DictionaryAttr>(attr);
    return getCarryOf(entry) == index && !entry.contains("growth");
  });
}

/// Returns the start of a weight that each iteration updates. The body measures
/// such a weight by a reduction.
Value CorrectionFlow::getMeasuredStart(WhileOp loop, unsigned index) const {
  Value start =
      lookThrough(loop->getOperand(index), Move::Invariant | Move::Manual |
                                               Move::Convert | Move::Reshape);
  if (Value outer = startOf.lookup(start))
    start = outer;
  bool isWeight = measured.contains(start) && isParameter(start) &&
                  feedsDot(loop.getBody().getArgument(index));
  return isWeight ? start : Value();
}

/// Adds the scale of a carry as one more carry, which the body changes as it
/// changes the data.
void CorrectionFlow::addFlow(LoopCarries &carries, unsigned index) {
  WhileOp loop = carries.loop;
  BlockArgument arg = carries.body().getArgument(index);
  if (!flowsThrough(loop, index) || !moved.contains(arg) ||
      !needed.contains(arg))
    return;
  if (Value start = getMeasuredStart(loop, index)) {
    startOf[arg] = start;
    readArguments.insert(start);
    carries.remeasured.push_back(index);
    corrections[arg] = measureCorrection(arg);
    return;
  }
  builder.setInsertionPoint(loop);
  Value init = loop->getOperand(index);
  // Zeros take the size of what is added to them.
  Value scale = carries.add(
      index, lookup(init).anyScale
                 ? scales.powerOfTwo(std::max<int64_t>(
                       predicted(arg) - kNegligibleBinades, -kMaxBinades))
                 : getCurrentScale(init));
  carries.flows.push_back(index);
  builder.setInsertionPointToStart(&carries.body());
  corrections[arg] = scales.quotient(builder, loop.getLoc(), scale,
                                     scales.powerOfTwo(predicted(arg)));
}

void CorrectionFlow::finishFlows(LoopCarries &carries) {
  Operation *terminator = carries.body().getTerminator();
  builder.setInsertionPoint(terminator);
  // Clamp, so that a value that diverges in a long loop keeps a finite scale.
  Value least = scales.powerOfTwo(-kMaxBinades);
  Value most = scales.powerOfTwo(kMaxBinades);
  for (unsigned index : carries.flows)
    carries.nexts.push_back(stablehlo::ClampOp::create(
        builder, carries.loop.getLoc(), least,
        getCurrentScale(terminator->getOperand(index)), most));
}

/// Adds a vector beside a stack. A slice that no iteration writes keeps one.
void CorrectionFlow::addStack(LoopCarries &carries, unsigned index) {
  WhileOp loop = carries.loop;
  auto update = carries.body()
                    .getTerminator()
                    ->getOperand(index)
                    .getDefiningOp<stablehlo::DynamicUpdateSliceOp>();
  Value change = getScalarCorrection(update.getUpdate());
  if (!change)
    return;
  auto stack = cast<RankedTensorType>(update.getType());
  auto type =
      RankedTensorType::get({stack.getDimSize(0)}, builder.getF32Type());
  builder.setInsertionPoint(loop);
  Value start = stablehlo::buildConstant(builder, loop.getLoc(), type, 1.0f);
  if (Value whole = getScalarCorrection(loop->getOperand(index)))
    start = stablehlo::BroadcastInDimOp::create(builder, loop.getLoc(), type,
                                                whole, ArrayRef<int64_t>{});
  Value arg = carries.add(index, start);
  builder.setInsertionPoint(carries.body().getTerminator());
  Value entry = stablehlo::ReshapeOp::create(builder, loop.getLoc(),
                                             type.clone({1}), change);
  carries.nexts.push_back(stablehlo::DynamicUpdateSliceOp::create(
      builder, loop.getLoc(), arg, entry,
      update.getStartIndices().take_front(1)));
}

void CorrectionFlow::visitLoop(WhileOp loop) {
  LoopCarries carries;
  carries.loop = loop;
  for (auto [i, operand] : llvm::enumerate(loop->getOperands()))
    if (Value change = correction(operand);
        change && stablehlo::isInvariantCarry(loop, i)) {
      corrections[loop.getBody().getArgument(i)] = change;
      corrections[loop.getResult(i)] = change;
    }
  for (Attribute entry : getGrowing(loop))
    addGrowing(carries, cast<DictionaryAttr>(entry));
  for (unsigned i = 0; measuresArguments && i < loop.getNumResults(); ++i)
    addFlow(carries, i);
  visitBlock(carries.body());
  finishFlows(carries);
  for (unsigned i = 0; i < loop.getNumResults(); ++i)
    if (needed.contains(loop.getResult(i)))
      if (Value slices = getSlices(loop, i); slices && moved.contains(slices))
        addStack(carries, i);
  loop->removeAttr(kGrowingCarriesAttr);
  if (!carries.inits.empty())
    loop = extendLoop(carries);
  for (unsigned index : carries.remeasured)
    if (Value result = loop.getResult(index); needed.contains(result))
      corrections[result] = measureCorrection(result);
}

Operation *CorrectionFlow::extend(Operation *op, ValueRange operands,
                                  TypeRange types) {
  Operation *clone = stablehlo::extendControlFlow(op, operands, types,
                                                  &replaced.emplace_back());
  for (Value old : op->getResults()) {
    Value original = originals.lookup(old);
    originals[clone->getResult(cast<OpResult>(old).getResultNumber())] =
        original ? original : old;
  }
  return clone;
}

/// Replaces the loop by one with the added carries, and sets the corrections of
/// its results.
WhileOp CorrectionFlow::extendLoop(LoopCarries &carries) {
  WhileOp loop = carries.loop;
  SmallVector<int64_t> exponents;
  for (unsigned owner : carries.owners)
    exponents.push_back(predicted(loop.getResult(owner)));
  SmallVector<Value> old(loop.getResults());
  Operation *terminator = carries.body().getTerminator();
  terminator->insertOperands(terminator->getNumOperands(), carries.nexts);
  unsigned first = loop.getNumResults();
  Operation *clone =
      extend(loop, carries.inits, ValueRange(carries.inits).getTypes());
  for (unsigned i = 0; i < first; ++i) {
    Value result = clone->getResult(i);
    if (needed.erase(old[i]))
      needed.insert(result);
    moved.erase(old[i]);
    if (Value change = corrections.lookup(old[i])) {
      corrections.erase(old[i]);
      corrections[result] = change;
    }
  }
  builder.setInsertionPointAfter(clone);
  for (auto [i, owner] : llvm::enumerate(carries.owners)) {
    Value result = clone->getResult(owner), scale = clone->getResult(first + i);
    if (!needed.contains(result))
      continue;
    if (!isVector(scale)) {
      if (carries.isMeasured[i])
        scale =
            MeasuredScaleOp::create(builder, clone->getLoc(), scale.getType(),
                                    Statistic::L2, result, scale);
      scale = scales.quotient(builder, clone->getLoc(), scale,
                              scales.powerOfTwo(exponents[i]));
    }
    corrections[result] = scale;
  }
  return cast<WhileOp>(clone);
}

/// Each branch returns its value's scale over the result's predicted scale.
void CorrectionFlow::visitBranches(Operation *op) {
  SmallVector<std::pair<unsigned, StringAttr>> rules;
  for (Attribute attr : getGrowing(op)) {
    auto entry = cast<DictionaryAttr>(attr);
    rules.push_back({getCarryOf(entry), entry.getAs<StringAttr>("rule")});
  }
  op->removeAttr(kGrowingCarriesAttr);
  SmallVector<unsigned> owners;
  for (OpResult result : op->getResults())
    if (needed.contains(result) && moved.contains(result))
      owners.push_back(result.getResultNumber());
  if (owners.empty())
    return;
  for (Region &region : op->getRegions()) {
    Operation *terminator = region.front().getTerminator();
    builder.setInsertionPoint(terminator);
    for (unsigned owner : owners) {
      Value value = terminator->getOperand(owner);
      int64_t ratio = predicted(value) - predicted(op->getResult(owner));
      if (lookup(value).anyScale)
        ratio = 0;
      Value change =
          scales.product(builder, op->getLoc(), getCorrectionOrOne(value),
                         scales.powerOfTwo(ratio));
      terminator->insertOperands(terminator->getNumOperands(), change);
    }
  }
  SmallVector<Type> types(owners.size(), scales.one().getType());
  unsigned first = op->getNumResults();
  for (Value result : op->getResults()) {
    moved.erase(result);
    needed.erase(result);
  }
  Operation *clone = extend(op, {}, types);
  for (auto [i, owner] : llvm::enumerate(owners))
    corrections[clone->getResult(owner)] = clone->getResult(first + i);
  for (auto [index, rule] : rules)
    growthRules[clone->getResult(index)] = rule;
}
