//===- Attrs.cpp - Attributes and types of the stablehlo dialect ----------===//
//
// Most attributes print as a list of `name = value` fields without empty lists
// and zeros; fields are parsed in any order.
//
//===----------------------------------------------------------------------===//

#include "AttrFields.h"

#include "scalify/Dialect/StableHLO/Attrs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify::stablehlo;

#include "scalify/Dialect/StableHLO/Enums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "scalify/Dialect/StableHLO/Types.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/StableHLO/Attrs.cpp.inc"

using Dims = SmallVector<int64_t>;

//===----------------------------------------------------------------------===//
// DotDimensionNumbers
//===----------------------------------------------------------------------===//

Attribute DotDimensionNumbersAttr::parse(AsmParser &parser, Type) {
  Dims lhsBatch, rhsBatch, lhsContract, rhsContract;
  if (parseFields(parser, {{"lhs_batching_dimensions",
                            [&] { return parseDims(parser, lhsBatch); }},
                           {"rhs_batching_dimensions",
                            [&] { return parseDims(parser, rhsBatch); }},
                           {"lhs_contracting_dimensions",
                            [&] { return parseDims(parser, lhsContract); }},
                           {"rhs_contracting_dimensions",
                            [&] { return parseDims(parser, rhsContract); }}}))
    return {};
  return get(parser.getContext(), lhsBatch, rhsBatch, lhsContract, rhsContract);
}

void DotDimensionNumbersAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  fields.dims("lhs_batching_dimensions", getLhsBatchingDimensions());
  fields.dims("rhs_batching_dimensions", getRhsBatchingDimensions());
  fields.dims("lhs_contracting_dimensions", getLhsContractingDimensions());
  fields.dims("rhs_contracting_dimensions", getRhsContractingDimensions());
}

//===----------------------------------------------------------------------===//
// DotAlgorithm
//===----------------------------------------------------------------------===//

static ParseResult parseBool(AsmParser &parser, bool &value) {
  if (succeeded(parser.parseOptionalKeyword("true")))
    value = true;
  else if (succeeded(parser.parseOptionalKeyword("false")))
    value = false;
  else
    return parser.emitError(parser.getCurrentLocation(),
                            "expected 'true' or 'false'");
  return success();
}

Attribute DotAlgorithmAttr::parse(AsmParser &parser, Type) {
  Type lhs, rhs, accumulation;
  int64_t lhsCount = -1, rhsCount = -1, operations = -1;
  bool imprecise = false;
  SMLoc loc = parser.getCurrentLocation();
  if (parseFields(
          parser,
          {{"lhs_precision_type", [&] { return parser.parseType(lhs); }},
           {"rhs_precision_type", [&] { return parser.parseType(rhs); }},
           {"accumulation_type",
            [&] { return parser.parseType(accumulation); }},
           {"lhs_component_count",
            [&] { return parser.parseInteger(lhsCount); }},
           {"rhs_component_count",
            [&] { return parser.parseInteger(rhsCount); }},
           {"num_primitive_operations",
            [&] { return parser.parseInteger(operations); }},
           {"allow_imprecise_accumulation",
            [&] { return parseBool(parser, imprecise); }}}))
    return {};
  if (!lhs || !rhs || !accumulation || lhsCount < 0 || rhsCount < 0 ||
      operations < 0) {
    parser.emitError(loc, "a dot algorithm needs all of its fields");
    return {};
  }
  return get(parser.getContext(), lhs, rhs, accumulation, lhsCount, rhsCount,
             operations, imprecise);
}

void DotAlgorithmAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  fields.begin("lhs_precision_type") << getLhsPrecisionType();
  fields.begin("rhs_precision_type") << getRhsPrecisionType();
  fields.begin("accumulation_type") << getAccumulationType();
  fields.begin("lhs_component_count") << getLhsComponentCount();
  fields.begin("rhs_component_count") << getRhsComponentCount();
  fields.begin("num_primitive_operations") << getNumPrimitiveOperations();
  fields.begin("allow_imprecise_accumulation")
      << (getAllowImpreciseAccumulation() ? "true" : "false");
}

//===----------------------------------------------------------------------===//
// GatherDimensionNumbers and ScatterDimensionNumbers
//===----------------------------------------------------------------------===//

Attribute GatherDimensionNumbersAttr::parse(AsmParser &parser, Type) {
  Dims offset, collapsed, operandBatch, indicesBatch, startIndexMap;
  int64_t indexVectorDim = 0;
  if (parseFields(parser,
                  {{"offset_dims", [&] { return parseDims(parser, offset); }},
                   {"collapsed_slice_dims",
                    [&] { return parseDims(parser, collapsed); }},
                   {"operand_batching_dims",
                    [&] { return parseDims(parser, operandBatch); }},
                   {"start_indices_batching_dims",
                    [&] { return parseDims(parser, indicesBatch); }},
                   {"start_index_map",
                    [&] { return parseDims(parser, startIndexMap); }},
                   {"index_vector_dim",
                    [&] { return parser.parseInteger(indexVectorDim); }}}))
    return {};
  return get(parser.getContext(), offset, collapsed, operandBatch, indicesBatch,
             startIndexMap, indexVectorDim);
}

void GatherDimensionNumbersAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  fields.dims("offset_dims", getOffsetDims());
  fields.dims("collapsed_slice_dims", getCollapsedSliceDims());
  fields.dims("operand_batching_dims", getOperandBatchingDims());
  fields.dims("start_indices_batching_dims", getStartIndicesBatchingDims());
  fields.dims("start_index_map", getStartIndexMap());
  fields.nonZero("index_vector_dim", getIndexVectorDim());
}

