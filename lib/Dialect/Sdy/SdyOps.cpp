//===- SdyOps.cpp - Text and checks of sdy ops ----------------------------===//

#include "Lists.h"

#include "scalify/Dialect/Sdy/Sdy.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify::sdy;

MeshAttr scalify::sdy::findLargestMesh(Operation *module) {
  MeshAttr largest;
  for (auto op : module->getRegion(0).getOps<MeshOp>())
    if (!largest || op.getMesh().getTotalSize() > largest.getTotalSize())
      largest = op.getMesh();
  return largest;
}

LogicalResult ShardingConstraintOp::verifySymbolUses(SymbolTableCollection &) {
  return getSharding().verifyFor(*this, getType(),
                                 [&] { return emitOpError(); });
}

LogicalResult ReshardOp::verifySymbolUses(SymbolTableCollection &) {
  return getSharding().verifyFor(*this, getType(),
                                 [&] { return emitOpError(); });
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Checks the sharding of a collective's result, and that the mesh has the
/// collective's axes.
template <typename OpT>
static LogicalResult verifyCollective(OpT op, ArrayRef<AxisRefAttr> axes) {
  auto emitError = [&] { return op.emitOpError(); };
  TensorShardingAttr out = op.getOutSharding();
  if (failed(out.verifyFor(op, op.getType(), emitError)))
    return failure();
  return out.getMesh(op).verifyAxes(axes, emitError);
}

/// The same for axes of each dimension.
template <typename OpT>
static LogicalResult verifyCollective(OpT op, ListOfAxisRefListsAttr lists) {
  int64_t rank = cast<RankedTensorType>(op.getType()).getRank();
  if (static_cast<int64_t>(lists.getDims().size()) != rank)
    return op.emitOpError("has axes of ")
           << lists.getDims().size() << " dimensions for a value of type "
           << op.getType();
  SmallVector<AxisRefAttr> axes;
  for (AxisRefListAttr list : lists.getDims())
    llvm::append_range(axes, list.getAxes());
  return verifyCollective(op, axes);
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyCollective(*this, getReductionAxes().getAxes());
}

LogicalResult ReduceScatterOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyCollective(*this, getReduceScatterAxes());
}

LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyCollective(*this, getGatheringAxes());
}

LogicalResult AllSliceOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyCollective(*this, getSlicingAxes());
}

LogicalResult AllToAllOp::verifySymbolUses(SymbolTableCollection &) {
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  SmallVector<AxisRefAttr> axes;
  for (AllToAllParamAttr move : getParams().getParams()) {
    for (int64_t dim : {move.getSourceDim(), move.getTargetDim()})
      if (dim < 0 || dim >= rank)
        return emitOpError("has no dimension ") << dim;
    llvm::append_range(axes, move.getAxes());
  }
  return verifyCollective(*this, axes);
}

LogicalResult CollectivePermuteOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyCollective(*this, ArrayRef<AxisRefAttr>());
}

//===----------------------------------------------------------------------===//
// ManualComputationOp
//===----------------------------------------------------------------------===//

LogicalResult ManualComputationOp::verify() {
  Block &body = getBody().front();
  if (body.getNumArguments() != getNumOperands())
    return emitOpError() << "needs one argument per operand but got "
                         << body.getNumArguments() << " for "
                         << getNumOperands();
  auto end = body.empty() ? ReturnOp() : dyn_cast<ReturnOp>(body.back());
  if (!end)
    return emitOpError("needs a body that ends with 'sdy.return'");
  if (end.getNumOperands() != getNumResults())
    return emitOpError() << "needs a body that returns " << getNumResults()
                         << " values but got " << end.getNumOperands();
  if (getInShardings().getShardings().size() != getNumOperands() ||
      getOutShardings().getShardings().size() != getNumResults())
    return emitOpError("needs one sharding per operand and per result");
  return success();
}

