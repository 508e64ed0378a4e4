//===- Attrs.cpp - Attributes and types of the stablehlo dialect ----------===//

#include "Assembly.h"

#include "scalify/Dialect/StableHLO/Attrs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
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
    SMLoc location = parser.getCurrentLocation();
    if (parser.parseInteger(bounds.back()))
      return failure();
    if (bounds.back() < 0)
      return parser.emitError(location)
             << "needs bounds of at least 0 but got " << bounds.back();
    return success();
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

namespace {
/// Bounds are of dynamic dimensions.
struct VerifiableBounds
    : VerifiableTensorEncoding::ExternalModel<VerifiableBounds,
                                              TypeExtensionsAttr> {
  LogicalResult
  verifyEncoding(Attribute attr, ArrayRef<int64_t> shape, Type,
                 function_ref<InFlightDiagnostic()> emitError) const {
    ArrayRef<int64_t> bounds = cast<TypeExtensionsAttr>(attr).getBounds();
    if (bounds.size() != shape.size())
      return emitError() << "needs bounds of " << shape.size()
                         << " dimensions but got " << bounds.size();
    for (auto [dim, size, bound] : llvm::enumerate(shape, bounds))
      if (ShapedType::isStatic(size) && ShapedType::isStatic(bound))
        return emitError() << "has the bound " << bound << " of dimension "
                           << dim << ", whose size is " << size
                           << "; write '?'";
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

void StableHLODialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "scalify/Dialect/StableHLO/Attrs.cpp.inc"
      >();
  TypeExtensionsAttr::attachInterface<VerifiableBounds>(*getContext());
}

void StableHLODialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "scalify/Dialect/StableHLO/Types.cpp.inc"
      >();
}
