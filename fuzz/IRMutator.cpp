#include "IRMutator.h"

#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/BooleanBlobs.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Pipeline/Nesting.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"

#include <random>

using namespace mlir;
using namespace scalify;

namespace {
constexpr int64_t numbers[] = {0,  1,     -1,        2,         3,        7,
                               64, 65536, INT32_MAX, INT64_MAX, INT64_MIN};
constexpr double values[] = {0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, 6e4};

class Mutator {
public:
  Mutator(ModuleOp module, ModuleOp other, unsigned seed)
      : module(module), other(other), builder(module.getContext()),
        random(seed) {}

  void run() {
    for (size_t left = 1 + pick(4); left-- > 0;)
      change();
  }
  size_t pick(size_t count) { return count ? random() % count : 0; }

private:
  template <typename Range> auto any(Range &&range) {
    return range[pick(range.size())];
  }

  /// What stands in functions, not the functions.
  static SmallVector<Operation *> opsIn(ModuleOp module) {
    SmallVector<Operation *> ops;
    if (module)
      module.walk([&](func::FuncOp function) {
        function.getBody().walk([&](Operation *op) { ops.push_back(op); });
      });
    return ops;
  }

  void change() {
    SmallVector<Operation *> ops = opsIn(module);
    if (ops.empty())
      return;
    Operation *op = any(ops);
    switch (pick(8)) {
    case 0:
    case 1:
      return changeOperand(op);
    case 2:
      return changeAttribute(op, ops);
    case 3: {
      // Functions have those of arguments and results.
      auto function = op->getParentOfType<func::FuncOp>();
      Operation *owners[] = {op, op, function, module};
      return changeAttribute(any(ArrayRef(owners)), ops);
    }
    case 4:
      return clone(op, op);
    case 5:
      return erase(op);
    default:
      SmallVector<Operation *> sources = opsIn(pick(4) ? other : module);
      return sources.empty() ? changeOperand(op) : clone(any(sources), op);
    }
  }

  /// A value of the type that `op` may use, or none.
  Value find(Type type, Operation *op) {
    SmallVector<Value> found;
    for (Operation *at = op; at && !isa<func::FuncOp>(at);
         at = at->getParentOp()) {
      Block *block = at->getBlock();
      for (Value arg : block->getArguments())
        if (arg.getType() == type)
          found.push_back(arg);
      for (Operation &before :
           llvm::make_range(block->begin(), at->getIterator()))
        for (Value result : before.getResults())
          if (result.getType() == type)
            found.push_back(result);
      if (!found.empty() && pick(4))
        break;
    }
    return found.empty() ? Value() : any(found);
  }

  /// A splat of the type; none if it has no constants.
  Value makeConstant(Type type, Operation *at) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return {};
    DenseElementsAttr splat;
    if (auto number = dyn_cast<FloatType>(tensor.getElementType()))
      splat = DenseElementsAttr::get(
          tensor,
          builder.getFloatAttr(number, any(ArrayRef(values))).getValue());
    else if (auto number = dyn_cast<IntegerType>(tensor.getElementType()))
      splat = DenseElementsAttr::get(
          tensor, APInt(number.getWidth(), uint64_t(any(ArrayRef(numbers))),
                        /*isSigned=*/true, /*implicitTrunc=*/true));
    else
      return {};
    builder.setInsertionPoint(at);
    return stablehlo::ConstantOp::create(builder, at->getLoc(), splat);
  }

  void changeOperand(Operation *op) {
    if (op->getNumOperands() == 0)
      return;
    OpOperand &operand = op->getOpOperand(pick(op->getNumOperands()));
    Value value = pick(8) ? find(operand.get().getType(), op) : Value();
    if (!value)
      value = makeConstant(operand.get().getType(), op);
    if (value)
      operand.set(value);
  }

  int64_t change(int64_t number) {
    switch (pick(4)) {
    case 0:
      return any(ArrayRef(numbers));
    case 1:
      return int64_t(pick(6)) - 1;
    default:
      return int64_t(uint64_t(number) + pick(5) - 2);
    }
  }

