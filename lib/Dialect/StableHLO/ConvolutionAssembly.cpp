//===- ConvolutionAssembly.cpp - Text of convolutions ---------------------===//
//
// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`: each list names a tensor's
// dimensions by a letter or the number of a spatial dimension.
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace scalify::stablehlo {

namespace {
/// One list of a convolution's dimensions: two with letters, and the spatial
/// ones in order.
struct ConvDims {
  int64_t first = -1;
  int64_t second = -1;
  SmallVector<int64_t> spatial;
};
} // namespace

/// Parses one list, in which `letters` name the two dimensions with letters.
static ParseResult parseConvDims(AsmParser &parser, StringRef letters,
                                 ConvDims &dims) {
  SmallVector<std::pair<int64_t, int64_t>> spatial;
  int64_t position = 0;
  SMLoc loc = parser.getCurrentLocation();
  auto parseOne = [&]() -> ParseResult {
    int64_t here = position++, number;
    OptionalParseResult parsed = parser.parseOptionalInteger(number);
    if (parsed.has_value()) {
      spatial.push_back({number, here});
      return *parsed;
    }
    if (succeeded(parser.parseOptionalQuestion()))
      return success();
    StringRef keyword;
    SMLoc keywordLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return failure();
    if (keyword.size() != 1 || !letters.contains(keyword[0]))
      return parser.emitError(keywordLoc)
             << "expected '" << letters.take_front() << "', '"
             << letters.drop_front() << "' or a number but got '" << keyword
             << "'";
    int64_t &dim = keyword[0] == letters[0] ? dims.first : dims.second;
    if (dim != -1)
      return parser.emitError(keywordLoc)
             << "dimension '" << keyword << "' is given twice";
    dim = here;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  if (dims.first == -1 || dims.second == -1)
    return parser.emitError(loc)
           << "expected dimensions '" << letters.take_front() << "' and '"
           << letters.drop_front() << "'";
  llvm::sort(spatial);
  for (auto [index, pair] : llvm::enumerate(spatial)) {
    if (pair.first != static_cast<int64_t>(index))
      return parser.emitError(loc)
             << "expected spatial dimensions 0 to " << spatial.size() - 1
             << ", each once, but got " << pair.first;
    dims.spatial.push_back(pair.second);
  }
  return success();
}

static void printConvDims(AsmPrinter &printer, StringRef letters, int64_t first,
                          int64_t second, ArrayRef<int64_t> spatial) {
  SmallVector<int64_t> all(spatial);
  all.push_back(first);
  all.push_back(second);
  int64_t rank = *llvm::max_element(all) + 1;
  printer << '[';
  llvm::interleaveComma(llvm::seq<int64_t>(0, rank), printer, [&](int64_t dim) {
    const int64_t *found = llvm::find(spatial, dim);
    if (dim == first)
      printer << letters[0];
    else if (dim == second)
      printer << letters[1];
    else if (found != spatial.end())
      printer << found - spatial.begin();
    else
      printer << '?';
  });
  printer << ']';
}

ConvDimensionNumbersAttr
ConvDimensionNumbersAttr::parseBody(AsmParser &parser) {
  ConvDims input, kernel, output;
  // `x[` lexes as one keyword and a bracket.
  if (parseConvDims(parser, "bf", input) || parser.parseKeyword("x") ||
      parseConvDims(parser, "io", kernel) || parser.parseArrow() ||
      parseConvDims(parser, "bf", output))
    return {};
  return get(parser.getContext(), input.first, input.second, input.spatial,
             kernel.first, kernel.second, kernel.spatial, output.first,
             output.second, output.spatial);
}

void ConvDimensionNumbersAttr::printBody(AsmPrinter &printer) const {
  printConvDims(printer, "bf", getInputBatchDimension(),
                getInputFeatureDimension(), getInputSpatialDimensions());
  printer << 'x';
  printConvDims(printer, "io", getKernelInputFeatureDimension(),
                getKernelOutputFeatureDimension(),
                getKernelSpatialDimensions());
  printer << "->";
  printConvDims(printer, "bf", getOutputBatchDimension(),
                getOutputFeatureDimension(), getOutputSpatialDimensions());
}

Attribute ConvDimensionNumbersAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  ConvDimensionNumbersAttr dims = parseBody(parser);
  if (!dims || parser.parseGreater())
    return {};
  return dims;
}

void ConvDimensionNumbersAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printBody(printer);
  printer << '>';
}

