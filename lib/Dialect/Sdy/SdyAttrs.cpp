//===- SdyAttrs.cpp - Text and checks of meshes and shardings -------------===//
//
// Attributes nest without their dialect's prefix: a sharding in a list is
// `<@mesh, [{"x"}, {}]>`, an axis is `"x"` or, for a sub-axis, `"x":(2)4`.
//
//===----------------------------------------------------------------------===//

#include "Lists.h"

#include "scalify/Dialect/Sdy/Sdy.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify::sdy;

#define GET_ATTRDEF_CLASSES
#include "scalify/Dialect/Sdy/SdyAttrs.cpp.inc"

void SdyDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "scalify/Dialect/Sdy/SdyAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Meshes
//===----------------------------------------------------------------------===//

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<MeshAxisAttr> axes,
                               ArrayRef<int64_t> deviceIds) {
  llvm::StringSet<> names;
  int64_t size = 1;
  for (MeshAxisAttr axis : axes) {
    if (axis.getSize() <= 0)
      return emitError() << "mesh axis '" << axis.getName()
                         << "' needs a positive size but got "
                         << axis.getSize();
    if (!names.insert(axis.getName()).second)
      return emitError() << "mesh axis '" << axis.getName()
                         << "' is named twice";
    if (llvm::MulOverflow(size, axis.getSize(), size))
      return emitError() << "mesh has more devices than fit in 64 bits";
  }
  // A mesh without axes may name its one device.
  if (!deviceIds.empty() && size != static_cast<int64_t>(deviceIds.size()))
    return emitError() << "mesh of " << size << " devices has "
                       << deviceIds.size() << " device ids";
  return success();
}

std::optional<int64_t> MeshAttr::getAxisSize(StringRef name) const {
  for (MeshAxisAttr axis : getAxes())
    if (axis.getName() == name)
      return axis.getSize();
  return std::nullopt;
}

int64_t MeshAttr::getTotalSize() const {
  int64_t size = 1;
  for (MeshAxisAttr axis : getAxes())
    size *= axis.getSize();
  return size;
}

LogicalResult
MeshAttr::verifyAxes(ArrayRef<AxisRefAttr> axes,
                     function_ref<InFlightDiagnostic()> emitError) const {
  for (AxisRefAttr axis : axes) {
    std::optional<int64_t> size = getAxisSize(axis.getName());
    if (!size)
      return emitError() << "names the unknown axis '" << axis.getName()
                         << "' of mesh " << *this;
    if (axis.isSubAxis() &&
        (axis.getPreSize() < 1 || axis.getSubSize() < 1 ||
         *size % axis.getPreSize() != 0 ||
         *size / axis.getPreSize() % axis.getSubSize() != 0))
      return emitError() << "names a part of axis '" << axis.getName()
                         << "' that does not divide it";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Axes and dimensions
//===----------------------------------------------------------------------===//

Attribute AxisRefAttr::parse(AsmParser &parser, Type) {
  std::string name;
  int64_t preSize = 0, subSize = 0;
  if (parser.parseString(&name))
    return {};
  if (succeeded(parser.parseOptionalColon()))
    if (parser.parseLParen() || parser.parseInteger(preSize) ||
        parser.parseRParen() || parser.parseInteger(subSize))
      return {};
  return get(parser.getContext(), name, preSize, subSize);
}

void AxisRefAttr::print(AsmPrinter &printer) const {
  printer.printString(getName());
  if (isSubAxis())
    printer << ":(" << getPreSize() << ')' << getSubSize();
}

Attribute DimensionShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<AxisRefAttr> axes;
  bool isClosed = true;
  auto parseOne = [&]() -> ParseResult {
    if (!isClosed)
      return parser.emitError(parser.getCurrentLocation(),
                              "expected nothing after '?'");
    if (succeeded(parser.parseOptionalQuestion())) {
      isClosed = false;
      return success();
    }
    return parser.parseCustomAttributeWithFallback(axes.emplace_back());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseOne))
    return {};
  int64_t priority = -1;
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&keyword)))
    if (!keyword.consume_front("p") || keyword.getAsInteger(10, priority) ||
        priority < 0) {
      parser.emitError(loc, "expected a priority such as 'p1'");
      return {};
    }
  return get(parser.getContext(), axes, isClosed, priority);
}

void DimensionShardingAttr::print(AsmPrinter &printer) const {
  printer << '{';
  printer.printStrippedAttrOrType(getAxes());
  if (!getIsClosed())
    printer << (getAxes().empty() ? "?" : ", ?");
  printer << '}';
  if (getPriority() >= 0)
    printer << 'p' << getPriority();
}

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

