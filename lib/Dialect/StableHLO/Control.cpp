//===- Control.cpp - Loops, branches and barriers -------------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify::stablehlo;

//===----------------------------------------------------------------------===//
// WhileOp
//===----------------------------------------------------------------------===//

void WhileOp::getAsmBlockArgumentNames(Region &region,
                                       OpAsmSetValueNameFn setName) {
  for (BlockArgument arg : region.getArguments())
    setName(arg, "iterArg");
}

LogicalResult WhileOp::verify() {
  TypeRange types = getOperandTypes();
  // while_c3
  if (!detail::areCompatibleTypes(types, getResultTypes()))
    return emitOpError("needs results of the operands' types");
  // while_c1
  auto pred = RankedTensorType::get({}, IntegerType::get(getContext(), 1));
  if (failed(checkRegion(*this, getCond(), "cond", types, TypeRange{pred})))
    return failure();
  // while_c2
  return checkRegion(*this, getBody(), "body", types, types);
}

void WhileOp::print(OpAsmPrinter &printer) {
  Block &cond = getCond().front();
  printer << '(';
  llvm::interleaveComma(llvm::zip(cond.getArguments(), getOperands()), printer,
                        [&](auto pair) {
                          printer.printOperand(std::get<0>(pair));
                          printer << " = ";
                          printer.printOperand(std::get<1>(pair));
                        });
  printer << ')';
  if (getNumOperands() != 0)
    printer << " : " << getOperandTypes();
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer.printNewline();
  printer << "cond ";
  printer.printRegion(getCond(), /*printEntryBlockArgs=*/false);
  // Both regions print the names of the condition's arguments.
  printer << " do ";
  printer.shadowRegionArgs(getBody(), cond.getArguments());
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

ParseResult WhileOp::parse(OpAsmParser &parser, OperationState &result) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<OpAsmParser::Argument> arguments;
  auto parsePair = [&]() -> ParseResult {
    if (parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
        parser.parseOperand(operands.emplace_back()))
      return failure();
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parsePair))
    return failure();
  SmallVector<Type> types;
  if (!operands.empty() && parser.parseColonTypeList(types))
    return failure();
  if (parser.resolveOperands(operands, types, loc, result.operands))
    return failure();
  for (auto [argument, type] : llvm::zip(arguments, types))
    argument.type = type;
  result.addTypes(types);
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseKeyword("cond") ||
      parser.parseRegion(*result.addRegion(), arguments) ||
      parser.parseKeyword("do") ||
      parser.parseRegion(*result.addRegion(), arguments))
    return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// CaseOp and IfOp
//===----------------------------------------------------------------------===//

LogicalResult CaseOp::verify() {
  // case_c1
  if (getBranches().empty())
    return emitOpError("needs at least one branch");
  // case_c2 to c4
  for (Region &branch : getBranches())
    if (failed(checkRegion(*this, branch, "branch", {}, getResultTypes())))
      return failure();
  return success();
}

LogicalResult IfOp::verify() {
  // if_c1 to c3
  if (failed(checkRegion(*this, getTrueBranch(), "true branch", {},
                         getResultTypes())))
    return failure();
  return checkRegion(*this, getFalseBranch(), "false branch", {},
                     getResultTypes());
}

//===----------------------------------------------------------------------===//
// OptimizationBarrierOp
//===----------------------------------------------------------------------===//

LogicalResult
OptimizationBarrierOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  llvm::append_range(types, adaptor.getOperand().getTypes());
  return success();
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Control.cpp.inc"
