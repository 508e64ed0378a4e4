//===- CHLOAttrs.cpp - Attributes of the chlo dialect ---------------------===//

#include "../StableHLO/AttrFields.h"

#include "scalify/Dialect/CHLO/CHLO.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify::chlo;
using scalify::stablehlo::FieldPrinter;
using scalify::stablehlo::parseDims;
using scalify::stablehlo::parseFields;

#include "scalify/Dialect/CHLO/CHLOEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/CHLO/CHLOAttrs.cpp.inc"

void CHLODialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "scalify/Dialect/CHLO/CHLOAttrs.cpp.inc"
      >();
}

Attribute RaggedDotDimensionNumbersAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> lhsBatch, rhsBatch, lhsContract, rhsContract, ragged,
      group;
  if (parseFields(
          parser,
          {{"lhs_batching_dimensions",
            [&] { return parseDims(parser, lhsBatch); }},
           {"rhs_batching_dimensions",
            [&] { return parseDims(parser, rhsBatch); }},
           {"lhs_contracting_dimensions",
            [&] { return parseDims(parser, lhsContract); }},
           {"rhs_contracting_dimensions",
            [&] { return parseDims(parser, rhsContract); }},
           {"lhs_ragged_dimensions", [&] { return parseDims(parser, ragged); }},
           {"rhs_group_dimensions", [&] { return parseDims(parser, group); }}}))
    return {};
  return get(parser.getContext(), lhsBatch, rhsBatch, lhsContract, rhsContract,
             ragged, group);
}

void RaggedDotDimensionNumbersAttr::print(AsmPrinter &printer) const {
  FieldPrinter fields(printer);
  fields.dims("lhs_batching_dimensions", getLhsBatchingDimensions());
  fields.dims("rhs_batching_dimensions", getRhsBatchingDimensions());
  fields.dims("lhs_contracting_dimensions", getLhsContractingDimensions());
  fields.dims("rhs_contracting_dimensions", getRhsContractingDimensions());
  fields.dims("lhs_ragged_dimensions", getLhsRaggedDimensions());
  fields.dims("rhs_group_dimensions", getRhsGroupDimensions());
}
