//===- IndexExpr.cpp - Index expressions over loops -----------------------===//

#include "IndexExpr.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace scalify::codegen;

//===----------------------------------------------------------------------===//
// LinearForm
//===----------------------------------------------------------------------===//

int64_t LinearForm::coefficient(AffineExpr term) const {
  for (auto &[expr, factor] : terms)
    if (expr == term)
      return factor;
  return 0;
}

void LinearForm::add(AffineExpr term, int64_t factor) {
  for (auto &entry : terms) {
    if (entry.first != term)
      continue;
    entry.second += factor;
    if (entry.second == 0)
      terms.erase(&entry);
    return;
  }
  if (factor != 0)
    terms.push_back({term, factor});
}

static void flattenInto(AffineExpr expr, int64_t factor, LinearForm &form) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    form.constant += factor * constant.getValue();
    return;
  }
  if (auto binary = dyn_cast<AffineBinaryOpExpr>(expr)) {
    if (expr.getKind() == AffineExprKind::Add) {
      flattenInto(binary.getLHS(), factor, form);
      flattenInto(binary.getRHS(), factor, form);
      return;
    }
    if (expr.getKind() == AffineExprKind::Mul) {
      auto rhs = dyn_cast<AffineConstantExpr>(binary.getRHS());
      if (rhs) {
        flattenInto(binary.getLHS(), factor * rhs.getValue(), form);
        return;
      }
    }
  }
  form.add(expr, factor);
}

/// Replaces (e floordiv m) * m + e mod m, which a reshape and its inverse
/// leave, by e.
static bool joinDivision(LinearForm &form) {
  for (auto [term, factor] : form.terms) {
    auto rest = dyn_cast<AffineBinaryOpExpr>(term);
    if (!rest || term.getKind() != AffineExprKind::Mod)
      continue;
    auto divisor = dyn_cast<AffineConstantExpr>(rest.getRHS());
    if (!divisor)
      continue;
    AffineExpr whole = rest.getLHS();
    AffineExpr quotient = whole.floorDiv(divisor.getValue());
    int64_t expected = factor * divisor.getValue();
    if (form.coefficient(quotient) != expected)
      continue;
    int64_t own = factor;
    form.add(quotient, -expected);
    form.add(rest, -own);
    flattenInto(whole, own, form);
    return true;
  }
  return false;
}

LinearForm IndexScope::flatten(AffineExpr expr) const {
  LinearForm form;
  flattenInto(expr, 1, form);
  while (joinDivision(form))
    ;
  return form;
}

AffineExpr IndexScope::build(const LinearForm &form) const {
  AffineExpr sum = constant(form.constant);
  for (auto &[expr, factor] : form.terms)
    sum = expr * factor + sum;
  return sum;
}

//===----------------------------------------------------------------------===//
// Scope
//===----------------------------------------------------------------------===//

AffineExpr IndexScope::addDim(LoopDim dim) {
  dims.push_back(dim);
  return getAffineDimExpr(dims.size() - 1, context);
}

AffineExpr IndexScope::addSymbol(IndexSymbol symbol) {
  symbols.push_back(symbol);
  return getAffineSymbolExpr(symbols.size() - 1, context);
}

AffineExpr IndexScope::constant(int64_t value) const {
  return getAffineConstantExpr(value, context);
}

