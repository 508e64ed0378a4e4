//===- Assembly.h - Custom assembly directives ------------------*- C++ -*-===//
//
// The custom<..> directives of op and attribute definitions, shared with the
// chlo dialect.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_DIALECT_STABLEHLO_ASSEMBLY_H
#define SCALIFY_LIB_DIALECT_STABLEHLO_ASSEMBLY_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::stablehlo {

/// `[0, 1]`, a field of an attribute.
mlir::FailureOr<llvm::SmallVector<int64_t>> parseDims(mlir::AsmParser &parser);
void printDims(mlir::AsmPrinter &printer, llvm::ArrayRef<int64_t> dims);

/// Parses one type for all operands and results, or a function type.
mlir::ParseResult parseSameTypes(mlir::OpAsmParser &parser,
                                 llvm::ArrayRef<mlir::Type *> operands,
                                 mlir::Type &result);
void printSameTypes(mlir::OpAsmPrinter &printer,
                    llvm::ArrayRef<mlir::Type> operands, mlir::Type result);

/// The types of one to three operands, then the result's.
template <typename... Types>
mlir::ParseResult parseSameOperandsAndResultType(mlir::OpAsmParser &parser,
                                                 Types &...types) {
  llvm::SmallVector<mlir::Type *> operands{&types...};
  mlir::Type &result = *operands.pop_back_val();
  return parseSameTypes(parser, operands, result);
}
template <typename... Types>
void printSameOperandsAndResultType(mlir::OpAsmPrinter &printer,
                                    mlir::Operation *, Types... types) {
  llvm::SmallVector<mlir::Type> operands{types...};
  mlir::Type result = operands.pop_back_val();
  printSameTypes(printer, operands, result);
}

/// `tensor<4xcomplex<f32>>`: the operand types are parts of the result's type.
mlir::ParseResult parseComplexOpType(mlir::OpAsmParser &parser, mlir::Type &lhs,
                                     mlir::Type &rhs, mlir::Type &result);
void printComplexOpType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                        mlir::Type lhs, mlir::Type rhs, mlir::Type result);

/// `tensor<4xi1>, tensor<4xf32>`: the predicate's type, then the values'.
mlir::ParseResult parseSelectOpType(mlir::OpAsmParser &parser, mlir::Type &pred,
                                    mlir::Type &onTrue, mlir::Type &onFalse,
                                    mlir::Type &result);
void printSelectOpType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                       mlir::Type pred, mlir::Type onTrue, mlir::Type onFalse,
                       mlir::Type result);

/// `T, U`: each operand has the type of its result.
mlir::ParseResult
parsePairwiseOpType(mlir::OpAsmParser &parser,
                    llvm::SmallVectorImpl<mlir::Type> &operands,
                    llvm::SmallVectorImpl<mlir::Type> &results);
void printPairwiseOpType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                         mlir::TypeRange operands, mlir::TypeRange results);

/// `e8m7`.
mlir::ParseResult parseExponentMantissa(mlir::AsmParser &parser,
                                        mlir::IntegerAttr &exponent,
                                        mlir::IntegerAttr &mantissa);
void printExponentMantissa(mlir::AsmPrinter &printer, mlir::Operation *op,
                           mlir::IntegerAttr exponent,
                           mlir::IntegerAttr mantissa);

/// `[0:4, 2:8:3]`: start, limit and, unless it is one, stride.
mlir::ParseResult parseSliceRanges(mlir::OpAsmParser &parser,
                                   mlir::DenseI64ArrayAttr &starts,
                                   mlir::DenseI64ArrayAttr &limits,
                                   mlir::DenseI64ArrayAttr &strides);
void printSliceRanges(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                      llvm::ArrayRef<int64_t> starts,
                      llvm::ArrayRef<int64_t> limits,
                      llvm::ArrayRef<int64_t> strides);

/// `%a, %b, ` before an attribute: a comma follows each operand.
mlir::ParseResult parseVariadicOperandWithAttribute(
    mlir::OpAsmParser &parser,
    llvm::SmallVectorImpl<mlir::OpAsmParser::UnresolvedOperand> &operands);