  template <typename Array> Attribute changeArray(Array attr) {
    SmallVector<typename std::decay_t<decltype(attr.asArrayRef())>::value_type>
        made(attr.asArrayRef());
    if (made.empty() || pick(8) == 0)
      made.push_back(pick(2));
    else if (pick(8) == 0)
      made.pop_back();
    else if (pick(4) == 0)
      std::swap(made[pick(made.size())], made[pick(made.size())]);
    else if (size_t at = pick(made.size()); true)
      made[at] = change(made[at]);
    return Array::get(attr.getContext(), made);
  }

  /// Another number or another character: shardings and configurations are
  /// texts.
  std::string changeText(StringRef text) {
    if (text.empty())
      return "0";
    size_t at = pick(text.size());
    std::string before = text.take_front(at).str();
    StringRef rest = text.drop_front(at);
    StringRef digits = rest.take_while(llvm::isDigit);
    if (!digits.empty())
      return before + std::to_string(any(ArrayRef(numbers))) +
             rest.drop_front(digits.size()).str();
    switch (pick(3)) {
    case 0:
      return before + rest.drop_front().str();
    case 1:
      return before + rest.front() + rest.str();
    default:
      return before + text[pick(text.size())] + rest.drop_front().str();
    }
  }

  /// Another attribute of the kind, or none.
  Attribute changed(Attribute attr) {
    if (auto integer = dyn_cast<IntegerAttr>(attr)) {
      unsigned width = integer.getValue().getBitWidth();
      if (width > 64)
        return {};
      int64_t number = width == 1 ? !integer.getValue().getBoolValue()
                                  : change(integer.getValue().getSExtValue());
      return IntegerAttr::get(integer.getType(),
                              APInt(width, uint64_t(number), /*isSigned=*/true,
                                    /*implicitTrunc=*/true));
    }
    if (auto number = dyn_cast<FloatAttr>(attr))
      return builder.getFloatAttr(number.getType(), any(ArrayRef(values)));
    if (auto array = dyn_cast<DenseI64ArrayAttr>(attr))
      return changeArray(array);
    if (auto array = dyn_cast<DenseBoolArrayAttr>(attr))
      return changeArray(array);
    if (auto array = dyn_cast<ArrayAttr>(attr)) {
      SmallVector<Attribute> made(array.getValue());
      if (made.empty())
        return {};
      size_t at = pick(made.size());
      if (Attribute one = changed(made[at]))
        made[at] = one;
      else if (pick(2))
        made.push_back(Attribute(made[at]));
      else
        made.erase(made.begin() + at);
      return builder.getArrayAttr(made);
    }
    if (auto text = dyn_cast<StringAttr>(attr))
      return builder.getStringAttr(changeText(text));
    if (auto dictionary = dyn_cast<DictionaryAttr>(attr)) {
      if (dictionary.empty())
        return {};
      NamedAttrList made(dictionary);
      NamedAttribute entry = any(dictionary.getValue());
      if (Attribute one = pick(8) ? changed(entry.getValue()) : Attribute())
        made.set(entry.getName(), one);
      else
        made.erase(entry.getName());
      return made.getDictionary(attr.getContext());
    }
    if (auto elements = dyn_cast<DenseIntElementsAttr>(attr)) {
      if (elements.getElementType().isIndex() || elements.size() > 4096)
        return {};
      SmallVector<APInt> made(elements.getValues<APInt>());
      if (made.empty())
        return {};
      APInt &one = made[pick(made.size())];
      one = APInt(one.getBitWidth(), uint64_t(change(0)), /*isSigned=*/true,
                  /*implicitTrunc=*/true);
      return DenseElementsAttr::get(elements.getType(), made);
    }
    return {};
  }

  /// Sets an attribute as the parser does, which refuses those of another kind
  /// than the op's own: no op has them, not even one that does not verify.
  static void set(Operation *op, StringAttr name, Attribute value) {
    if (!op->getInherentAttr(name))
      return op->setDiscardableAttr(name, value);
    auto ignore = [op] { return op->emitError(); };
    Attribute old = op->getPropertiesAsAttribute();
    if (!isa_and_nonnull<DictionaryAttr>(old))
      return;
    NamedAttrList made(cast<DictionaryAttr>(old));
    made.set(name, value);
    if (failed(op->setPropertiesFromAttribute(
            made.getDictionary(op->getContext()), ignore)))
      (void)op->setPropertiesFromAttribute(old, ignore);
  }