Attribute ScatterDimensionNumbersAttr::parse(AsmParser &parser, Type) {
  Dims window, inserted, inputBatch, indicesBatch, toOperand;
  int64_t indexVectorDim = 0;
  if (parseFields(parser, {{"update_window_dims",
                            [&] { return parseDims(parser, window); }},
                           {"inserted_window_dims",
                            [&] { return parseDims(parser, inserted); }},
                           {"input_batching_dims",
                            [&] { return parseDims(parser, inputBatch); }},
                           {"scatter_indices_batching_dims",
                            [&] { return parseDims(parser, indicesBatch); }},
                           {"scatter_dims_to_operand_dims",
                            [&] { return parseDims(parser, toOperand); }},
                           {"index_vector_dim", [&] {
                              return parser.parseInteger(indexVectorDim);
                            }}}))
    return {};
  return get(parser.getContext(), window, inserted, inputBatch, indicesBatch,
             toOperand, indexVectorDim);
}

void ScatterDimensionNumbersAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  fields.dims("update_window_dims", getUpdateWindowDims());
  fields.dims("inserted_window_dims", getInsertedWindowDims());
  fields.dims("input_batching_dims", getInputBatchingDims());
  fields.dims("scatter_indices_batching_dims", getScatterIndicesBatchingDims());
  fields.dims("scatter_dims_to_operand_dims", getScatterDimsToOperandDims());
  fields.nonZero("index_vector_dim", getIndexVectorDim());
}

//===----------------------------------------------------------------------===//
// ResultAccuracy
//===----------------------------------------------------------------------===//

ResultAccuracyAttr ResultAccuracyAttr::getDefault(MLIRContext *context) {
  return get(context, llvm::APFloat(0.0), llvm::APFloat(0.0), 0,
             ResultAccuracyModeAttr::get(context, ResultAccuracyMode::DEFAULT));
}

// NOLINTBEGIN(performance-unnecessary-value-param): as the td declares it.
LogicalResult
ResultAccuracyAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                           llvm::APFloat atol, llvm::APFloat rtol, int64_t ulps,
                           ResultAccuracyModeAttr mode) {
  // NOLINTEND(performance-unnecessary-value-param)
  if (atol.isNegative() || rtol.isNegative() || ulps < 0)
    return emitError() << "result accuracy tolerances must not be negative";
  bool hasTolerance = !atol.isZero() || !rtol.isZero() || ulps != 0;
  if (hasTolerance != (mode.getValue() == ResultAccuracyMode::TOLERANCE))
    return emitError() << "result accuracy needs a tolerance exactly when its "
                          "mode is TOLERANCE";
  return success();
}

Attribute ResultAccuracyAttr::parse(AsmParser &parser, Type) {
  double atol = 0.0, rtol = 0.0;
  int64_t ulps = 0;
  ResultAccuracyModeAttr mode;
  SMLoc loc = parser.getCurrentLocation();
  if (parseFields(parser,
                  {{"atol", [&] { return parser.parseFloat(atol); }},
                   {"rtol", [&] { return parser.parseFloat(rtol); }},
                   {"ulps", [&] { return parser.parseInteger(ulps); }},
                   {"mode", [&] { return parser.parseAttribute(mode); }}}))
    return {};
  if (!mode) {
    parser.emitError(loc, "a result accuracy needs a mode");
    return {};
  }
  return parser.getChecked<ResultAccuracyAttr>(loc, parser.getContext(),
                                               llvm::APFloat(atol),
                                               llvm::APFloat(rtol), ulps, mode);
}

void ResultAccuracyAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  for (const auto &[name, value] :
       {std::pair<StringRef, llvm::APFloat>{"atol", getAtol()},
        {"rtol", getRtol()}}) {
    if (value.isZero())
      continue;
    fields.begin(name);
    printer.printFloat(value);
  }
  fields.nonZero("ulps", getUlps());
  fields.begin("mode");
  printer.printAttribute(getMode());
}

//===----------------------------------------------------------------------===//
// OutputOperandAlias and bounds
//===----------------------------------------------------------------------===//

Attribute OutputOperandAliasAttr::parse(AsmParser &parser, Type) {
  Dims output, operand;
  int64_t index = 0;
  if (parseFields(
          parser,
          {{"output_tuple_indices", [&] { return parseDims(parser, output); }},
           {"operand_index", [&] { return parser.parseInteger(index); }},
           {"operand_tuple_indices",
            [&] { return parseDims(parser, operand); }}}))
    return {};
  return get(parser.getContext(), output, index, operand);
}

void OutputOperandAliasAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  auto printAll = [&](StringRef name, ArrayRef<int64_t> values) {
    raw_ostream &os = fields.begin(name);
    os << '[';
    llvm::interleaveComma(values, os);
    os << ']';
  };
  printAll("output_tuple_indices", getOutputTupleIndices());
  fields.begin("operand_index") << getOperandIndex();
  printAll("operand_tuple_indices", getOperandTupleIndices());
}

Attribute TypeExtensionsAttr::parse(AsmParser &parser, Type) {
  Dims bounds;
  auto parseOne = [&]() -> ParseResult {
    bounds.push_back(ShapedType::kDynamic);
    if (succeeded(parser.parseOptionalQuestion()))
      return success();
    return parser.parseInteger(bounds.back());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseOne))
    return {};
  return get(parser.getContext(), bounds);
}

void TypeExtensionsAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(getBounds(), printer, [&](int64_t bound) {
    if (ShapedType::isDynamic(bound))
      printer << '?';
    else
      printer << bound;
  });
  printer << '>';
}

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

void StableHLODialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "scalify/Dialect/StableHLO/Attrs.cpp.inc"
      >();
}

void StableHLODialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "scalify/Dialect/StableHLO/Types.cpp.inc"
      >();
}