static int64_t floorDivInt(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

Interval IndexScope::range(AffineExpr expr) const {
  LinearForm form = flatten(expr);
  Interval sum{form.constant, form.constant};
  for (auto &[term, factor] : form.terms) {
    Interval r{0, 0};
    if (auto dim = dyn_cast<AffineDimExpr>(term)) {
      r = dims[dim.getPosition()].range;
    } else if (auto symbol = dyn_cast<AffineSymbolExpr>(term)) {
      r = symbols[symbol.getPosition()].range;
    } else {
      auto binary = cast<AffineBinaryOpExpr>(term);
      int64_t m = cast<AffineConstantExpr>(binary.getRHS()).getValue();
      Interval inner = range(binary.getLHS());
      int64_t low = floorDivInt(inner.low, m),
              high = floorDivInt(inner.high, m);
      if (term.getKind() == AffineExprKind::FloorDiv)
        r = {low, high};
      else if (low == high)
        r = {inner.low - low * m, inner.high - low * m};
      else
        r = {0, m - 1};
    }
    int64_t a = r.low * factor, b = r.high * factor;
    sum.low += std::min(a, b);
    sum.high += std::max(a, b);
  }
  return sum;
}

unsigned IndexScope::level(AffineExpr expr) const {
  unsigned level = 0;
  expr.walk([&](AffineExpr e) {
    if (auto dim = dyn_cast<AffineDimExpr>(e))
      level = std::max(level, dims[dim.getPosition()].level);
    else if (auto symbol = dyn_cast<AffineSymbolExpr>(e))
      level = std::max(level, symbols[symbol.getPosition()].level);
  });
  return level;
}

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

// Splits expr into divisor * multiple + rest; only the rest needs a division.
static std::pair<LinearForm, LinearForm> split(const LinearForm &form,
                                               int64_t divisor) {
  LinearForm multiple, rest;
  for (auto &[term, factor] : form.terms) {
    if (factor % divisor == 0)
      multiple.add(term, factor / divisor);
    else
      rest.add(term, factor);
  }
  multiple.constant = floorDivInt(form.constant, divisor);
  rest.constant = form.constant - multiple.constant * divisor;
  return {multiple, rest};
}

// The rest of a reversed index may be negative, and the emitted division
// truncates towards zero. Moves whole multiples from the rest to the multiple.
void IndexScope::makeNonNegative(LinearForm &multiple, LinearForm &rest,
                                 int64_t divisor) const {
  int64_t low = range(build(rest)).low;
  if (low >= 0)
    return;
  int64_t quotient = floorDivInt(low, divisor);
  rest.constant -= quotient * divisor;
  multiple.constant += quotient;
}

AffineExpr IndexScope::floorDiv(AffineExpr expr, int64_t divisor) const {
  if (divisor == 1)
    return expr;
  auto [multiple, rest] = split(flatten(expr), divisor);
  makeNonNegative(multiple, rest, divisor);
  AffineExpr remainder = build(rest);
  Interval r = range(remainder);
  if (r.low >= 0 && r.high < divisor)
    return build(multiple);
  if (floorDivInt(r.low, divisor) == floorDivInt(r.high, divisor)) {
    multiple.constant += floorDivInt(r.low, divisor);
    return build(multiple);
  }
  // One division by a product instead of two divisions.
  auto inner = dyn_cast<AffineBinaryOpExpr>(remainder);
  if (inner && remainder.getKind() == AffineExprKind::FloorDiv) {
    int64_t m = cast<AffineConstantExpr>(inner.getRHS()).getValue();
    multiple.add(inner.getLHS().floorDiv(m * divisor), 1);
  } else {
    multiple.add(remainder.floorDiv(divisor), 1);
  }
  return build(multiple);
}

AffineExpr IndexScope::mod(AffineExpr expr, int64_t divisor) const {
  if (divisor == 1)
    return constant(0);
  auto [multiple, rest] = split(flatten(expr), divisor);
  makeNonNegative(multiple, rest, divisor);
  AffineExpr remainder = build(rest);
  Interval r = range(remainder);
  if (r.low >= 0 && r.high < divisor)
    return remainder;
  int64_t quotient = floorDivInt(r.low, divisor);
  if (quotient == floorDivInt(r.high, divisor))
    return remainder - quotient * divisor;
  return remainder % divisor;
}

IndexScope::Place IndexScope::placeOf(ArrayRef<AffineExpr> index,
                                      ArrayRef<int64_t> shape) {
  Place place;
  for (AffineExpr expr : index)
    place.first.push_back(expr.getAsOpaquePointer());
  place.second.assign(shape.begin(), shape.end());
  return place;
}

AffineExpr IndexScope::linearise(ArrayRef<AffineExpr> index,
                                 ArrayRef<int64_t> shape) const {
  auto known = linearOf.find(placeOf(index, shape));
  if (known != linearOf.end())
    return known->second;
  LinearForm sum;
  int64_t stride = 1;
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    flattenInto(index[i], stride, sum);
    stride *= shape[i];
  }
  // e mod m + m * (e floordiv m) is e: a reshape and its inverse cancel.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [term, factor] : sum.terms) {
      if (term.getKind() != AffineExprKind::Mod)
        continue;
      auto binary = cast<AffineBinaryOpExpr>(term);
      int64_t m = cast<AffineConstantExpr>(binary.getRHS()).getValue();
      LinearForm quotient = flatten(floorDiv(binary.getLHS(), m));
      if (quotient.constant != 0 || quotient.terms.size() != 1 ||
          quotient.terms[0].second != 1 ||
          sum.coefficient(quotient.terms[0].first) != factor * m)
        continue;
      int64_t f = factor;
      AffineExpr whole = binary.getLHS();
      sum.add(quotient.terms[0].first, -f * m);
      sum.add(term, -f);
      flattenInto(whole, f, sum);
      changed = true;
      break;
    }
  }
  return build(sum);
}