  /// One of the op's, by itself, or as another op has it, or dropped.
  void changeAttribute(Operation *op, ArrayRef<Operation *> ops) {
    if (pick(4) == 0) {
      Operation *from = any(ops);
      if (from->getAttrs().empty())
        return;
      NamedAttribute given = any(from->getAttrs());
      return set(op, given.getName(), given.getValue());
    }
    if (op->getAttrs().empty())
      return;
    NamedAttribute entry = any(op->getAttrs());
    if (pick(16) == 0)
      op->removeDiscardableAttr(entry.getName());
    else if (Attribute made = changed(entry.getValue()))
      set(op, entry.getName(), made);
  }

  /// Uses results of the types that stand at `at` after it.
  void spread(Operation *made) {
    for (Value result : made->getResults())
      for (Operation *op = made->getNextNode(); op; op = op->getNextNode())
        for (OpOperand &operand : op->getOpOperands())
          if (operand.get().getType() == result.getType() && pick(2) == 0)
            operand.set(result);
  }

  /// Puts the op before `at`, of values of its operands' types.
  void clone(Operation *op, Operation *at) {
    if (op->hasTrait<OpTrait::IsTerminator>())
      return;
    // What it holds may use values of around it.
    IRMapping values;
    llvm::SetVector<Value> used(op->operand_begin(), op->operand_end());
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (Region *region = operand.getParentRegion();
            inner != op && !op->isAncestor(region->getParentOp()))
          used.insert(operand);
    });
    for (Value operand : used) {
      Value value = find(operand.getType(), at);
      if (!value)
        value = makeConstant(operand.getType(), at);
      if (!value)
        return;
      values.map(operand, value);
    }
    builder.setInsertionPoint(at);
    spread(builder.clone(*op, values));
  }

  void erase(Operation *op) {
    if (op->hasTrait<OpTrait::IsTerminator>())
      return;
    for (Value result : op->getResults()) {
      if (result.use_empty())
        continue;
      Value value = find(result.getType(), op);
      if (!value)
        value = makeConstant(result.getType(), op);
      if (!value)
        return;
      result.replaceAllUsesWith(value);
    }
    op->erase();
  }

  ModuleOp module, other;
  OpBuilder builder;
  std::mt19937 random;
};

OwningOpRef<ModuleOp> parse(const std::string &text, MLIRContext &context) {
  if (findDeepNesting(text, kNestingLimit))
    return {};
  std::optional<std::string> packed = stablehlo::packBooleanBlobs(text);
  return parseSourceString<ModuleOp>(packed ? *packed : text, &context);
}

std::string print(ModuleOp module, bool isGeneric) {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  module.print(os, isGeneric ? flags.printGenericOpForm() : flags);
  return text;
}
} // namespace

const DialectRegistry &scalify::fuzz::getRegistry() {
  static const DialectRegistry registry = [] {
    DialectRegistry all;
    registerAllDialects(all);
    registerAllExtensions(all);
    all.insert<stablehlo::StableHLODialect, chlo::CHLODialect, sdy::SdyDialect,
               ScalifyDialect, plan::PlanDialect>();
    return all;
  }();
  return registry;
}

std::optional<std::string> scalify::fuzz::mutateIR(const std::string &text,
                                                   const std::string &other,
                                                   unsigned seed) {
  MLIRContext context(getRegistry(), MLIRContext::Threading::DISABLED);
  context.loadDialect<stablehlo::StableHLODialect>();
  ScopedDiagnosticHandler quiet(&context,
                                [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module = parse(text, context), second;
  if (!module)
    return std::nullopt;
  if (!other.empty())
    second = parse(other, context);
  std::mt19937 random(seed);
  // Most changes verify. What does not is for the verifiers.
  for (int turn = 0; turn < 4; ++turn) {
    OwningOpRef<ModuleOp> made = module->clone();
    Mutator(*made, second ? *second : ModuleOp(), random()).run();
    if (succeeded(verify(*made)))
      return print(*made, random() % 16 == 0);
    if (random() % 8 == 0)
      return print(*made, /*isGeneric=*/true);
  }
  return std::nullopt;
}