/// Checks that `local` is one device's shard of `global`, by the manual axes of
/// its sharding.
static LogicalResult checkLocalType(ManualComputationOp op, StringRef what,
                                    size_t index, Type global, Type local,
                                    TensorShardingAttr sharding) {
  auto emitError = [&] {
    return op.emitOpError() << what << " " << index << " ";
  };
  if (failed(sharding.verifyFor(op, global, emitError)))
    return failure();
  MeshAttr mesh = sharding.getMesh(op);
  auto whole = cast<RankedTensorType>(global);
  auto isManual = [&](AxisRefAttr axis) {
    return llvm::any_of(op.getManualAxes().getAxes(), [&](StringAttr name) {
      return name.getValue() == axis.getName();
    });
  };
  SmallVector<int64_t> shape(whole.getShape());
  for (auto [size, dim] : llvm::zip(shape, sharding.getDimShardings()))
    for (AxisRefAttr axis : dim.getAxes()) {
      if (!isManual(axis) || ShapedType::isDynamic(size))
        continue;
      int64_t parts = axis.isSubAxis() ? axis.getSubSize()
                                       : *mesh.getAxisSize(axis.getName());
      size = (size + parts - 1) / parts;
    }
  auto expected = RankedTensorType::get(shape, whole.getElementType());
  auto part = dyn_cast<RankedTensorType>(local);
  if (!part || part.getElementType() != whole.getElementType() ||
      failed(verifyCompatibleShape(expected, part)))
    return emitError() << "needs local type " << expected << " but got "
                       << local;
  return success();
}

LogicalResult ManualComputationOp::verifySymbolUses(SymbolTableCollection &) {
  Block &body = getBody().front();
  for (auto [index, entry] :
       llvm::enumerate(llvm::zip(getOperandTypes(), body.getArgumentTypes(),
                                 getInShardings().getShardings()))) {
    auto [global, local, sharding] = entry;
    if (failed(
            checkLocalType(*this, "operand", index, global, local, sharding)))
      return failure();
  }
  for (auto [index, entry] : llvm::enumerate(
           llvm::zip(getResultTypes(), body.back().getOperandTypes(),
                     getOutShardings().getShardings()))) {
    auto [global, local, sharding] = entry;
    if (failed(checkLocalType(*this, "result", index, global, local, sharding)))
      return failure();
  }
  return success();
}

/// Reads `name=[<@mesh, [..]>, ..]`.
static ParseResult parseShardings(OpAsmParser &parser, StringRef name,
                                  TensorShardingPerValueAttr &attr) {
  if (parser.parseKeyword(name) || parser.parseEqual())
    return failure();
  auto shardings =
      parseList<TensorShardingAttr>(parser, AsmParser::Delimiter::Square);
  if (failed(shardings))
    return failure();
  attr = TensorShardingPerValueAttr::get(parser.getContext(), *shardings);
  return success();
}

static void printShardings(OpAsmPrinter &printer, StringRef name,
                           TensorShardingPerValueAttr attr) {
  printer << ' ' << name << '=';
  printList(printer, attr.getShardings(), "[]");
}

ParseResult ManualComputationOp::parse(OpAsmParser &parser,
                                       OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<OpAsmParser::Argument> arguments;
  auto &props = result.getOrAddProperties<Properties>();
  FunctionType type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(operands, AsmParser::Delimiter::Paren) ||
      parseShardings(parser, "in_shardings", props.in_shardings) ||
      parseShardings(parser, "out_shardings", props.out_shardings) ||
      parser.parseKeyword("manual_axes") || parser.parseEqual())
    return failure();
  props.manual_axes =
      dyn_cast_or_null<ManualAxesAttr>(ManualAxesAttr::parse(parser, Type()));
  if (!props.manual_axes ||
      parser.parseArgumentList(arguments, AsmParser::Delimiter::Paren,
                               /*allowType=*/true) ||
      parser.parseRegion(*result.addRegion(), arguments) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  result.addTypes(type.getResults());
  return success();
}

void ManualComputationOp::print(OpAsmPrinter &printer) {
  printer << '(' << getTensors() << ')';
  printShardings(printer, "in_shardings", getInShardings());
  printShardings(printer, "out_shardings", getOutShardings());
  printer << " manual_axes=";
  getManualAxes().print(printer);
  printer << " (";
  llvm::interleaveComma(
      getBody().getArguments(), printer,
      [&](BlockArgument arg) { printer.printRegionArgument(arg); });
  printer << ") ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict(
      (*this)->getAttrs(), {"in_shardings", "out_shardings", "manual_axes"});
  printer << " : ";
  printer.printFunctionalType(*this);
}

#define GET_OP_CLASSES
#include "scalify/Dialect/Sdy/SdyOps.cpp.inc"
