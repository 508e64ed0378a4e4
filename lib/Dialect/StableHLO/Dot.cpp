//===- Dot.cpp - Products of matrices -------------------------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify::stablehlo;

/// Dimensions of one operand in the order batch, then contracting.
static SmallVector<int64_t> join(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  SmallVector<int64_t> all(a);
  all.append(b.begin(), b.end());
  return all;
}

/// Checks that paired dimensions of both operands have the same size.
static LogicalResult checkPairs(Operation *op, StringRef what,
                                RankedTensorType lhs, RankedTensorType rhs,
                                ArrayRef<int64_t> lhsDims,
                                ArrayRef<int64_t> rhsDims) {
  for (auto [l, r] : llvm::zip(lhsDims, rhsDims))
    if (!sizesAgree(lhs.getDimSize(l), rhs.getDimSize(r)))
      return op->emitOpError()
             << "needs equal sizes in " << what << " dimensions but got "
             << lhs.getDimSize(l) << " in dimension " << l << " of " << lhs
             << " and " << rhs.getDimSize(r) << " in dimension " << r << " of "
             << rhs;
  return success();
}

LogicalResult DotGeneralOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto result = cast<RankedTensorType>(getType());
  DotDimensionNumbersAttr dims = getDotDimensionNumbers();
  ArrayRef<int64_t> lhsBatch = dims.getLhsBatchingDimensions();
  ArrayRef<int64_t> rhsBatch = dims.getRhsBatchingDimensions();
  ArrayRef<int64_t> lhsContract = dims.getLhsContractingDimensions();
  ArrayRef<int64_t> rhsContract = dims.getRhsContractingDimensions();
  // dot_general_c1, dot_general_c2
  if (lhsBatch.size() != rhsBatch.size())
    return emitOpError() << "needs as many lhs as rhs batching dimensions but "
                            "got "
                         << lhsBatch.size() << " and " << rhsBatch.size();
  if (lhsContract.size() != rhsContract.size())
    return emitOpError() << "needs as many lhs as rhs contracting dimensions "
                            "but got "
                         << lhsContract.size() << " and " << rhsContract.size();
  // dot_general_c3 to c8
  SmallVector<int64_t> lhsDims = join(lhsBatch, lhsContract);
  SmallVector<int64_t> rhsDims = join(rhsBatch, rhsContract);
  if (failed(checkDims(getLoc(), getOperationName(), "lhs dimension", lhsDims,
                       lhs.getRank())) ||
      failed(checkDims(getLoc(), getOperationName(), "rhs dimension", rhsDims,
                       rhs.getRank())))
    return failure();
  // dot_general_c9, dot_general_c10
  if (failed(checkPairs(*this, "batching", lhs, rhs, lhsBatch, rhsBatch)) ||
      failed(
          checkPairs(*this, "contracting", lhs, rhs, lhsContract, rhsContract)))
    return failure();
  // dot_general_c11
  if (failed(checkPrecisions(*this, getPrecisionConfig())))
    return failure();
  // dot_general_c12: batch, then free dimensions of lhs, then those of rhs.
  SmallVector<int64_t> shape;
  for (int64_t dim : lhsBatch)
    shape.push_back(lhs.getDimSize(dim));
  for (int64_t dim = 0; dim < lhs.getRank(); ++dim)
    if (!llvm::is_contained(lhsDims, dim))
      shape.push_back(lhs.getDimSize(dim));
  for (int64_t dim = 0; dim < rhs.getRank(); ++dim)
    if (!llvm::is_contained(rhsDims, dim))
      shape.push_back(rhs.getDimSize(dim));
  return checkResultShape(*this, shape, result);
}

LogicalResult DotOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto result = cast<RankedTensorType>(getType());
  int64_t l = lhs.getRank(), r = rhs.getRank();
  if (l < 1 || l > 2 || r < 1 || r > 2 ||
      !sizesAgree(lhs.getDimSize(l - 1), rhs.getDimSize(0)))
    return emitOpError() << "cannot multiply " << lhs << " by " << rhs;
  if (failed(checkPrecisions(*this, getPrecisionConfig())))
    return failure();
  SmallVector<int64_t> shape(lhs.getShape().drop_back());
  llvm::append_range(shape, rhs.getShape().drop_front());
  return checkResultShape(*this, shape, result);
}

//===----------------------------------------------------------------------===//
// Equations
//===----------------------------------------------------------------------===//

namespace {
/// The labels of an equation as "ij,jk->ik", each with its size. An ellipsis
/// stands for any number of dimensions.
class Equation {
public:
  explicit Equation(Operation *op) : op(op) {}
  LogicalResult check(StringRef text, ValueRange operands, Type result);

private:
  LogicalResult bind(StringRef term, RankedTensorType type);
  LogicalResult bind(char label, int64_t size);

  Operation *op;
  llvm::DenseMap<char, int64_t> sizes;
};
} // namespace

LogicalResult Equation::bind(char label, int64_t size) {
  if (!llvm::isAlpha(label))
    return op->emitOpError() << "needs letters as labels but got '"
                             << StringRef(&label, 1) << "'";
  auto [known, isNew] = sizes.try_emplace(label, size);
  if (!sizesAgree(known->second, size))
    return op->emitOpError() << "has sizes " << known->second << " and " << size
                             << " of label '" << StringRef(&label, 1) << "'";
  if (ShapedType::isDynamic(known->second))
    known->second = size;
  return success();
}

LogicalResult Equation::bind(StringRef term, RankedTensorType type) {
  constexpr StringLiteral ellipsis = "...";
  auto [before, after] = term.split(ellipsis);
  size_t count = before.size() + after.size(), rank = type.getRank();
  bool isOpen = term.contains(ellipsis);
  if (isOpen ? count > rank : count != rank)
    return op->emitOpError() << "has " << count << " labels '" << term
                             << "' for the dimensions of " << type;
  for (auto [i, label] : llvm::enumerate(before))
    if (failed(bind(label, type.getDimSize(i))))
      return failure();
  for (auto [i, label] : llvm::enumerate(after))
    if (failed(bind(label, type.getDimSize(rank - after.size() + i))))
      return failure();
  return success();
}

LogicalResult Equation::check(StringRef text, ValueRange operands,
                              Type result) {
  std::string dense;
  llvm::copy_if(text, std::back_inserter(dense),
                [](char c) { return !llvm::isSpace(c); });
  auto [inputs, output] = StringRef(dense).split("->");
  SmallVector<StringRef> terms;
  inputs.split(terms, ',');
  if (!StringRef(dense).contains("->") || terms.size() != operands.size())
    return op->emitOpError()
           << "needs an equation of " << operands.size()
           << " terms, as 'ij,jk->ik' has two, but got '" << text << "'";
  for (auto [term, operand] : llvm::zip(terms, operands))
    if (failed(bind(term, cast<RankedTensorType>(operand.getType()))))
      return failure();
  for (char label : output)
    if (label != '.' && (!sizes.contains(label) || output.count(label) > 1))
      return op->emitOpError()
             << "needs each label of the result once, and in an operand, but "
             << "got '" << text << "'";
  return bind(output, cast<RankedTensorType>(result));
}

LogicalResult EinsumOp::verify() {
  return Equation(*this).check(getEinsumConfig(), getOperands(), getType());
}

LogicalResult UnaryEinsumOp::verify() {
  return Equation(*this).check(getEinsumConfig(), getOperand(), getType());
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Dot.cpp.inc"
