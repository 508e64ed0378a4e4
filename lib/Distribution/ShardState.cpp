//===- ShardState.cpp - Shard state over ranks (ZeRO) ---------------------===//
//
// Of state that all ranks would keep and update identically, each rank keeps
// and updates a share (Rajbhandari et al. 2020, "ZeRO", sections 5 and 7).
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"
#include "Shards.h"

#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace scalify {
#define GEN_PASS_DEF_SHARDSTATEPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using stablehlo::AllReduceOp;

namespace {
/// Ranks that share values, and their shares.
struct Sharing {
  Sharing(const DeviceMesh &mesh, ArrayRef<sdy::AxisRefAttr> axes,
          const stablehlo::StackShapes &stacks, int64_t &numChannels)
      : group(mesh, axes), shards(group, stacks, numChannels) {}
  ShareGroup group;
  Shards shards;
};

/// An argument that is kept in shares, or whose update is computed in shares.
struct State {
  unsigned argument, result;
  Sharing *sharing;
  bool isKeptInShares;
};

class StateSharder {
public:
  StateSharder(func::FuncOp main, sdy::MeshOp meshOp, int64_t level)
      : main(main), meshAttr(meshOp.getMesh()), mesh(meshAttr),
        meshName(FlatSymbolRefAttr::get(meshOp.getSymNameAttr())), level(level),
        end(main.getBody().front().getTerminator()) {}

  void run();

private:
  void findGroups();
  Sharing *findSharing(Value value, Operation *&other);
  bool isShardedOver(unsigned argument, unsigned result,
                     const ShareGroup &group);
  void findStates();
  void keepInShares(const State &state);
  void sumInShares();
  void returnShares(const State &state);
  void eraseUnread();
  void retype();
  void remarkUnsharded();

  func::FuncOp main;
  sdy::MeshAttr meshAttr;
  DeviceMesh mesh;
  FlatSymbolRefAttr meshName;
  int64_t level;
  Operation *end;
  int64_t numChannels = 0;
  stablehlo::StackShapes stacks;
  llvm::MapVector<Attribute, std::unique_ptr<Sharing>> sharings; // by groups
  SmallVector<State> states;
  SmallVector<std::pair<Operation *, unsigned>> gathers; // of arguments
};
} // namespace

//===----------------------------------------------------------------------===//
// State and groups
//===----------------------------------------------------------------------===//

/// Every subset of the mesh's axes is a group that a sum may be over.
void StateSharder::findGroups() {
  ArrayRef<sdy::MeshAxisAttr> all = meshAttr.getAxes();
  for (unsigned choice = 1; choice < (1u << all.size()); ++choice) {
    SmallVector<sdy::AxisRefAttr> axes;
    for (auto [index, axis] : llvm::enumerate(all))
      if (choice >> index & 1 && axis.getSize() > 1)
        axes.push_back(
            sdy::AxisRefAttr::get(main.getContext(), axis.getName(), 0, 0));
    if (axes.empty())
      continue;
    auto sharing = std::make_unique<Sharing>(mesh, axes, stacks, numChannels);
    Attribute groups = sharing->group.getGroups();
    sharings.insert({groups, std::move(sharing)});
  }
}

/// Returns the ranks of the sums that a value is computed from elementwise;
/// null if there are no sums, or if they are over several groups, one of which
/// then is `other`.
Sharing *StateSharder::findSharing(Value value, Operation *&other) {
  Sharing *found = nullptr;
  llvm::SetVector<Value> values;
  values.insert(value);
  for (size_t next = 0; next < values.size(); ++next) {
    Operation *op = stripMoves(values[next]).getDefiningOp();
    if (auto sum = dyn_cast_or_null<AllReduceOp>(op)) {
      auto place = sharings.find(sum.getReplicaGroups());
      if (place == sharings.end() || sum.getOperands().size() != 1)
        continue;
      if (found && found != place->second.get()) {
        other = sum;
        return nullptr;
      }
      found = place->second.get();
    } else if (op && isElementwiseOp(op)) {
      for (Value operand : op->getOperands())
        if (typeOf(operand).getRank() > 0)
          values.insert(operand);
    }
  }
  return found;
}

/// True if ranks of the group have different shards of the argument or result.
bool StateSharder::isShardedOver(unsigned argument, unsigned result,
                                 const ShareGroup &group) {
  llvm::DenseSet<std::pair<int64_t, int64_t>> digits;
  for (auto digit : mesh.getDigits(group.getAxes()))
    digits.insert(digit);
  auto isOver = [&](sdy::TensorShardingAttr sharding) {
    return sharding && llvm::any_of(sharding.getDimShardings(), [&](auto dim) {
             return llvm::any_of(
                 mesh.getDigits(dim.getAxes()),
                 [&](auto digit) { return digits.contains(digit); });
           });
  };
  return isOver(main.getArgAttrOfType<sdy::TensorShardingAttr>(
             argument, kShardingAttr)) ||
         isOver(main.getResultAttrOfType<sdy::TensorShardingAttr>(
             result, kShardingAttr));
}

