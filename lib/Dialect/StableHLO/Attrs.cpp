//===- Attrs.cpp - Attributes and types of the stablehlo dialect ----------===//

#include "Assembly.h"

#include "scalify/Dialect/StableHLO/Attrs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify::stablehlo;

#include "scalify/Dialect/StableHLO/Enums.cpp.inc"

/// Parses a tolerance of f64.
static FailureOr<llvm::APFloat> parseTolerance(AsmParser &parser) {
  double tolerance;
  if (parser.parseFloat(tolerance))
    return failure();
  return llvm::APFloat(tolerance);
}

#define GET_TYPEDEF_CLASSES
#include "scalify/Dialect/StableHLO/Types.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/StableHLO/Attrs.cpp.inc"

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

Attribute TypeExtensionsAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> bounds;
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
