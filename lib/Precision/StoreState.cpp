//===- StoreState.cpp - Store state as narrow data between steps ----------===//
//
// The true value of state that a step casts is the product of narrow data and a
// power of two. This pass makes the data themselves the argument and the result
// of main, and dequantizes them where the step first reads them. All values in
// between keep their bits.
//
//===----------------------------------------------------------------------===//

#include "FreeScales.h"
#include "StateScales.h"

#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Precision/DotRoles.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Precision/StoredState.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

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
/// The new value of an argument.
struct Written {
  unsigned argument = 0, result = 0;
  /// The narrow data of the value, perhaps moved since the cast.
  Value data;
  QuantizeOp cast;
  bool isRoot = false;
  /// log2 of the scale, or of its prediction.
  int64_t exponent = 0;
  /// The run-time scale by which the argument is read, if any, and its index
  /// among these scales.
  Value scale;
  int64_t scaleIndex = -1;
};
} // namespace

/// Describes how a donated argument is written; none unless by a cast of state
/// with a constant scale.
static std::optional<Written> findWritten(func::FuncOp main, unsigned index) {
  OpOperand *next = getNextValue(main, index);
  if (!next)
    return std::nullopt;
  Value value = next->get();
  auto square = value.getDefiningOp<stablehlo::MulOp>();
  bool isRoot = square && square.getLhs() == square.getRhs();
  if (isRoot)
    value = square.getLhs();
  auto wide = value.getDefiningOp<DequantizeOp>();
  QuantizeOp cast = wide ? findStateCast(wide.getData()) : QuantizeOp();
  if (!cast || wide.getScale() != cast.getScale() || wide.getBlock())
    return std::nullopt;
  std::optional<int64_t> exponent = getScaleExponent(cast.getScale());
  StringRef kind = cast->getAttrOfType<StringAttr>(kStateAttr).getValue();
  if (!exponent || isRoot != (kind == kStateRoot))
    return std::nullopt;
  Written written;
  written.argument = index;
  written.result = next->getOperandNumber();
  written.data = wide.getData();
  written.cast = cast;
  written.isRoot = isRoot;
  written.exponent = *exponent;
  return written;
}

/// Returns the first op of main's body that reads the argument, itself or in a
/// region.
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

/// Dequantizes the argument where it is first read: earlier, the wide values
/// would have longer live ranges.
static void dequantizeAtFirstReader(BlockArgument argument,
                                    const Written &written) {
  OpBuilder builder(findFirstReader(argument));
  Location loc = argument.getLoc();
  Type wideType = argument.getType();
  Value scale = written.scale;
  if (!scale) {
    QuantizeOp cast = written.cast;
    scale = builder.clone(*cast.getScale().getDefiningOp())->getResult(0);
  }
  auto value = DequantizeOp::create(builder, loc, wideType, argument, scale);
  Operation *wide = value;
  if (written.isRoot)
    wide = stablehlo::MulOp::create(builder, loc, value, value);
  Operation *reader = &*builder.getInsertionPoint();
  copyPhase(reader, value);
  copyPhase(reader, wide);
  argument.replaceAllUsesExcept(wide->getResult(0), value);
  argument.setType(written.data.getType());
}

static void store(func::FuncOp main, const Written &written) {
  dequantizeAtFirstReader(main.getArgument(written.argument), written);
  main.getBody().front().getTerminator()->setOperand(written.result,
                                                     written.data);
  Builder builder(main.getContext());
  NamedAttrList stored;
  stored.set("exponent", builder.getI64IntegerAttr(written.exponent));
  stored.set("root", builder.getBoolAttr(written.isRoot));
  if (written.scaleIndex >= 0)
    stored.set("scale_index", builder.getI64IntegerAttr(written.scaleIndex));
  main.setArgAttr(written.argument, kStoredAttr,
                  stored.getDictionary(main.getContext()));
}

/// Gives run-time scales to the casts whose data only dequantize ops and the
/// next step read.
static LogicalResult useRuntimeScales(func::FuncOp main,
                                      MutableArrayRef<Written> state) {
  llvm::MapVector<Operation *, int64_t> indices;
  for (const Written &written : state)
    if (llvm::all_of(getCastReaders(written.cast), llvm::IsaPred<DequantizeOp>))
      indices.try_emplace(written.cast, indices.size());
  if (indices.empty())
    return success();
  auto casts = llvm::map_to_vector(
      indices, [](auto &entry) { return cast<QuantizeOp>(entry.first); });
  FailureOr<SmallVector<Value>> scales = measureStateScales(main, casts);
  if (failed(scales))
    return failure();
  for (Written &written : state) {
    auto found = indices.find(written.cast);
    if (found == indices.end())
      continue;
    written.scaleIndex = found->second;
    written.scale = (*scales)[found->second];
  }
  return success();
}

namespace {
struct StoreStatePass : scalify::impl::StoreStateBase<StoreStatePass> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    SmallVector<Written> state;
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (std::optional<Written> written = findWritten(main, i))
        state.push_back(*written);
    if (measuresStateScales(RecipeAttr::of(getOperation())) &&
        failed(useRuntimeScales(main, state)))
      return signalPassFailure();
    for (const Written &written : state)
      store(main, written);
    numStored += state.size();
    stablehlo::updateFunctionType(main);
    stablehlo::eraseDeadOps(main.getBody().front());
  }
};
} // namespace