void StateSharder::findStates() {
  for (unsigned index = 0; index < main.getNumArguments(); ++index) {
    BlockArgument argument = main.getArgument(index);
    OpOperand *next = getNextValue(main, index);
    RoleAttr role = getRoleAttr(main, index);
    if (!next || !role || !isa<FloatType>(typeOf(argument).getElementType()) ||
        typeOf(argument).getRank() == 0)
      continue;
    unsigned result = next->getOperandNumber();
    Operation *other = nullptr;
    Sharing *sharing = findSharing(next->get(), other);
    if (!sharing) {
      auto remark = emitRemark(argument.getLoc());
      if (other)
        remark << "stays whole on every rank: it is computed from sums over "
                  "different groups of ranks";
      else
        remark << "stays whole on every rank: it is not computed element by "
                  "element from a sum over ranks";
      continue;
    }
    if (isShardedOver(index, result, sharing->group)) {
      emitRemark(argument.getLoc())
          << "stays as it is: it is already sharded over the ranks that sum";
      continue;
    }
    bool isParam = role.getValue() == Role::Param;
    states.push_back({index, result, sharing, !isParam || level >= 3});
  }
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

/// Replaces the argument by its share, and its uses by an all-gather.
void StateSharder::keepInShares(const State &state) {
  BlockArgument argument = main.getArgument(state.argument);
  RankedTensorType type = typeOf(argument);
  argument.setType(state.sharing->shards.getShareType(type));
  OpBuilder builder = OpBuilder::atBlockBegin(&main.getBody().front());
  Value whole =
      state.sharing->shards.gather(builder, argument.getLoc(), argument, type);
  Operation *gather = &main.getBody().front().front();
  argument.replaceAllUsesExcept(whole, gather);
  state.sharing->shards.set(whole, argument);
  gathers.push_back({gather, state.argument});
}

/// Computes sums of all elements, such as gradient norms, from shares, so that
/// no rank needs the whole gradients.
void StateSharder::sumInShares() {
  for (auto reduce : llvm::make_early_inc_range(
           main.getBody().front().getOps<stablehlo::ReduceOp>())) {
    if (!stablehlo::isFullSum(reduce))
      continue;
    Value value = reduce.getInputs()[0];
    Operation *other = nullptr;
    Sharing *sharing = findSharing(value, other);
    if (!sharing || !sharing->shards.isShared(value) ||
        (sharing->shards.isFilled(typeOf(value)) &&
         !sharing->shards.isZeroInPadding(value)))
      continue;
    reduce->getResult(0).replaceAllUsesWith(sharing->shards.sum(reduce));
    reduce.erase();
  }
}

void StateSharder::returnShares(const State &state) {
  Value whole = end->getOperand(state.result);
  Value share = state.sharing->shards.get(whole);
  if (!state.isKeptInShares) {
    OpBuilder builder(end);
    share = state.sharing->shards.gather(builder, whole.getLoc(), share,
                                         typeOf(whole));
  }
  end->setOperand(state.result, share);
}

void StateSharder::eraseUnread() {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(main.getBody().front()))) {
    bool mayErase =
        isPure(&op) || isa<AllReduceOp, stablehlo::AllGatherOp,
                           stablehlo::ReduceScatterOp, stablehlo::ReduceOp>(op);
    if (&op == end || !op.use_empty() || !mayErase)
      continue;
    llvm::erase_if(gathers, [&](auto &entry) { return entry.first == &op; });
    op.erase();
  }
}

//===----------------------------------------------------------------------===//
// Attributes and remarks
//===----------------------------------------------------------------------===//

/// Returns the sharding of a replicated value.
static sdy::TensorShardingAttr getReplicated(RankedTensorType type,
                                             FlatSymbolRefAttr mesh) {
  MLIRContext *context = type.getContext();
  SmallVector<sdy::DimensionShardingAttr> dims(
      type.getRank(), sdy::DimensionShardingAttr::get(context, {}, true, -1));
  return sdy::TensorShardingAttr::get(context, mesh, dims, {}, {});
}

