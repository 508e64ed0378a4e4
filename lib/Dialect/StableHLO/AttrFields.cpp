//===- AttrFields.cpp - Attributes as lists of named fields ---------------===//

#include "AttrFields.h"

using namespace mlir;
using namespace scalify::stablehlo;

ParseResult scalify::stablehlo::parseFields(AsmParser &parser,
                                            ArrayRef<Field> fields) {
  if (parser.parseLess())
    return failure();
  if (succeeded(parser.parseOptionalGreater()))
    return success();
  SmallVector<bool> seen(fields.size(), false);
  auto parseOne = [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    for (auto [index, field] : llvm::enumerate(fields)) {
      if (field.name != name)
        continue;
      if (seen[index])
        return parser.emitError(loc, "field '") << name << "' is given twice";
      seen[index] = true;
      return field.parse();
    }
    auto diag = parser.emitError(loc, "unknown field '") << name << "'";
    diag << ", expected one of ";
    llvm::interleaveComma(fields, diag,
                          [&](const Field &f) { diag << f.name; });
    return failure();
  };
  if (parser.parseCommaSeparatedList(parseOne))
    return failure();
  return parser.parseGreater();
}

ParseResult scalify::stablehlo::parseDims(AsmParser &parser,
                                          SmallVectorImpl<int64_t> &dims) {
  dims.clear();
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(dims.emplace_back());
  });
}

void FieldPrinter::dims(StringRef name, ArrayRef<int64_t> values) {
  if (values.empty())
    return;
  begin(name) << '[';
  llvm::interleaveComma(values, os);
  os << ']';
}

void FieldPrinter::nonZero(StringRef name, int64_t value) {
  if (value != 0)
    begin(name) << value;
}

raw_ostream &FieldPrinter::begin(StringRef name) {
  os << (first ? "" : ", ") << name << " = ";
  first = false;
  return os;
}
