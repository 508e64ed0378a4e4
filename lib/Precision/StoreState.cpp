//===- StoreState.cpp - State as narrow data between steps ----------------===//
//
// What a step writes through a narrow format has a true value that is the
// product of narrow data and a power of two. Here the data themselves become
// the argument and the result of main, and the product is made where the step
// begins to read. All values in between are the same bits.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Precision/StoredState.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {
#define GEN_PASS_DEF_STORESTATE
#include "scalify/Precision/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

QuantizeOp scalify::findStateCast(Value data) {
  auto cast = getDotOperandRoot(data).getDefiningOp<QuantizeOp>();
  return cast && isStateCast(cast) ? cast : QuantizeOp();
}

namespace {
/// How the new value of an argument is made.
struct Written {
  OpOperand *result = nullptr;
  /// The narrow data that stand for it, perhaps moved since the cast.
  Value data;
  QuantizeOp cast;
  bool isRoot = false;
};
} // namespace

/// The cast behind a result; null where it is not state or its scale is not a
/// constant.
static Written findWritten(OpOperand &result) {
  Value value = result.get();
  auto square = value.getDefiningOp<stablehlo::MulOp>();
  bool isRoot = square && square.getLhs() == square.getRhs();
  if (isRoot)
    value = square.getLhs();
  auto wide = value.getDefiningOp<DequantizeOp>();
  QuantizeOp cast = wide ? findStateCast(wide.getData()) : QuantizeOp();
  if (!cast || wide.getScale() != cast.getScale() || wide.getBlock() ||
      !getScaleExponent(cast.getScale()))
    return {};
  StringRef kind = cast->getAttrOfType<StringAttr>(kStateAttr).getValue();
  if (isRoot != (kind == kStateRoot))
    return {};
  return {&result, wide.getData(), cast, isRoot};
}

/// The first op of main's body that reads the argument, itself or in a region.
static Operation *findFirstReader(BlockArgument argument) {
  Block *block = argument.getOwner();
  Operation *first = block->getTerminator();
  for (Operation *user : argument.getUsers()) {
    Operation *reader = block->findAncestorOpInBlock(*user);
    if (reader->isBeforeInBlock(first))
      first = reader;
  }
  return first;
}

/// Makes the true values of narrow data where the argument is first read: made
/// earlier, they would take memory for longer.
static void widenWhereRead(BlockArgument argument, const Written &written) {
  OpBuilder builder(findFirstReader(argument));
  Location loc = argument.getLoc();
  Type wideType = argument.getType();
  QuantizeOp cast = written.cast;
  Operation *scale = builder.clone(*cast.getScale().getDefiningOp());
  auto value = DequantizeOp::create(builder, loc, wideType, argument,
                                    scale->getResult(0));
  Operation *wide = value;
  if (written.isRoot)
    wide = stablehlo::MulOp::create(builder, loc, value, value);
  Operation *reader = &*builder.getInsertionPoint();
  if (Attribute phase = reader->getAttr(kPhaseAttr)) {
    value->setAttr(kPhaseAttr, phase);
    wide->setAttr(kPhaseAttr, phase);
  }
  argument.replaceAllUsesExcept(wide->getResult(0), value);
  argument.setType(written.data.getType());
}

static bool store(func::FuncOp main, unsigned index) {
  auto alias = main.getArgAttrOfType<IntegerAttr>(index, "tf.aliasing_output");
  Operation *end = main.getBody().front().getTerminator();
  if (!alias || alias.getInt() >= end->getNumOperands())
    return false;
  BlockArgument argument = main.getArgument(index);
  Written written = findWritten(end->getOpOperand(alias.getInt()));
  if (!written.cast)
    return false;
  widenWhereRead(argument, written);
  written.result->set(written.data);
  Builder builder(main.getContext());
  int64_t exponent = *getScaleExponent(written.cast.getScale());
  main.setArgAttr(
      index, kStoredAttr,
      builder.getDictionaryAttr(
          {builder.getNamedAttr("exponent",
                                builder.getI64IntegerAttr(exponent)),
           builder.getNamedAttr("root", builder.getBoolAttr(written.isRoot))}));
  return true;
}

namespace {
struct StoreStatePass : scalify::impl::StoreStateBase<StoreStatePass> {
  using StoreStateBase::StoreStateBase;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      numStored += store(main, i);
    Block &body = main.getBody().front();
    main.setType(FunctionType::get(&getContext(), body.getArgumentTypes(),
                                   body.getTerminator()->getOperandTypes()));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};
} // namespace
