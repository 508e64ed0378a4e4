//===- ReduceAssembly.cpp - Text of reductions ----------------------------===//
//
// A body of one commutative op on its two arguments prints as `applies op`;
// other bodies print as `reducer` with pairs of arguments and a region.
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify::stablehlo;

/// Returns the body's op if the compact form can represent it: one commutative
/// op of this dialect, on the block's two arguments, with nothing else to
/// print.
static Operation *compactBody(ReduceOp op) {
  if (op.getInputs().size() != 1 || !op.getBody().hasOneBlock())
    return nullptr;
  Block &block = op.getBody().front();
  if (block.getOperations().size() != 2 || block.getNumArguments() != 2)
    return nullptr;
  Operation &inner = block.front();
  Operation &end = block.back();
  if (!isa<ReturnOp>(end) || inner.getDialect() != op->getDialect() ||
      !inner.hasTrait<mlir::OpTrait::IsCommutative>() ||
      inner.getNumRegions() != 0 || inner.getNumResults() != 1 ||
      inner.getNumOperands() != 2 || !inner.getAttrs().empty())
    return nullptr;
  Type scalar =
      RankedTensorType::get({}, getElementTypeOrSelf(op.getInputs().front()));
  if (!llvm::equal(block.getArguments(), inner.getOperands()) ||
      !llvm::equal(inner.getResults(), end.getOperands()) ||
      inner.getResult(0).getType() != scalar ||
      inner.getOperand(0).getType() != scalar ||
      inner.getOperand(1).getType() != scalar)
    return nullptr;
  // The compact form has room for one location.
  Location loc = op.getLoc();
  if (inner.getLoc() != loc || end.getLoc() != loc ||
      llvm::any_of(block.getArguments(),
                   [&](BlockArgument arg) { return arg.getLoc() != loc; }))
    return nullptr;
  return &inner;
}

static void printDimensions(OpAsmPrinter &printer, ReduceOp op) {
  printer << " across dimensions = ";
  printDims(printer, op.getDimensions());
  printer.printOptionalAttrDict(op->getAttrs(), {"dimensions"});
  printer << " : ";
  printer.printFunctionalType(op);
}

void ReduceOp::print(OpAsmPrinter &printer) {
  printer << '(';
  llvm::interleave(
      llvm::zip(getInputs(), getInitValues()), printer,
      [&](auto pair) {
        printer << std::get<0>(pair) << " init: " << std::get<1>(pair);
      },
      "), (");
  printer << ')';
  if (Operation *inner = compactBody(*this)) {
    printer << " applies " << inner->getName().getStringRef();
    printDimensions(printer, *this);
    return;
  }
  printDimensions(printer, *this);
  printer.printNewline();
  printer << " reducer";
  Block &block = getBody().front();
  unsigned half = block.getNumArguments() / 2;
  for (unsigned i = 0; i < half; ++i) {
    printer << '(';
    printer.printRegionArgument(block.getArgument(i));
    printer << ", ";
    printer.printRegionArgument(block.getArgument(i + half));
    printer << ") ";
  }
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

/// Parses `applies dialect.op` and returns the op's registered name.
static ParseResult parseInnerName(OpAsmParser &parser,
                                  std::optional<OperationName> &name) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<OperationName> parsed = parser.parseCustomOperationName();
  if (failed(parsed))
    return failure();
  name = *parsed;
  if (!name->isRegistered() || name->getDialectNamespace() != "stablehlo" ||
      !name->hasTrait<mlir::OpTrait::IsCommutative>())
    return parser.emitError(loc) << "'" << name->getStringRef()
                                 << "' is no commutative op of stablehlo";
  return success();
}

/// Builds the body that the compact form represents.
static void buildCompactBody(OpAsmParser &parser, OperationState &result,
                             OperationName name, Type element, Location loc) {
  OpBuilder builder(parser.getContext());
  Type scalar = RankedTensorType::get({}, element);
  Block *block = builder.createBlock(result.regions.front().get(), {},
                                     {scalar, scalar}, {loc, loc});
  OperationState inner(loc, name);
  inner.addOperands(block->getArguments());
  inner.addTypes(scalar);
  Operation *op = builder.create(inner);
  ReturnOp::create(builder, loc, op->getResults());
}

/// Parses the region form's pairs of arguments and its region.
static ParseResult parseReducer(OpAsmParser &parser, OperationState &result,
                                size_t pairs) {
  SmallVector<OpAsmParser::Argument> lhs, rhs;
  if (parser.parseKeyword("reducer"))
    return failure();
  for (size_t i = 0; i < pairs; ++i)
    if (parser.parseLParen() ||
        parser.parseArgument(lhs.emplace_back(), /*allowType=*/true,
                             /*allowAttrs=*/false) ||
        parser.parseComma() ||
        parser.parseArgument(rhs.emplace_back(), /*allowType=*/true,
                             /*allowAttrs=*/false) ||
        parser.parseRParen())
      return failure();
  lhs.append(rhs.begin(), rhs.end());
  return parser.parseRegion(*result.regions.front(), lhs);
}

ParseResult ReduceOp::parse(OpAsmParser &parser, OperationState &result) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<OpAsmParser::UnresolvedOperand> operands, inits;
  auto parsePair = [&]() -> ParseResult {
    if (parser.parseLParen() || parser.parseOperand(operands.emplace_back()) ||
        parser.parseKeyword("init") || parser.parseColon() ||
        parser.parseOperand(inits.emplace_back()) || parser.parseRParen())
      return failure();
    return success();
  };
  if (parser.parseCommaSeparatedList(parsePair))
    return failure();
  size_t pairs = operands.size();
  operands.append(inits.begin(), inits.end());

  std::optional<OperationName> inner;
  if (succeeded(parser.parseOptionalKeyword("applies")))
    if (parseInnerName(parser, inner))
      return failure();
  FailureOr<SmallVector<int64_t>> dims;
  FunctionType type;
  if (parser.parseKeyword("across") || parser.parseKeyword("dimensions") ||
      parser.parseEqual() || failed(dims = parseDims(parser)) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  result.addTypes(type.getResults());
  result.getOrAddProperties<Properties>().dimensions =
      parser.getBuilder().getDenseI64ArrayAttr(*dims);
  result.addRegion();
  if (!inner)
    return parseReducer(parser, result, pairs);
  if (pairs != 1)
    return parser.emitError(loc, "the form with 'applies' has one input");
  // A location may follow the op; the body takes it too.
  std::optional<Location> explicitLoc;
  if (parser.parseOptionalLocationSpecifier(explicitLoc))
    return failure();
  Location bodyLoc =
      explicitLoc ? *explicitLoc : parser.getEncodedSourceLoc(loc);
  if (explicitLoc)
    result.location = *explicitLoc;
  else
    bodyLoc = result.location;
  buildCompactBody(parser, result, *inner,
                   getElementTypeOrSelf(type.getInput(0)), bodyLoc);
  return success();
}
