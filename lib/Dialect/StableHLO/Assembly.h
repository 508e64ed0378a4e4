//===- Assembly.h - Parsers and printers that formats name ------*- C++ -*-===//
//
// The custom<..> directives of the op definitions. Shared with the chlo
// dialect, whose forms follow the same rules.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_DIALECT_STABLEHLO_ASSEMBLY_H
#define SCALIFY_LIB_DIALECT_STABLEHLO_ASSEMBLY_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify::stablehlo {

/// One type when all operands and results have it, else a function type.
mlir::ParseResult parseSameTypes(mlir::OpAsmParser &parser,
                                 llvm::ArrayRef<mlir::Type *> operands,
                                 mlir::Type &result);
void printSameTypes(mlir::OpAsmPrinter &printer,
                    llvm::ArrayRef<mlir::Type> operands, mlir::Type result);

inline mlir::ParseResult parseSameOperandsAndResultType(
    mlir::OpAsmParser &parser, mlir::Type &operand, mlir::Type &result) {
  return parseSameTypes(parser, {&operand}, result);
}
inline mlir::ParseResult
parseSameOperandsAndResultType(mlir::OpAsmParser &parser, mlir::Type &lhs,
                               mlir::Type &rhs, mlir::Type &result) {
  return parseSameTypes(parser, {&lhs, &rhs}, result);
}
inline mlir::ParseResult
parseSameOperandsAndResultType(mlir::OpAsmParser &parser, mlir::Type &a,
                               mlir::Type &b, mlir::Type &c,
                               mlir::Type &result) {
  return parseSameTypes(parser, {&a, &b, &c}, result);
}
inline void printSameOperandsAndResultType(mlir::OpAsmPrinter &printer,
                                           mlir::Operation *,
                                           mlir::Type operand,
                                           mlir::Type result) {
  printSameTypes(printer, {operand}, result);
}
inline void printSameOperandsAndResultType(mlir::OpAsmPrinter &printer,
                                           mlir::Operation *, mlir::Type lhs,
                                           mlir::Type rhs, mlir::Type result) {
  printSameTypes(printer, {lhs, rhs}, result);
}
inline void printSameOperandsAndResultType(mlir::OpAsmPrinter &printer,
                                           mlir::Operation *, mlir::Type a,
                                           mlir::Type b, mlir::Type c,
                                           mlir::Type result) {
  printSameTypes(printer, {a, b, c}, result);
}

/// `tensor<4xcomplex<f32>>`: the operand types are the parts of the result's.
mlir::ParseResult parseComplexOpType(mlir::OpAsmParser &parser,
                                     mlir::Type &lhs, mlir::Type &rhs,
                                     mlir::Type &result);
void printComplexOpType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                        mlir::Type lhs, mlir::Type rhs, mlir::Type result);

/// `tensor<4xi1>, tensor<4xf32>`: the predicate's type, then the values'.
mlir::ParseResult parseSelectOpType(mlir::OpAsmParser &parser,
                                    mlir::Type &pred, mlir::Type &onTrue,
                                    mlir::Type &onFalse, mlir::Type &result);
void printSelectOpType(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                       mlir::Type pred, mlir::Type onTrue, mlir::Type onFalse,
                       mlir::Type result);

/// `T, U`: each operand's type is its result's.
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

/// `%a, %b, ` before an attribute: each operand has a comma after it.
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

} // namespace scalify::stablehlo

#endif // SCALIFY_LIB_DIALECT_STABLEHLO_ASSEMBLY_H
