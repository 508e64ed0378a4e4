//===- Reduce.cpp - Reductions --------------------------------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/Window.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify::stablehlo;

//===----------------------------------------------------------------------===//
// ReduceOp
//===----------------------------------------------------------------------===//

/// Returns the shape of `input` without `dimensions`.
static SmallVector<int64_t> reducedShape(RankedTensorType input,
                                         ArrayRef<int64_t> dimensions) {
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    if (!llvm::is_contained(dimensions, dim))
      shape.push_back(input.getDimSize(dim));
  return shape;
}

void ReduceOp::build(OpBuilder &builder, OperationState &state,
                     ValueRange inputs, ValueRange initValues,
                     ArrayRef<int64_t> dimensions) {
  SmallVector<Type> types;
  for (auto [input, init] : llvm::zip(inputs, initValues))
    types.push_back(RankedTensorType::get(
        reducedShape(cast<RankedTensorType>(input.getType()), dimensions),
        getElementTypeOrSelf(init)));
  build(builder, state, types, inputs, initValues,
        builder.getDenseI64ArrayAttr(dimensions));
}

bool scalify::stablehlo::isSum(Region &reducer) {
  Block &body = reducer.front();
  auto add = dyn_cast<AddOp>(body.front());
  return add && body.getTerminator()->getOperand(0) == add &&
         add.getLhs() != add.getRhs() &&
         llvm::all_of(add->getOperands(), llvm::IsaPred<BlockArgument>);
}

bool scalify::stablehlo::hasNeutralInit(Region &reducer, ValueRange inits) {
  Block &body = reducer.front();
  if (inits.size() != 1 || !llvm::hasSingleElement(body.without_terminator()))
    return false;
  if (isa<MaxOp, MinOp, AndOp, OrOp>(body.front()))
    return true; // joined twice is joined once
  DenseElementsAttr init;
  if (!isa<AddOp>(body.front()) || !matchPattern(inits[0], m_Constant(&init)))
    return false;
  return matchPattern(init, m_AnyZeroFloat()) || matchPattern(init, m_Zero());
}

bool scalify::stablehlo::isOrderFree(ReduceOp reduce) {
  Operation &join = reduce.getBody().front().front();
  return reduce->getNumResults() == 1 && hasNeutralInit(reduce) &&
         (!isa<AddOp>(join) ||
          isa<IntegerType>(getElementTypeOrSelf(reduce->getResult(0))));
}

/// Checks the operands, results and region of a reduction to one shape.
static LogicalResult checkReduction(Operation *op, ValueRange inputs,
                                    ValueRange inits, ArrayRef<int64_t> shape,
                                    Region &reducer) {
  Type first = inputs.front().getType();
  SmallVector<Type> scalars;
  for (auto [input, init, type] :
       llvm::zip(inputs, inits, op->getResultTypes())) {
    // reduce_c1, reduce_window_c2
    if (failed(verifyCompatibleShape(first, input.getType())))
      return op->emitOpError() << "needs inputs of one shape but got " << first
                               << " and " << input.getType();
    // reduce_c2
    if (cast<RankedTensorType>(init.getType()).getRank() != 0)
      return op->emitOpError()
             << "needs scalar init values but got " << init.getType();
    // reduce_c7, reduce_c8, reduce_window_c14, reduce_window_c15
    auto result = cast<RankedTensorType>(type);
    if (failed(checkResultShape(op, shape, result)))
      return failure();
    // reduce_c6, reduce_window_c13
    if (failed(checkPromotable(op, input.getType(), type)) ||
        failed(checkPromotable(op, init.getType(), type)))
      return failure();
    scalars.push_back(RankedTensorType::get({}, result.getElementType()));
  }
  return checkReducer(op, reducer, scalars);
}

LogicalResult ReduceOp::verify() {
  if (getInputs().empty())
    return emitOpError("needs at least one input");
  if (getNumResults() != getInputs().size())
    return emitOpError() << "needs one result per input but got "
                         << getNumResults() << " for " << getInputs().size();
  auto first = cast<RankedTensorType>(getInputs().front().getType());
  // reduce_c4, reduce_c5
  if (failed(checkDims(getLoc(), getOperationName(), "dimensions",
                       getDimensions(), first.getRank())))
    return failure();
  return checkReduction(*this, getInputs(), getInitValues(),
                        reducedShape(first, getDimensions()), getBody());
}

//===----------------------------------------------------------------------===//
// ReduceWindowOp and SelectAndScatterOp
//===----------------------------------------------------------------------===//