void printVariadicOperandWithAttribute(mlir::OpAsmPrinter &printer,
                                       mlir::Operation *op,
                                       mlir::OperandRange operands);

/// `batching_dims = [0] x [0], contracting_dims = [2] x [1]`.
mlir::ParseResult parseDotDimensionNumbers(mlir::AsmParser &parser,
                                           DotDimensionNumbersAttr &dims);
void printDotDimensionNumbers(mlir::AsmPrinter &printer, mlir::Operation *op,
                              DotDimensionNumbersAttr dims);

/// `, precision = [DEFAULT, HIGH], algorithm = <..>`, both optional.
mlir::ParseResult parsePrecisionAndAlgorithm(mlir::AsmParser &parser,
                                             mlir::ArrayAttr &precision,
                                             DotAlgorithmAttr &algorithm);
void printPrecisionAndAlgorithm(mlir::AsmPrinter &printer, mlir::Operation *op,
                                mlir::ArrayAttr precision,
                                DotAlgorithmAttr algorithm);

/// `, precision = [DEFAULT, HIGH]`, optional.
mlir::ParseResult parsePrecisionConfig(mlir::AsmParser &parser,
                                       mlir::ArrayAttr &precision);
void printPrecisionConfig(mlir::AsmPrinter &printer, mlir::Operation *op,
                          mlir::ArrayAttr precision);

/// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
mlir::ParseResult parseConvolutionDimensions(mlir::AsmParser &parser,
                                             ConvDimensionNumbersAttr &dims);
void printConvolutionDimensions(mlir::AsmPrinter &printer, mlir::Operation *op,
                                ConvDimensionNumbersAttr dims);

/// `stride = [1, 1], pad = [[0, 0], [0, 0]], ..`, each optional.
mlir::ParseResult parseWindowAttributes(mlir::OpAsmParser &parser,
                                        mlir::DenseI64ArrayAttr &strides,
                                        mlir::DenseIntElementsAttr &padding,
                                        mlir::DenseI64ArrayAttr &lhsDilation,
                                        mlir::DenseI64ArrayAttr &rhsDilation,
                                        mlir::DenseBoolArrayAttr &reversal);
void printWindowAttributes(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                           mlir::DenseI64ArrayAttr strides,
                           mlir::DenseIntElementsAttr padding,
                           mlir::DenseI64ArrayAttr lhsDilation,
                           mlir::DenseI64ArrayAttr rhsDilation,
                           mlir::DenseBoolArrayAttr reversal);

/// `@name`, kept as a string: the target is not a symbol of the module.
mlir::ParseResult parseCustomCallTarget(mlir::AsmParser &parser,
                                        mlir::StringAttr &target);
void printCustomCallTarget(mlir::AsmPrinter &printer, mlir::Operation *op,
                           mlir::StringAttr target);

/// One type for all operands and the result, or a function type.
mlir::ParseResult parseVariadicSameOperandsAndResultType(
    mlir::OpAsmParser &parser,
    llvm::ArrayRef<mlir::OpAsmParser::UnresolvedOperand> operands,
    llvm::SmallVectorImpl<mlir::Type> &types, mlir::Type &result);
void printVariadicSameOperandsAndResultType(mlir::OpAsmPrinter &printer,
                                            mlir::Operation *op,
                                            mlir::OperandRange operands,
                                            mlir::TypeRange types,
                                            mlir::Type result);

/// `tuple<T, U>`: the operand types are the tuple's element types.
mlir::ParseResult parseTupleOpType(mlir::OpAsmParser &parser,
                                   llvm::SmallVectorImpl<mlir::Type> &operands,
                                   mlir::Type &result);
void printTupleOpType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                      mlir::TypeRange operands, mlir::Type result);

} // namespace scalify::stablehlo

#endif // SCALIFY_LIB_DIALECT_STABLEHLO_ASSEMBLY_H