Attribute TensorShardingAttr::parse(AsmParser &parser, Type) {
  Attribute mesh;
  FailureOr<SmallVector<DimensionShardingAttr>> dims;
  SmallVector<AxisRefAttr> replicated, unreduced;
  if (parser.parseLess())
    return {};
  if (succeeded(parser.parseOptionalKeyword("mesh"))) {
    mesh = MeshAttr::parse(parser, Type());
    if (!mesh)
      return {};
  } else {
    StringAttr name;
    if (parser.parseSymbolName(name))
      return {};
    mesh = FlatSymbolRefAttr::get(name);
  }
  if (parser.parseComma() || failed(dims = parseList<DimensionShardingAttr>(
                                        parser, AsmParser::Delimiter::Square)))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return {};
    SmallVectorImpl<AxisRefAttr> *axes = nullptr;
    if (keyword == "replicated")
      axes = &replicated;
    else if (keyword == "unreduced")
      axes = &unreduced;
    if (!axes || !axes->empty()) {
      parser.emitError(loc) << "unexpected '" << keyword
                            << "', expected replicated or unreduced, once";
      return {};
    }
    if (parser.parseEqual())
      return {};
    FailureOr<SmallVector<AxisRefAttr>> given =
        parseList<AxisRefAttr>(parser, AsmParser::Delimiter::Braces);
    if (failed(given))
      return {};
    *axes = std::move(*given);
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), mesh, *dims, replicated, unreduced);
}

void TensorShardingAttr::print(AsmPrinter &printer) const {
  printer << '<';
  if (auto mesh = dyn_cast<MeshAttr>(getMeshOrRef())) {
    printer << "mesh";
    mesh.print(printer);
  } else {
    printer.printAttributeWithoutType(getMeshOrRef());
  }
  printer << ", ";
  printList(printer, getDimShardings(), "[]");
  for (auto [name, axes] : {std::pair<StringRef, ArrayRef<AxisRefAttr>>{
                                "replicated", getReplicatedAxes()},
                            {"unreduced", getUnreducedAxes()}}) {
    if (axes.empty())
      continue;
    printer << ", " << name << '=';
    printList(printer, axes, "{}");
  }
  printer << '>';
}

MeshAttr TensorShardingAttr::getMesh(Operation *op) const {
  if (auto mesh = dyn_cast<MeshAttr>(getMeshOrRef()))
    return mesh;
  auto found = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
      op, cast<FlatSymbolRefAttr>(getMeshOrRef()));
  return found ? found.getMesh() : MeshAttr();
}

TensorShardingAttr TensorShardingAttr::keepAxes(
    function_ref<ArrayRef<AxisRefAttr>(int64_t, ArrayRef<AxisRefAttr>)> keep)
    const {
  SmallVector<DimensionShardingAttr> dims;
  for (auto [index, dim] : llvm::enumerate(getDimShardings()))
    dims.push_back(
        DimensionShardingAttr::get(getContext(), keep(index, dim.getAxes()),
                                   dim.getIsClosed(), dim.getPriority()));
  return get(getContext(), getMeshOrRef(), dims, getReplicatedAxes(),
             getUnreducedAxes());
}

LogicalResult TensorShardingAttr::verifyFor(
    Operation *op, Type type,
    function_ref<InFlightDiagnostic()> emitError) const {
  MeshAttr mesh = getMesh(op);
  if (!mesh)
    return emitError() << "names the unknown mesh " << getMeshOrRef();
  auto tensor = dyn_cast<RankedTensorType>(type);
  int64_t rank = tensor ? tensor.getRank() : 0;
  if (static_cast<int64_t>(getDimShardings().size()) != rank)
    return emitError() << "has a sharding of rank " << getDimShardings().size()
                       << " for a value of type " << type;
  llvm::StringSet<> whole;
  auto check = [&](ArrayRef<AxisRefAttr> axes) -> LogicalResult {
    if (failed(mesh.verifyAxes(axes, emitError)))
      return failure();
    for (AxisRefAttr axis : axes) {
      if (!axis.isSubAxis() && !whole.insert(axis.getName()).second)
        return emitError() << "names axis '" << axis.getName() << "' twice";
    }
    return success();
  };
  for (DimensionShardingAttr dim : getDimShardings())
    if (failed(check(dim.getAxes())))
      return failure();
  if (failed(check(getReplicatedAxes())))
    return failure();
  return check(getUnreducedAxes());
}
