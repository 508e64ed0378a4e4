//===- FlattenTuples.cpp - Values in place of tuples ----------------------===//
//
// HLO passes several values as one tuple, to and from functions, loops and
// branches. A plan has buffers, one for each array, so a tuple becomes its
// elements, and those of a tuple within it theirs.
//
//===----------------------------------------------------------------------===//

#include "ArgumentInfo.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_FLATTENTUPLESPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// The most elements of a tuple: one within another may hold any number.
static constexpr int64_t kMostLeaves = int64_t(1) << 16;

static bool isTuple(Type type) { return isa<TupleType>(type); }

/// Takes the leaves of a type from `room`; false if it has too few.
static bool fits(Type type, int64_t &room) {
  // A tuple without elements takes time as well.
  if (--room < 0)
    return false;
  auto tuple = dyn_cast<TupleType>(type);
  return !tuple || llvm::all_of(tuple.getTypes(), [&](Type element) {
    return fits(element, room);
  });
}

/// Checks the types of a function's signature and values.
static LogicalResult checkTuples(func::FuncOp function) {
  auto check = [](Operation *op, TypeRange types) -> LogicalResult {
    for (Type type : types)
      if (int64_t room = kMostLeaves; isTuple(type) && !fits(type, room))
        return op->emitOpError("has a tuple of more than ")
               << kMostLeaves << " elements";
    return success();
  };
  WalkResult found = function.walk([&](Operation *op) {
    bool isBad = failed(check(op, op->getResultTypes()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        isBad = isBad || failed(check(op, block.getArgumentTypes()));
    return isBad ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(found.wasInterrupted());
}

namespace {
/// An element of a tuple that is no tuple: its type, and its path in it, as in
/// `[1][0]`.
struct Leaf {
  Type type;
  std::string path;
};
} // namespace

static void addLeaves(Type type, const Twine &path,
                      SmallVectorImpl<Leaf> &leaves) {
  auto tuple = dyn_cast<TupleType>(type);
  if (!tuple) {
    leaves.push_back({type, path.str()});
    return;
  }
  for (auto [index, element] : llvm::enumerate(tuple.getTypes()))
    addLeaves(element, path + "[" + Twine(index) + "]", leaves);
}

static SmallVector<Leaf> getLeaves(Type type) {
  SmallVector<Leaf> leaves;
  addLeaves(type, "", leaves);
  return leaves;
}

/// Builds a value of `type` from the first of `leaves`, which it drops.
static Value join(OpBuilder &b, Location loc, Type type, ValueRange &leaves) {
  auto tuple = dyn_cast<TupleType>(type);
  if (!tuple) {
    Value first = leaves.front();
    leaves = leaves.drop_front();
    return first;
  }
  SmallVector<Value> elements;
  for (Type element : tuple.getTypes())
    elements.push_back(join(b, loc, element, leaves));
  return TupleOp::create(b, loc, type, elements);
}

static void split(OpBuilder &b, Value value, SmallVectorImpl<Value> &leaves) {
  auto tuple = dyn_cast<TupleType>(value.getType());
  if (!tuple) {
    leaves.push_back(value);
    return;
  }
  for (auto [index, type] : llvm::enumerate(tuple.getTypes()))
    split(b,
          GetTupleElementOp::create(b, value.getLoc(), type, value,
                                    static_cast<uint32_t>(index)),
          leaves);
}

/// Replaces the tuples among a block's arguments.
static void flattenArguments(Block &block) {
  auto b = OpBuilder::atBlockBegin(&block);
  for (unsigned index = 0; index < block.getNumArguments(); ++index) {
    BlockArgument argument = block.getArgument(index);
    if (!isTuple(argument.getType()))
      continue;
    SmallVector<Leaf> leaves = getLeaves(argument.getType());
    SmallVector<Value> added;
    for (auto [offset, leaf] : llvm::enumerate(leaves))
      added.push_back(block.insertArgument(index + 1 + offset, leaf.type,
                                           argument.getLoc()));
    ValueRange rest(added);
    argument.replaceAllUsesWith(
        join(b, argument.getLoc(), argument.getType(), rest));
    block.eraseArgument(index);
    index += leaves.size();
    --index;
  }
}

static void flattenOperands(Operation *op) {
  if (!llvm::any_of(op->getOperandTypes(), isTuple))
    return;
  OpBuilder b(op);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    split(b, operand, operands);
  op->setOperands(operands);
}

/// Replaces an op with results of tuples by one with their leaves.
static void flattenResults(Operation *op) {
  if (!llvm::any_of(op->getResultTypes(), isTuple))
    return;
  OpBuilder b(op);
  SmallVector<Type> types;
  for (Type type : op->getResultTypes())
    for (const Leaf &leaf : getLeaves(type))
      types.push_back(leaf.type);
  Operation *flat = rebuildOp(op, op->getOperands(), types);
  ValueRange rest = flat->getResults();
  for (Value result : op->getResults())
    result.replaceAllUsesWith(join(b, op->getLoc(), result.getType(), rest));
  op->erase();
}

//===----------------------------------------------------------------------===//
// The signature of main
//===----------------------------------------------------------------------===//

static DictionaryAttr with(DictionaryAttr attrs, StringRef name,
                           Attribute value) {
  NamedAttrList list(attrs);
  list.set(name, value);
  return list.getDictionary(value.getContext());
}

static DictionaryAttr orEmpty(DictionaryAttr attrs, Builder &b) {
  return attrs ? attrs : b.getDictionaryAttr({});
}

/// Attributes of the results, and the first leaf of each result.
static SmallVector<Attribute>
flattenResultAttrs(func::FuncOp main, SmallVectorImpl<int64_t> &firstLeaf) {
  SmallVector<Attribute> flat;
  Builder b(main.getContext());
  for (auto [index, type] : llvm::enumerate(main.getResultTypes())) {
    firstLeaf.push_back(flat.size());
    DictionaryAttr attrs = orEmpty(main.getResultAttrDict(index), b);
    std::string name = import::getResultInfo(main, index).str();
    if (name.empty())
      name = ("result" + Twine(index)).str();
    for (const Leaf &leaf : getLeaves(type))
      flat.push_back(leaf.path.empty()
                         ? attrs
                         : with(attrs, import::kResultInfoAttr,
                                b.getStringAttr(name + leaf.path)));
  }
  return flat;
}

/// Attributes of the arguments. A donated tuple donates its leaves.
static SmallVector<Attribute> flattenArgAttrs(func::FuncOp main,
                                              ArrayRef<int64_t> firstLeaf) {
  SmallVector<Attribute> flat;
  Builder b(main.getContext());
  for (auto [index, type] : llvm::enumerate(main.getArgumentTypes())) {
    DictionaryAttr attrs = orEmpty(main.getArgAttrDict(index), b);
    std::optional<unsigned> result = getAliasedResult(main, index);
    std::string name = import::getArgumentName(main, index);
    for (auto [offset, leaf] : llvm::enumerate(getLeaves(type))) {
      DictionaryAttr own = attrs;
      if (!leaf.path.empty())
        own = with(own, kNameAttr, b.getStringAttr(name + leaf.path));
      if (result && *result < firstLeaf.size())
        own = with(own, kAliasAttr,
                   b.getI32IntegerAttr(firstLeaf[*result] + offset));
      flat.push_back(own);
    }
  }
  return flat;
}

static void flattenSignature(func::FuncOp main) {
  SmallVector<int64_t> firstLeaf;
  SmallVector<Attribute> results = flattenResultAttrs(main, firstLeaf);
  SmallVector<Attribute> arguments = flattenArgAttrs(main, firstLeaf);
  auto flatten = [](TypeRange types) {
    SmallVector<Type> flat;
    for (Type type : types)
      for (const Leaf &leaf : getLeaves(type))
        flat.push_back(leaf.type);
    return flat;
  };
  main.setType(FunctionType::get(main.getContext(),
                                 flatten(main.getArgumentTypes()),
                                 flatten(main.getResultTypes())));
  Builder b(main.getContext());
  main.setArgAttrsAttr(b.getArrayAttr(arguments));
  main.setResAttrsAttr(b.getArrayAttr(results));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// Forwards the elements of tuples to their uses; `ops` are in the order of
/// the program, so that a tuple within a tuple is forwarded before its uses.
static void forwardElements(func::FuncOp main) {
  SmallVector<Operation *> tuples;
  main.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto element = dyn_cast<GetTupleElementOp>(op))
      if (auto tuple = element.getOperand().getDefiningOp<TupleOp>())
        element.replaceAllUsesWith(tuple.getVal()[element.getIndex()]);
    if (isa<GetTupleElementOp, TupleOp>(op))
      tuples.push_back(op);
  });
  for (Operation *op : llvm::reverse(tuples))
    if (op->use_empty())
      op->erase();
}

/// Ops whose values are in one order, with or without tuples.
static bool takesLeaves(Operation *op) {
  return isa<func::ReturnOp, ReturnOp, WhileOp, IfOp, CaseOp,
             OptimizationBarrierOp>(op);
}

namespace {
struct FlattenTuples : scalify::impl::FlattenTuplesPassBase<FlattenTuples> {
  void runOnOperation() override;
};
} // namespace

void FlattenTuples::runOnOperation() {
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      continue;
    if (failed(checkTuples(function)))
      return signalPassFailure();
    SmallVector<Operation *> ops;
    function.walk([&](Operation *op) {
      if (takesLeaves(op))
        ops.push_back(op);
    });
    if (llvm::any_of(function.getArgumentTypes(), isTuple) ||
        llvm::any_of(function.getResultTypes(), isTuple))
      flattenSignature(function);
    flattenArguments(function.getBody().front());
    for (Operation *op : ops) {
      for (Region &region : op->getRegions())
        for (Block &block : region)
          flattenArguments(block);
      flattenOperands(op);
      flattenResults(op);
    }
    forwardElements(function);
  }
}
