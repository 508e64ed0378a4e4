//===- OpShardingRule.cpp - Text of sharding rules ------------------------===//
//
// `([i, j], [j, k])->([i, k]) {i=4, j=8, k=2} reduction={j}`: letters number
// the factors, i to z and then z_1, z_2 and so on. A dimension of several
// factors concatenates their letters.
//
//===----------------------------------------------------------------------===//

#include "Lists.h"

#include "scalify/Dialect/Sdy/Sdy.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace scalify::sdy;

static constexpr int64_t letterCount = 'z' - 'i' + 1;

static void printFactor(raw_ostream &os, int64_t factor) {
  if (factor < letterCount)
    os << static_cast<char>('i' + factor);
  else
    os << "z_" << factor - letterCount + 1;
}

/// Takes one factor's symbol off the front of `text`.
static FailureOr<int64_t> takeFactor(StringRef &text) {
  char letter = text.empty() ? '\0' : text.front();
  if (letter < 'i' || letter > 'z')
    return failure();
  text = text.drop_front();
  if (letter != 'z' || !text.consume_front("_"))
    return letter - 'i';
  int64_t number = 0;
  if (text.consumeInteger(10, number) || number <= 0)
    return failure();
  return letterCount + number - 1;
}

/// Reads the factors of a dimension from one keyword.
static ParseResult parseFactors(AsmParser &parser,
                                SmallVectorImpl<int64_t> &factors) {
  StringRef text, rest;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&text))
    return failure();
  rest = text;
  while (!rest.empty()) {
    FailureOr<int64_t> factor = takeFactor(rest);
    if (failed(factor))
      return parser.emitError(loc)
             << "expected factors such as 'ij' or 'z_1' but got '" << text
             << "'";
    factors.push_back(*factor);
  }
  return success();
}

Attribute DimMappingAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> factors;
  if (parseFactors(parser, factors))
    return {};
  return get(parser.getContext(), factors);
}

void DimMappingAttr::print(AsmPrinter &printer) const {
  for (int64_t factor : getFactors())
    printFactor(printer.getStream(), factor);
}

/// Reads `{i=4, j=8}`: every factor in order.
static ParseResult parseFactorSizes(AsmParser &parser,
                                    SmallVectorImpl<int64_t> &sizes) {
  auto parseOne = [&]() -> ParseResult {
    SmallVector<int64_t> factor;
    SMLoc loc = parser.getCurrentLocation();
    if (parseFactors(parser, factor) || parser.parseEqual() ||
        parser.parseInteger(sizes.emplace_back()))
      return failure();
    if (factor.size() != 1 ||
        factor.front() != static_cast<int64_t>(sizes.size()) - 1)
      return parser.emitError(loc, "expected the sizes of factors in order");
    return success();
  };
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseOne);
}

/// Reads `={i, j}`.
static ParseResult parseFactorSet(AsmParser &parser,
                                  SmallVectorImpl<int64_t> &factors) {
  if (parser.parseEqual())
    return failure();
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, [&] {
    return parseFactors(parser, factors);
  });
}

Attribute OpShardingRuleAttr::parse(AsmParser &parser, Type) {
  auto parseMappings = [&] {
    return parseList<TensorMappingAttr>(parser, AsmParser::Delimiter::Paren);
  };
  FailureOr<SmallVector<TensorMappingAttr>> operands, results;
  SmallVector<int64_t> sizes, reduction, replication, permutation, blocked;
  if (parser.parseLess() || failed(operands = parseMappings()) ||
      parser.parseArrow() || failed(results = parseMappings()) ||
      parseFactorSizes(parser, sizes))
    return {};
  bool isCustom = false;
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  while (succeeded(parser.parseOptionalKeyword(&keyword))) {
    SmallVectorImpl<int64_t> *set =
        keyword == "reduction"             ? &reduction
        : keyword == "need_replication"    ? &replication
        : keyword == "permutation"         ? &permutation
        : keyword == "blocked_propagation" ? &blocked
                                           : nullptr;
    if (!set) {
      parser.emitError(loc)
          << "unexpected '" << keyword << "' in a sharding rule";
      return {};
    }
    if (parseFactorSet(parser, *set))
      return {};
    loc = parser.getCurrentLocation();
  }
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("custom"))
      return {};
    isCustom = true;
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), sizes, *operands, *results, reduction,
             replication, permutation, blocked, isCustom);
}

void OpShardingRuleAttr::print(AsmPrinter &printer) const {
  raw_ostream &os = printer.getStream();
  auto printSet = [&](StringRef name, ArrayRef<int64_t> factors) {
    if (factors.empty())
      return;
    os << ' ' << name << "={";
    llvm::interleaveComma(factors, os,
                          [&](int64_t factor) { printFactor(os, factor); });
    os << '}';
  };
  os << '<';
  printList(printer, getOperandMappings(), "()");
  os << "->";
  printList(printer, getResultMappings(), "()");
  os << " {";
  llvm::interleaveComma(llvm::enumerate(getFactorSizes()), os, [&](auto entry) {
    printFactor(os, entry.index());
    os << '=' << entry.value();
  });
  os << '}';
  printSet("reduction", getReductionFactors());
  printSet("need_replication", getNeedReplicationFactors());
  printSet("permutation", getPermutationFactors());
  printSet("blocked_propagation", getBlockedPropagationFactors());
  if (getIsCustomRule())
    os << ", custom";
  os << '>';
}
