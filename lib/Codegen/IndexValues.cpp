//===- IndexValues.cpp - Indices of elements as values --------------------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::codegen;

// Unsigned division is cheaper. A dividend of floordiv that may be negative is
// first shifted above zero; a dividend of mod is never negative.
Value KernelEmitter::floorDivide(OpBuilder &b, AffineBinaryOpExpr expr,
                                 Value lhs, Value rhs) {
  Location loc = kernel.getLoc();
  int64_t low = scope.range(expr.getLHS()).low;
  if (low >= 0)
    return arith::DivUIOp::create(b, loc, lhs, rhs);
  int64_t by = cast<AffineConstantExpr>(expr.getRHS()).getValue();
  int64_t times = llvm::divideCeilSigned(-low, by);
  Value up = constantIndex(times), offset = constantIndex(times * by);
  if (isa<VectorType>(lhs.getType())) {
    up = broadcast(b, up);
    offset = broadcast(b, offset);
  }
  lhs = arith::AddIOp::create(b, loc, lhs, offset);
  Value quotient = arith::DivUIOp::create(b, loc, lhs, rhs);
  return arith::SubIOp::create(b, loc, quotient, up);
}

// For scalars and for one index per lane.
Value KernelEmitter::combineIndices(OpBuilder &b, AffineBinaryOpExpr expr,
                                    Value lhs, Value rhs) {
  Location loc = kernel.getLoc();
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return arith::AddIOp::create(b, loc, lhs, rhs);
  case AffineExprKind::Mul:
    return arith::MulIOp::create(b, loc, lhs, rhs);
  case AffineExprKind::FloorDiv:
    return floorDivide(b, expr, lhs, rhs);
  default:
    return arith::RemUIOp::create(b, loc, lhs, rhs);
  }
}

Value KernelEmitter::asIndex(AffineExpr expr) {
  auto known = indices.find(expr);
  if (known != indices.end())
    return known->second;
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    Value value = constantIndex(constant.getValue());
    levels[0].exprs.push_back(expr.getAsOpaquePointer());
    return indices[expr] = value;
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return scope.dim(dim.getPosition()).iv;
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return scope.symbol(symbol.getPosition()).value;
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value lhs = asIndex(binary.getLHS()), rhs = asIndex(binary.getRHS());
  unsigned level = scope.level(expr);
  Value result = combineIndices(at(level), binary, lhs, rhs);
  levels[level].exprs.push_back(expr.getAsOpaquePointer());
  return indices[expr] = result;
}

// One index per lane.
Value KernelEmitter::asIndexVector(AffineExpr expr) {
  auto known = indexVectors.find(expr);
  if (known != indexVectors.end())
    return known->second;
  Location loc = kernel.getLoc();
  unsigned level = scope.level(expr);
  if (!scope.dependsOnLanes(expr)) {
    Value scalar = asIndex(expr);
    return broadcast(at(level), scalar);
  }
  Value result;
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    Value base = asIndex(expr);
    OpBuilder &b = at(level);
    auto type = cast<VectorType>(vectorOf(b.getIndexType()));
    SmallVector<Attribute> steps;
    for (int64_t i = 0; i < scope.lanes; ++i)
      steps.push_back(b.getIndexAttr(i));
    Value lane =
        arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, steps));
    result = arith::AddIOp::create(b, loc, broadcast(b, base), lane);
  } else if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    return scope.symbol(symbol.getPosition()).value;
  } else {
    auto binary = cast<AffineBinaryOpExpr>(expr);
    Value lhs = asIndexVector(binary.getLHS());
    Value rhs = asIndexVector(binary.getRHS());
    result = combineIndices(at(level), binary, lhs, rhs);
  }
  levels[level].exprs.push_back(expr.getAsOpaquePointer());
  return indexVectors[expr] = result;
}

Element KernelEmitter::asElement(AffineExpr expr, Type elementType) {
  unsigned level = scope.level(expr);
  if (log)
    log->accesses.push_back(expr);
  Value index =
      scope.dependsOnLanes(expr) ? asIndexVector(expr) : asIndex(expr);
  OpBuilder &b = at(level);
  Location loc = kernel.getLoc();
  Type integer = elementType.isInteger() ? registerType(elementType)
                                         : Type(b.getI32Type());
  Type type = integer;
  if (isa<VectorType>(index.getType()))
    type = vectorOf(integer);
  Value value = arith::IndexCastOp::create(b, loc, type, index);
  if (!elementType.isInteger())
    value = emitConvert(b, loc, value, b.getI32Type(), elementType, machine);
  return {value, level};
}
