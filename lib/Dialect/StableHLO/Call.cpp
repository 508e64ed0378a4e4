//===- Call.cpp - Calls, tokens, tuples and input/output ------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace scalify::stablehlo;

//===----------------------------------------------------------------------===//
// CustomCallOp
//===----------------------------------------------------------------------===//

void CustomCallOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!getHasSideEffect())
    return;
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}

/// Checks that each layout is an ordering of the dimensions of its value.
static LogicalResult checkLayouts(CustomCallOp op, StringRef what,
                                  ArrayAttr layouts, TypeRange types) {
  if (layouts.size() != types.size())
    return op.emitOpError() << "needs " << types.size() << " " << what
                            << " layouts but got " << layouts.size();
  for (auto [layout, type] : llvm::zip(layouts, types)) {
    auto dims = dyn_cast<DenseIntElementsAttr>(layout);
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!dims || !dims.getElementType().isIndex())
      return op.emitOpError()
             << "needs layouts of index elements but got " << layout;
    if (!tensor)
      continue;
    SmallVector<int64_t> order;
    // One number stands for a list of any length.
    if (dims.getNumElements() == tensor.getRank())
      for (const APInt &dim : dims.getValues<APInt>())
        order.push_back(dim.getSExtValue());
    llvm::sort(order);
    if (dims.getNumElements() != tensor.getRank() ||
        !llvm::equal(order, llvm::seq<int64_t>(0, tensor.getRank())))
      return op.emitOpError() << "has a " << what << " layout " << layout
                              << " that orders no dimensions of " << tensor;
  }
  return success();
}

/// Returns the type at a place in nested tuples; null if there is none.
static Type typeAt(Type type, ArrayRef<int64_t> indices) {
  for (int64_t index : indices) {
    auto tuple = dyn_cast<TupleType>(type);
    if (!tuple || index < 0 || index >= static_cast<int64_t>(tuple.size()))
      return {};
    type = tuple.getType(index);
  }
  return type;
}

/// Checks that an output aliases an operand of its type. Several results count
/// as one tuple.
static LogicalResult checkAlias(CustomCallOp op, OutputOperandAliasAttr alias) {
  int64_t index = alias.getOperandIndex();
  int64_t count = op.getInputs().size();
  if (index < 0 || index >= count)
    return op.emitOpError() << "aliases operand " << index << " of " << count;
  Type results = op->getNumResults() == 1
                     ? op->getResult(0).getType()
                     : TupleType::get(op.getContext(), op->getResultTypes());
  Type from =
      typeAt(op.getInputs()[index].getType(), alias.getOperandTupleIndices());
  Type to = typeAt(results, alias.getOutputTupleIndices());
  if (!from || from != to)
    return op.emitOpError() << "has an alias " << alias
                            << " of no output and operand of one type";
  return success();
}

LogicalResult CustomCallOp::verify() {
  // custom_call_i6, custom_call_i7: layouts are given for both or neither.
  if (getOperandLayouts().has_value() != getResultLayouts().has_value())
    return emitOpError("needs layouts of operands and results, or of neither");
  if (getOperandLayouts() &&
      (failed(checkLayouts(*this, "operand", *getOperandLayouts(),
                           getInputs().getTypes())) ||
       failed(checkLayouts(*this, "result", *getResultLayouts(),
                           getResultTypes()))))
    return failure();
  for (auto alias :
       getOutputOperandAliases().getAsRange<OutputOperandAliasAttr>())
    if (failed(checkAlias(*this, alias)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// CompositeOp
//===----------------------------------------------------------------------===//

LogicalResult CompositeOp::verify() {
  // composite_c1
  if (getName().empty())
    return emitOpError("needs a name");
  return success();
}

LogicalResult
CompositeOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  auto callee = symbolTable.lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getDecompositionAttr());
  // composite_c2
  if (!callee)
    return emitOpError() << "has a decomposition '" << getDecomposition()
                         << "' that is no function";
  // composite_c3, composite_c4
  if (!llvm::equal(callee.getArgumentTypes(), getOperandTypes()) ||
      !llvm::equal(callee.getResultTypes(), getResultTypes())) {
    InFlightDiagnostic diag = emitOpError()
                              << "has other types than its decomposition '"
                              << getDecomposition() << "'";
    diag.attachNote(callee.getLoc()) << "defined here";
    return diag;
  }
  return success();
}

ParseResult CompositeOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseAttribute(name) || parser.parseOperandList(operands))
    return failure();
  if (succeeded(parser.parseOptionalLParen())) {
    if (parser.parseCommaSeparatedList(
            [&] { return parser.parseRegion(*result.addRegion()); }) ||
        parser.parseRParen())
      return failure();
  }
  if (parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  result.attributes.set("name", name);
  result.addTypes(type.getResults());
  return success();
}

void CompositeOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printAttribute(getNameAttr());
  if (!getInputs().empty())
    printer << ' ' << getInputs();
  if (!getCompositeRegions().empty()) {
    printer << " (";
    llvm::interleaveComma(getCompositeRegions(), printer,
                          [&](Region &region) { printer.printRegion(region); });
    printer << ')';
  }
  SmallVector<StringRef> hidden{"name"};
  if (getCompositeAttributes().empty())
    hidden.push_back("composite_attributes");
  if (getVersion() == 0)
    hidden.push_back("version");
  printer.printOptionalAttrDict((*this)->getAttrs(), hidden);
  printer << " : ";
  printer.printFunctionalType(*this);
}

//===----------------------------------------------------------------------===//
// Channels and the host
//===----------------------------------------------------------------------===//

/// Checks that the last result is a token, and the others are tensors.
static LogicalResult checkReceived(Operation *op) {
  TypeRange types = op->getResultTypes();
  if (!types.empty() && isa<TokenType>(types.back()) &&
      llvm::all_of(types.drop_back(), llvm::IsaPred<RankedTensorType>))
    return success();
  InFlightDiagnostic diag = op->emitOpError()
                            << "needs tensors and then one token as results "
                               "but got (";
  diag << types << ")";
  return diag;
}

LogicalResult SendOp::verify() {
  if (auto pairs = getSourceTargetPairs())
    return checkSourceTargetPairs(*this, cast<DenseIntElementsAttr>(*pairs));
  return success();
}

LogicalResult RecvOp::verify() {
  if (auto pairs = getSourceTargetPairs())
    if (failed(
            checkSourceTargetPairs(*this, cast<DenseIntElementsAttr>(*pairs))))
      return failure();
  return checkReceived(*this);
}

LogicalResult InfeedOp::verify() { return checkReceived(*this); }

//===----------------------------------------------------------------------===//
// Tuples
//===----------------------------------------------------------------------===//

LogicalResult TupleOp::verify() {
  // tuple_c1
  if (!llvm::equal(cast<TupleType>(getType()).getTypes(), getOperandTypes()))
    return emitOpError() << "needs a tuple of its operands' types but got "
                         << getType();
  return success();
}

LogicalResult GetTupleElementOp::verify() {
  ArrayRef<Type> types = cast<TupleType>(getOperand().getType()).getTypes();
  // get_tuple_element_c1
  if (getIndex() >= types.size())
    return emitOpError() << "needs an index below " << types.size()
                         << " but got " << getIndex();
  // get_tuple_element_c2
  if (types[getIndex()] != getType())
    return emitOpError() << "needs a result of type " << types[getIndex()]
                         << " but got " << getType();
  return success();
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Call.cpp.inc"