/// Returns the attributes of an argument or result whose whole value is the
/// concatenation of all ranks' shares; `scalify.flat` describes the original.
static DictionaryAttr getFlat(DictionaryAttr attrs, RankedTensorType local,
                              const Sharing &sharing, const DeviceMesh &mesh,
                              FlatSymbolRefAttr meshName) {
  MLIRContext *context = local.getContext();
  Builder builder(context);
  NamedAttrList flat(attrs);
  auto sharding = flat.get(kShardingAttr)
                      ? cast<sdy::TensorShardingAttr>(flat.get(kShardingAttr))
                      : getReplicated(local, meshName);
  Attribute whole = flat.get(kWholeTypeAttr);
  SmallVector<sdy::AxisRefAttr> axes;
  int64_t parts = 1;
  for (sdy::DimensionShardingAttr dim : sharding.getDimShardings()) {
    llvm::append_range(axes, dim.getAxes());
    parts *= mesh.getNumParts(dim.getAxes());
  }
  llvm::append_range(axes, sharing.group.getAxes());
  flat.set(kFlatAttr,
           builder.getDictionaryAttr(
               {builder.getNamedAttr("parts", getParts(sharding, mesh)),
                builder.getNamedAttr("whole",
                                     whole ? whole : TypeAttr::get(local))}));
  RankedTensorType filled = sharing.shards.getPaddedType(local);
  SmallVector<int64_t> shape(filled.getShape());
  shape.back() *= parts;
  SmallVector<sdy::DimensionShardingAttr> dims(
      shape.size(), sdy::DimensionShardingAttr::get(context, {}, true, -1));
  dims.back() = sdy::DimensionShardingAttr::get(context, axes,
                                                /*isClosed=*/true,
                                                /*priority=*/-1);
  auto shares = sdy::TensorShardingAttr::get(context, sharding.getMeshOrRef(),
                                             dims, {}, {});
  flat.set(kShardingAttr, shares);
  flat.set(kPartsAttr, getParts(shares, mesh));
  flat.set(kWholeTypeAttr, TypeAttr::get(filled.clone(shape)));
  return flat.getDictionary(context);
}

void StateSharder::retype() {
  FunctionType before = main.getFunctionType();
  for (const State &state : states) {
    if (!state.isKeptInShares)
      continue;
    auto local = cast<RankedTensorType>(before.getInput(state.argument));
    main.setArgAttrs(state.argument,
                     getFlat(main.getArgAttrDict(state.argument), local,
                             *state.sharing, mesh, meshName));
    main.setResultAttrs(state.result,
                        getFlat(main.getResultAttrDict(state.result), local,
                                *state.sharing, mesh, meshName));
  }
  stablehlo::updateFunctionType(main);
}

/// Reports remaining uses that cost the memory or time that shares would save.
void StateSharder::remarkUnsharded() {
  for (auto [gather, argument] : gathers) {
    if (!isOneOf(getRoleAttr(main, argument), Role::Param))
      emitRemark(main.getArgument(argument).getLoc())
          << "is sharded, but all-gathered in every step, since an unsharded "
             "use remains";
  }
  for (auto sum : main.getBody().front().getOps<AllReduceOp>())
    if (llvm::any_of(states, [&](const State &state) {
          return sum.getOperands().size() == 1 &&
                 typeOf(sum.getOperands()[0]).getRank() > 0 &&
                 state.sharing->shards.knows(sum.getResult(0));
        }))
      emitRemark(sum.getLoc())
          << "is both all-reduced and reduce-scattered: something reads the "
             "whole sum";
}

void StateSharder::run() {
  main.walk([&](Operation *op) {
    if (auto channel =
            op->getAttrOfType<stablehlo::ChannelHandleAttr>("channel_handle"))
      numChannels = std::max(numChannels, channel.getHandle());
  });
  stacks = stablehlo::findStackShapes(main);
  findGroups();
  findStates();
  for (const State &state : llvm::reverse(states))
    if (state.isKeptInShares)
      keepInShares(state);
  if (!states.empty())
    sumInShares();
  for (const State &state : states)
    returnShares(state);
  eraseUnread();
  retype();
  remarkUnsharded();
}

namespace {
struct ShardStatePass : scalify::impl::ShardStatePassBase<ShardStatePass> {
  using ShardStatePassBase::ShardStatePassBase;
  void runOnOperation() override {
    sdy::MeshOp mesh;
    for (auto op : getOperation().getOps<sdy::MeshOp>())
      if (!mesh || op.getMesh().getTotalSize() > mesh.getMesh().getTotalSize())
        mesh = op;
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (level < 1 || level > 3) {
      getOperation().emitError("ZeRO has levels 1 to 3, not ")
          << level.getValue();
      return signalPassFailure();
    }
    if (!mesh || !main) {
      getOperation().emitError("has no mesh or no @main, so that no state can "
                               "be sharded");
      return signalPassFailure();
    }
    StateSharder(main, mesh, level).run();
  }
};
} // namespace