Index IndexScope::delinearise(AffineExpr linear,
                              ArrayRef<int64_t> shape) const {
  Index index(shape.size());
  const AffineExpr whole = linear;
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    if (i == 0) {
      index[0] = shape[0] == 1 ? constant(0) : linear;
      break;
    }
    index[i] = mod(linear, shape[i]);
    linear = floorDiv(linear, shape[i]);
  }
  // An index without one of the loops is that of elements of other loops too.
  bool isWhole = true;
  whole.walk([&](AffineExpr expr) {
    auto loop = dyn_cast<AffineDimExpr>(expr);
    isWhole &= !isa<AffineSymbolExpr>(expr);
    isWhole &= !loop || llvm::any_of(index, [&](AffineExpr one) {
      return one.isFunctionOfDim(loop.getPosition());
    });
  });
  if (isWhole)
    linearOf.try_emplace(placeOf(index, shape), whole);
  return index;
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

bool IndexScope::dependsOnLanes(AffineExpr expr) const {
  bool found = false;
  expr.walk([&](AffineExpr e) {
    if (auto dim = dyn_cast<AffineDimExpr>(e))
      found |= laneDim && dim.getPosition() == *laneDim;
    else if (auto symbol = dyn_cast<AffineSymbolExpr>(e))
      found |= isa<VectorType>(symbols[symbol.getPosition()].value.getType());
  });
  return found;
}

bool IndexScope::isLaneAligned(AffineExpr expr) const {
  LinearForm form = flatten(expr);
  if (form.constant % lanes != 0)
    return false;
  return llvm::all_of(form.terms, [&](auto &entry) {
    auto dim = dyn_cast<AffineDimExpr>(entry.first);
    int64_t known = dim ? dims[dim.getPosition()].alignment : 1;
    return (entry.second * known) % lanes == 0;
  });
}

std::optional<int64_t> IndexScope::laneStride(AffineExpr expr) const {
  int64_t stride = 0;
  for (auto &[term, factor] : flatten(expr).terms) {
    if (!dependsOnLanes(term))
      continue;
    if (isa<AffineDimExpr>(term)) {
      stride += factor;
      continue;
    }
    // Division by a multiple of the lane count splits no aligned vector.
    auto binary = dyn_cast<AffineBinaryOpExpr>(term);
    if (!binary || (term.getKind() != AffineExprKind::Mod &&
                    term.getKind() != AffineExprKind::FloorDiv))
      return std::nullopt;
    int64_t m = cast<AffineConstantExpr>(binary.getRHS()).getValue();
    std::optional<int64_t> inner = laneStride(binary.getLHS());
    if (inner != 1 || m % lanes != 0 || !isLaneAligned(binary.getLHS()))
      return std::nullopt;
    if (term.getKind() == AffineExprKind::Mod)
      stride += factor;
  }
  return stride;
}