LogicalResult ReduceWindowOp::verify() {
  // reduce_window_c1, reduce_window_c3
  if (getInputs().empty() || getNumResults() != getInputs().size())
    return emitOpError() << "needs one result per input, and at least one, but "
                            "got "
                         << getNumResults() << " for " << getInputs().size();
  auto first = cast<RankedTensorType>(getInputs().front().getType());
  // reduce_window_c4
  if (failed(checkLength(getLoc(), getOperationName(), "window_dimensions",
                         getWindowDimensions().size(), first.getRank())))
    return failure();
  // reduce_window_c5 to c12
  auto window = readWindow(*this, {getWindowDimensions(), getWindowStrides(),
                                   getPadding(), getBaseDilations(),
                                   getWindowDilations()});
  if (failed(window))
    return failure();
  return checkReduction(*this, getInputs(), getInitValues(),
                        windowShape(first.getShape(), *window), getBody());
}

LogicalResult SelectAndScatterOp::verify() {
  auto operand = cast<RankedTensorType>(getOperand().getType());
  auto source = cast<RankedTensorType>(getSource().getType());
  auto result = cast<RankedTensorType>(getType());
  // select_and_scatter_c11, select_and_scatter_c12
  if (failed(checkResultShape(*this, operand.getShape(), result)) ||
      failed(checkPromotable(*this, operand, result)))
    return failure();
  // select_and_scatter_c4 to c8: without sizes the window is one element.
  SmallVector<int64_t> sizes(operand.getRank(), 1);
  if (getWindowDimensions())
    sizes.assign(getWindowDimensions()->begin(), getWindowDimensions()->end());
  if (failed(checkLength(getLoc(), getOperationName(), "window_dimensions",
                         sizes.size(), operand.getRank())))
    return failure();
  auto window = readWindow(*this, {sizes, getWindowStrides(), getPadding(),
                                   std::nullopt, std::nullopt});
  if (failed(window))
    return failure();
  // select_and_scatter_c2
  SmallVector<int64_t> shape = windowShape(operand.getShape(), *window);
  if (failed(verifyCompatibleShape(shape, source.getShape())))
    return emitOpError() << "needs a source of shape "
                         << RankedTensorType::get(shape,
                                                  source.getElementType())
                         << " but got " << source;
  // select_and_scatter_c1, select_and_scatter_c3
  Type scalar = RankedTensorType::get({}, operand.getElementType());
  if (source.getElementType() != operand.getElementType() ||
      getInitValue().getType() != scalar)
    return emitOpError() << "needs a source and a scalar init value of the "
                            "operand's elements but got "
                         << source << " and " << getInitValue().getType()
                         << " for " << operand;
  // select_and_scatter_c9, select_and_scatter_c10
  Type pred = RankedTensorType::get({}, IntegerType::get(getContext(), 1));
  if (failed(checkRegion(*this, getSelect(), "select region", {scalar, scalar},
                         TypeRange{pred})))
    return failure();
  return checkReducer(*this, getScatter(),
                      {RankedTensorType::get({}, result.getElementType())});
}

//===----------------------------------------------------------------------===//
// SortOp and MapOp
//===----------------------------------------------------------------------===//

LogicalResult SortOp::verify() {
  // sort_c1, sort_c2
  if (getInputs().empty())
    return emitOpError("needs at least one input");
  if (!detail::areCompatibleTypes(getInputs().getTypes(), getResultTypes()))
    return emitOpError("needs results of the inputs' types");
  auto first = cast<RankedTensorType>(getInputs().front().getType());
  int64_t rank = first.getRank(), dim = static_cast<int64_t>(getDimension());
  // sort_c4: a negative dimension counts from the end.
  if (dim < -rank || dim >= rank)
    return emitOpError() << "needs a dimension from " << -rank << " to "
                         << rank - 1 << " but got " << dim;
  SmallVector<Type> scalars;
  for (Type type : getInputs().getTypes()) {
    // sort_c3
    if (failed(verifyCompatibleShape(first, type)))
      return emitOpError() << "needs inputs of one shape but got " << first
                           << " and " << type;
    Type scalar = RankedTensorType::get({}, getElementTypeOrSelf(type));
    scalars.append({scalar, scalar});
  }
  // sort_c5
  Type pred = RankedTensorType::get({}, IntegerType::get(getContext(), 1));
  return checkRegion(*this, getComparator(), "comparator", scalars,
                     TypeRange{pred});
}

LogicalResult MapOp::verify() {
  auto result = cast<RankedTensorType>(getType());
  // map_c3
  if (!llvm::equal(getDimensions(), llvm::seq<int64_t>(0, result.getRank())))
    return emitOpError() << "needs dimensions 0 to " << result.getRank() - 1
                         << " in order";
  SmallVector<Type> scalars;
  for (Type type : getInputs().getTypes())
    scalars.push_back(RankedTensorType::get({}, getElementTypeOrSelf(type)));
  // map_c4
  return checkRegion(
      *this, getComputation(), "computation", scalars,
      TypeRange{RankedTensorType::get({}, result.getElementType())});
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Reduce.cpp.inc"