ParseResult parseConvolutionDimensions(AsmParser &parser,
                                       ConvDimensionNumbersAttr &dims) {
  dims = ConvDimensionNumbersAttr::parseBody(parser);
  return success(static_cast<bool>(dims));
}

void printConvolutionDimensions(AsmPrinter &printer, Operation *,
                                ConvDimensionNumbersAttr dims) {
  dims.printBody(printer);
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Parses `[1, 2]` or `[true, false]`.
template <typename ArrayAttrT>
static ParseResult parseArray(AsmParser &parser, ArrayAttrT &attr) {
  attr = dyn_cast_or_null<ArrayAttrT>(ArrayAttrT::parse(parser, Type()));
  return success(static_cast<bool>(attr));
}

static ParseResult parsePadding(AsmParser &parser,
                                DenseIntElementsAttr &padding) {
  SmallVector<int64_t> values;
  auto parsePair = [&]() -> ParseResult {
    int64_t low, high;
    if (parser.parseLSquare() || parser.parseInteger(low) ||
        parser.parseComma() || parser.parseInteger(high) ||
        parser.parseRSquare())
      return failure();
    values.append({low, high});
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parsePair))
    return failure();
  auto type =
      RankedTensorType::get({static_cast<int64_t>(values.size() / 2), 2},
                            parser.getBuilder().getI64Type());
  padding = DenseIntElementsAttr::get(type, values);
  return success();
}

ParseResult parseWindowAttributes(OpAsmParser &parser,
                                  DenseI64ArrayAttr &strides,
                                  DenseIntElementsAttr &padding,
                                  DenseI64ArrayAttr &lhsDilation,
                                  DenseI64ArrayAttr &rhsDilation,
                                  DenseBoolArrayAttr &reversal) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  while (succeeded(parser.parseOptionalKeyword(
      &keyword, {"stride", "pad", "lhs_dilate", "rhs_dilate", "reverse"}))) {
    ParseResult parsed = parser.parseEqual();
    auto parseOnce = [&](auto &attr, auto parse) -> ParseResult {
      if (attr)
        return parser.emitError(loc) << "'" << keyword << "' is given twice";
      return parse(parser, attr);
    };
    if (parsed)
      return failure();
    if (keyword == "stride")
      parsed = parseOnce(strides, parseArray<DenseI64ArrayAttr>);
    else if (keyword == "pad")
      parsed = parseOnce(padding, parsePadding);
    else if (keyword == "lhs_dilate")
      parsed = parseOnce(lhsDilation, parseArray<DenseI64ArrayAttr>);
    else if (keyword == "rhs_dilate")
      parsed = parseOnce(rhsDilation, parseArray<DenseI64ArrayAttr>);
    else
      parsed = parseOnce(reversal, parseArray<DenseBoolArrayAttr>);
    if (parsed || failed(parser.parseOptionalComma()))
      return parsed;
    loc = parser.getCurrentLocation();
  }
  return success();
}

void printWindowAttributes(OpAsmPrinter &printer, Operation *,
                           DenseI64ArrayAttr strides,
                           DenseIntElementsAttr padding,
                           DenseI64ArrayAttr lhsDilation,
                           DenseI64ArrayAttr rhsDilation,
                           DenseBoolArrayAttr reversal) {
  llvm::ListSeparator comma;
  auto begin = [&](StringRef name) {
    printer << StringRef(comma) << name << " = ";
  };
  auto printArray = [&](StringRef name, auto attr) {
    if (!attr)
      return;
    begin(name);
    attr.print(printer);
  };
  printArray("stride", strides);
  if (padding) {
    begin("pad");
    auto values = llvm::to_vector(padding.getValues<int64_t>());
    printer << '[';
    llvm::interleaveComma(
        llvm::seq<size_t>(0, values.size() / 2), printer, [&](size_t i) {
          printDims(printer, ArrayRef(values).slice(2 * i, 2));
        });
    printer << ']';
  }
  printArray("lhs_dilate", lhsDilation);
  printArray("rhs_dilate", rhsDilation);
  printArray("reverse", reversal);
}

} // namespace scalify::stablehlo
