//===- BooleanBlobs.cpp - Boolean constants across MLIR versions ----------===//

#include "scalify/Dialect/StableHLO/BooleanBlobs.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

/// Returns the number of elements of `tensor<AxBxi1>` at the start of `text`,
/// unless 63 bits cannot hold it.
static std::optional<int64_t> countBooleans(StringRef text) {
  if (!text.consume_front("tensor<"))
    return std::nullopt;
  int64_t count = 1, dim;
  while (!text.consumeInteger(10, dim)) {
    if (llvm::MulOverflow(count, dim, count))
      return std::nullopt;
    if (!text.consume_front("x"))
      return std::nullopt;
  }
  return text.starts_with("i1>") ? std::optional<int64_t>(count) : std::nullopt;
}

/// Packs one byte per element to one bit per element, least significant first.
static std::string packBits(StringRef digits) {
  std::string bytes(llvm::divideCeil(digits.size() / 2, 8), '\0');
  for (size_t i = 0, e = digits.size() / 2; i < e; ++i)
    if (digits.substr(2 * i, 2) != "00")
      bytes[i / 8] |= static_cast<char>(1 << (i % 8));
  return llvm::toHex(bytes);
}

std::optional<std::string>
scalify::stablehlo::packBooleanBlobs(StringRef text) {
  constexpr llvm::StringLiteral opening = "dense<\"0x", closing = "\"> : ";
  std::string result;
  StringRef rest = text;
  for (size_t at; (at = rest.find(opening)) != StringRef::npos;) {
    size_t begin = at + opening.size();
    size_t end = rest.find('"', begin);
    if (end == StringRef::npos)
      break;
    StringRef digits = rest.slice(begin, end);
    StringRef type = rest.substr(end);
    std::optional<int64_t> count;
    if (type.consume_front(closing))
      count = countBooleans(type);
    // One element is a byte in both forms.
    bool isUnpacked = count && *count > 1 && digits.size() % 2 == 0 &&
                      static_cast<int64_t>(digits.size() / 2) == *count &&
                      llvm::all_of(digits, llvm::isHexDigit);
    result += rest.take_front(begin);
    result += isUnpacked ? packBits(digits) : digits.str();
    rest = rest.substr(end);
  }
  if (result.empty())
    return std::nullopt;
  return result + rest.str();
}

template <typename Iterator>
static void printNested(raw_ostream &os, ArrayRef<int64_t> shape,
                        Iterator &next) {
  if (shape.empty()) {
    os << (*next++ ? "true" : "false");
    return;
  }
  os << '[';
  for (int64_t i = 0; i < shape.front(); ++i) {
    if (i)
      os << ", ";
    printNested(os, shape.drop_front(), next);
  }
  os << ']';
}

void scalify::stablehlo::printBooleanElements(raw_ostream &os,
                                              DenseElementsAttr elements) {
  ArrayRef<int64_t> shape = elements.getType().getShape();
  int64_t count = 1;
  // Import refuses such a type; until then it is no text of its elements.
  if (llvm::any_of(shape, [&](int64_t dim) {
        return llvm::MulOverflow(count, dim, count);
      })) {
    os << elements;
    return;
  }
  auto values = elements.getValues<bool>();
  auto next = values.begin();
  os << "dense<";
  printNested(os, shape, next);
  os << "> : " << elements.getType();
}
