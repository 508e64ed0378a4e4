//===- DotAssembly.cpp - Text of dots' dimensions and precision -----------===//

#include "Assembly.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace scalify::stablehlo {

/// Parses ` = [0] x [1]`.
static ParseResult parseDimPair(AsmParser &parser,
                                FailureOr<SmallVector<int64_t>> &lhs,
                                FailureOr<SmallVector<int64_t>> &rhs) {
  if (parser.parseEqual() || failed(lhs = parseDims(parser)) ||
      parser.parseKeyword("x") || failed(rhs = parseDims(parser)))
    return failure();
  return success();
}

ParseResult parseDotDimensionNumbers(AsmParser &parser,
                                     DotDimensionNumbersAttr &dims) {
  FailureOr<SmallVector<int64_t>> lhsBatch = SmallVector<int64_t>(),
                                  rhsBatch = lhsBatch, lhsContract, rhsContract;
  if (succeeded(parser.parseOptionalKeyword("batching_dims")))
    if (parseDimPair(parser, lhsBatch, rhsBatch) || parser.parseComma())
      return failure();
  if (parser.parseKeyword("contracting_dims") ||
      parseDimPair(parser, lhsContract, rhsContract))
    return failure();
  dims = DotDimensionNumbersAttr::get(parser.getContext(), *lhsBatch, *rhsBatch,
                                      *lhsContract, *rhsContract);
  return success();
}

static void printDimPair(AsmPrinter &printer, StringRef name,
                         ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs) {
  printer << name << " = ";
  printDims(printer, lhs);
  printer << " x ";
  printDims(printer, rhs);
}

void printDotDimensionNumbers(AsmPrinter &printer, Operation *,
                              DotDimensionNumbersAttr dims) {
  ArrayRef<int64_t> lhsBatch = dims.getLhsBatchingDimensions();
  ArrayRef<int64_t> rhsBatch = dims.getRhsBatchingDimensions();
  if (!lhsBatch.empty() || !rhsBatch.empty()) {
    printDimPair(printer, "batching_dims", lhsBatch, rhsBatch);
    printer << ", ";
  }
  printDimPair(printer, "contracting_dims", dims.getLhsContractingDimensions(),
               dims.getRhsContractingDimensions());
}

static ParseResult parsePrecisionList(AsmParser &parser, ArrayAttr &precision) {
  SmallVector<Attribute> values;
  auto parseOne = [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name))
      return failure();
    std::optional<Precision> value = symbolizePrecision(name);
    if (!value)
      return parser.emitError(loc)
             << "expected DEFAULT, HIGH or HIGHEST but got '" << name << "'";
    values.push_back(PrecisionAttr::get(parser.getContext(), *value));
    return success();
  };
  if (parser.parseEqual() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  precision = parser.getBuilder().getArrayAttr(values);
  return success();
}

ParseResult parsePrecisionAndAlgorithm(AsmParser &parser, ArrayAttr &precision,
                                       DotAlgorithmAttr &algorithm) {
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    if (name == "precision" && !precision && !algorithm) {
      if (parsePrecisionList(parser, precision))
        return failure();
    } else if (name == "algorithm" && !algorithm) {
      if (parser.parseEqual())
        return failure();
      algorithm = dyn_cast_or_null<DotAlgorithmAttr>(
          DotAlgorithmAttr::parse(parser, Type()));
      if (!algorithm)
        return failure();
    } else {
      return parser.emitError(loc) << "unexpected '" << name
                                   << "', expected precision, then algorithm";
    }
  }
  return success();
}

ParseResult parsePrecisionConfig(AsmParser &parser, ArrayAttr &precision) {
  if (failed(parser.parseOptionalComma()))
    return success();
  if (parser.parseKeyword("precision"))
    return failure();
  return parsePrecisionList(parser, precision);
}

void printPrecisionConfig(AsmPrinter &printer, Operation *,
                          ArrayAttr precision) {
  if (!precision || precision.empty())
    return;
  printer << ", precision = [";
  llvm::interleaveComma(precision.getAsRange<PrecisionAttr>(), printer,
                        [&](PrecisionAttr attr) {
                          printer << stringifyPrecision(attr.getValue());
                        });
  printer << ']';
}

void printPrecisionAndAlgorithm(AsmPrinter &printer, Operation *op,
                                ArrayAttr precision,
                                DotAlgorithmAttr algorithm) {
  printPrecisionConfig(printer, op, precision);
  if (algorithm) {
    printer << ", algorithm = ";
    algorithm.print(printer);
  }
}

} // namespace scalify::stablehlo
