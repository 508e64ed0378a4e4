//===- SimulateRanks.cpp - Simulate all ranks in one process --------------===//
//
// The reference for runs on several ranks. Ops between collectives are cloned
// rank by rank, so that each rank's ops are adjacent, as in its own program,
// and equal kernels are compiled once. An op with the same operands on several
// ranks is cloned once for them: ranks agree if they share the SSA value.
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"
#include "RankJoins.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Collectives.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

#include <map>

namespace scalify {
#define GEN_PASS_DEF_SIMULATERANKSPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// For each rank the first rank with the same value.
using Leaders = SmallVector<unsigned>;

static Leaders getLeaders(ArrayRef<Value> ranks) {
  return llvm::map_to_vector(ranks, [&](Value value) {
    return static_cast<unsigned>(llvm::find(ranks, value) - ranks.begin());
  });
}

/// Returns the ranks that agree in both.
static Leaders meet(const Leaders &a, const Leaders &b) {
  Leaders both(a.size());
  for (unsigned rank = 0; rank < a.size(); ++rank)
    while (a[both[rank]] != a[rank] || b[both[rank]] != b[rank])
      ++both[rank];
  return both;
}

static bool isShared(ArrayRef<Value> ranks) { return llvm::all_equal(ranks); }

namespace {

/// Replaces a device's program by that of all devices, in place.
class Simulation {
public:
  Simulation(func::FuncOp main, sdy::MeshAttr mesh)
      : main(main), mesh(mesh), numRanks(mesh.getTotalSize()),
        builder(main.getContext()) {}

  LogicalResult run();

private:
  FailureOr<Type> getWhole(Type local, DictionaryAttr attrs);
  RankValues sliceArgument(BlockArgument whole, RankedTensorType local,
                           sdy::TensorShardingAttr sharding);
  FailureOr<Value> assemble(unsigned result, const RankValues &ranks);
  FailureOr<SmallVector<Type>> addArguments(Block &device, Block &all);

  LogicalResult runBlock(Block &device);
  void copy(ArrayRef<Operation *> ops);
  Operation *copy(Operation *op, unsigned rank, ArrayRef<Value> reads);
  LogicalResult join(Operation *collective);
  LogicalResult runLoop(stablehlo::WhileOp loop);
  FailureOr<SmallVector<Leaders>> runBody(stablehlo::WhileOp loop,
                                          ArrayRef<Leaders> carries,
                                          Region &cond, Region &body);
  LogicalResult runBranches(Operation *op);
  LogicalResult requireSameOnAllRanks(Operation *op, Value device,
                                      StringRef what);

  RankValues &of(Value device) {
    RankValues &ranks = values[device];
    ranks.resize(numRanks);
    return ranks;
  }
  SmallVector<RankValues> allOf(ValueRange device) {
    return llvm::map_to_vector(device, [&](Value value) { return of(value); });
  }
  /// Returns one value of each set of ranks that agree.
  static SmallVector<Value> pick(ArrayRef<RankValues> all,
                                 ArrayRef<Leaders> leaders);
  /// The inverse of pick(): assigns the picked values to all ranks.
  void spread(ValueRange device, ValueRange picked, ArrayRef<Leaders> leaders);
  Operation *createLike(Operation *op, ValueRange operands, TypeRange types,
                        ArrayRef<Region *> regions);

  func::FuncOp main;
  DeviceMesh mesh;
  unsigned numRanks;
  OpBuilder builder;
  llvm::DenseMap<Value, RankValues> values; // by value of the device's program
};

} // namespace

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

static sdy::TensorShardingAttr getSharding(DictionaryAttr attrs) {
  return attrs ? attrs.getAs<sdy::TensorShardingAttr>(kShardingAttr)
               : sdy::TensorShardingAttr();
}

/// Returns the whole type of a shard. The element type is that of `local`,
/// since state may have been narrowed after partitioning.
FailureOr<Type> Simulation::getWhole(Type local, DictionaryAttr attrs) {
  sdy::TensorShardingAttr sharding = getSharding(attrs);
  if (!sharding)
    return local;
  auto part = cast<RankedTensorType>(local);
  SmallVector<int64_t> shape(part.getShape());
  if (shape.size() != sharding.getDimShardings().size())
    return main.emitOpError() << "has a value of type " << local
                              << " with a sharding of another rank";
  for (auto [size, axes] : llvm::zip_equal(shape, sharding.getDimShardings()))
    size *= mesh.getNumParts(axes.getAxes());
  auto whole = attrs.getAs<TypeAttr>(kWholeTypeAttr);
  if (!whole || cast<RankedTensorType>(whole.getValue()).getShape() !=
                    ArrayRef<int64_t>(shape))
    return main.emitOpError()
           << "has a value of type " << local
           << " that is not a shard of its whole type: partition the program "
              "first, by 'python -m scalify.partition'";
  return Type(part.clone(shape));
}

RankValues Simulation::sliceArgument(BlockArgument whole,
                                     RankedTensorType local,
                                     sdy::TensorShardingAttr sharding) {
  if (whole.getType() == local)
    return RankValues(numRanks, whole);
  std::map<SmallVector<int64_t>, Value> parts;
  RankValues ranks;
  for (unsigned rank = 0; rank < numRanks; ++rank) {
    SmallVector<int64_t> starts, ends, strides(local.getRank(), 1);
    for (auto [size, axes] :
         llvm::zip_equal(local.getShape(), sharding.getDimShardings())) {
      starts.push_back(mesh.getPlace(rank, axes.getAxes()) * size);
      ends.push_back(starts.back() + size);
    }
    Value &part = parts[starts];
    if (!part) {
      part = stablehlo::SliceOp::create(builder, whole.getLoc(), local, whole,
                                        starts, ends, strides);
      part.getDefiningOp()->setAttr(plan::kMaterialiseAttr,
                                    builder.getUnitAttr());
    }
    ranks.push_back(part);
  }
  return ranks;
}

/// Adds the arguments of whole values, and returns their types.
FailureOr<SmallVector<Type>> Simulation::addArguments(Block &device,
                                                      Block &all) {
  SmallVector<Type> types;
  for (BlockArgument argument : device.getArguments()) {
    FailureOr<Type> whole = getWhole(
        argument.getType(), main.getArgAttrDict(argument.getArgNumber()));
    if (failed(whole))
      return failure();
    types.push_back(*whole);
    all.addArgument(*whole, argument.getLoc());
  }
  for (auto [argument, whole] :
       llvm::zip_equal(device.getArguments(), all.getArguments()))
    of(argument) = sliceArgument(
        whole, cast<RankedTensorType>(argument.getType()),
        getSharding(main.getArgAttrDict(argument.getArgNumber())));
  return types;
}

FailureOr<Value> Simulation::assemble(unsigned result,
                                      const RankValues &ranks) {
  if (main.getResultAttr(result, kOfEachRankAttr)) {
    Value all = stablehlo::ConcatenateOp::create(
        builder, ranks.front().getLoc(), ranks, 0);
    return all;
  }
  sdy::TensorShardingAttr sharding =
      getSharding(main.getResultAttrDict(result));
  if (!sharding) {
    // In a partitioned program such results are replicated.
    bool isAlike = main.getResultAttr(result, kWholeTypeAttr) != nullptr;
    if (!isAlike && !isShared(ranks))
      return main.emitOpError()
             << "has a result " << result
             << " that may differ between ranks, but has no sharding to "
                "assemble it by";
    return ranks.front();
  }
  // Of replicas the first rank's is taken.
  std::map<SmallVector<int64_t>, Value> parts;
  ArrayRef<sdy::DimensionShardingAttr> dims = sharding.getDimShardings();
  for (unsigned rank = 0; rank < numRanks; ++rank)
    parts.try_emplace(llvm::map_to_vector(dims,
                                          [&](sdy::DimensionShardingAttr axes) {
                                            return mesh.getPlace(
                                                rank, axes.getAxes());
                                          }),
                      ranks[rank]);
  // Parts are in row-major order: concatenate along the last dimension first.
  SmallVector<Value> pieces;
  for (auto &[place, part] : parts)
    pieces.push_back(part);
  for (int64_t dim = static_cast<int64_t>(dims.size()) - 1; dim >= 0; --dim) {
    size_t count = mesh.getNumParts(dims[dim].getAxes());
    if (count == 1)
      continue;
    SmallVector<Value> joined;
    for (ArrayRef<Value> left = pieces; !left.empty();
         left = left.drop_front(count)) {
      joined.push_back(stablehlo::ConcatenateOp::create(
          builder, left.front().getLoc(), left.take_front(count), dim));
    }
    pieces = std::move(joined);
  }
  return pieces.front();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Operation *Simulation::copy(Operation *op, unsigned rank,
                            ArrayRef<Value> reads) {
  if (isa<stablehlo::PartitionIdOp, stablehlo::ReplicaIdOp>(op)) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    APInt id(32, isa<stablehlo::PartitionIdOp>(op) ? rank : 0);
    Value number = stablehlo::buildConstant(builder, op->getLoc(), type, id);
    // The barrier keeps ops from folding with the rank number.
    return stablehlo::OptimizationBarrierOp::create(
        builder, op->getLoc(), TypeRange(type), ValueRange(number));
  }
  IRMapping map;
  for (Value read : reads)
    map.map(read, of(read)[rank]);
  return builder.clone(*op, map);
}

/// Clones ops rank by rank; a rank with the operands of an earlier one reuses
/// its results.
void Simulation::copy(ArrayRef<Operation *> ops) {
  struct Copies {
    SmallVector<Value> reads;
    SmallVector<std::pair<SmallVector<Value>, Operation *>> done;
  };
  SmallVector<Copies> copies(ops.size());
  for (auto [op, entry] : llvm::zip_equal(ops, copies)) {
    llvm::SetVector<Value> reads(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), reads);
    entry.reads = reads.takeVector();
  }
  for (unsigned rank = 0; rank < numRanks; ++rank)
    for (auto [op, entry] : llvm::zip_equal(ops, copies)) {
      SmallVector<Value> reads = llvm::map_to_vector(
          entry.reads, [&](Value value) { return of(value)[rank]; });
      auto *known = llvm::find_if(
          entry.done, [&](const auto &done) { return done.first == reads; });
      bool isNew =
          known == entry.done.end() || isa<stablehlo::PartitionIdOp>(op);
      Operation *made = isNew ? copy(op, rank, entry.reads) : known->second;
      if (isNew)
        entry.done.push_back({std::move(reads), made});
      for (auto [from, to] :
           llvm::zip_equal(op->getResults(), made->getResults()))
        of(from)[rank] = to;
    }
}

LogicalResult Simulation::join(Operation *collective) {
  FailureOr<SmallVector<RankValues>> results =
      joinRanks(builder, collective, allOf(collective->getOperands()));
  if (failed(results))
    return failure();
  for (auto [from, to] : llvm::zip_equal(collective->getResults(), *results))
    of(from) = std::move(to);
  return success();
}

LogicalResult Simulation::runBlock(Block &device) {
  SmallVector<Operation *> pending;
  auto flush = [&] {
    copy(pending);
    pending.clear();
  };
  for (Operation &op : device.without_terminator()) {
    bool isBranch = isa<stablehlo::IfOp, stablehlo::CaseOp>(op);
    bool isLoop = isa<stablehlo::WhileOp>(op);
    if (!isBranch && !isLoop && !stablehlo::isCollective(&op)) {
      if (isa<sdy::SdyDialect>(op.getDialect()))
        return op.emitOpError("belongs to an unpartitioned program: partition "
                              "it first, by 'python -m scalify.partition'");
      pending.push_back(&op);
      continue;
    }
    flush();
    LogicalResult done = isBranch ? runBranches(&op)
                         : isLoop ? runLoop(cast<stablehlo::WhileOp>(op))
                                  : join(&op);
    if (failed(done))
      return failure();
  }
  flush();
  return success();
}

//===----------------------------------------------------------------------===//
// Loops and branches
//===----------------------------------------------------------------------===//

LogicalResult Simulation::requireSameOnAllRanks(Operation *op, Value device,
                                                StringRef what) {
  if (isShared(of(device)))
    return success();
  return op->emitOpError()
         << "has " << what
         << " that may differ between ranks, which one process cannot "
            "simulate; derive it from a value that is the same on all ranks, "
            "such as the result of an all-reduce";
}

SmallVector<Value> Simulation::pick(ArrayRef<RankValues> all,
                                    ArrayRef<Leaders> leaders) {
  SmallVector<Value> picked;
  for (auto [ranks, leader] : llvm::zip_equal(all, leaders))
    for (auto [rank, value] : llvm::enumerate(ranks))
      if (leader[rank] == rank)
        picked.push_back(value);
  return picked;
}

void Simulation::spread(ValueRange device, ValueRange picked,
                        ArrayRef<Leaders> leaders) {
  auto next = picked.begin();
  for (auto [value, leader] : llvm::zip_equal(device, leaders)) {
    RankValues &ranks = of(value);
    for (unsigned rank = 0; rank < numRanks; ++rank)
      ranks[rank] = leader[rank] == rank ? *next++ : ranks[leader[rank]];
  }
}

Operation *Simulation::createLike(Operation *op, ValueRange operands,
                                  TypeRange types, ArrayRef<Region *> regions) {
  OperationState state(op->getLoc(), op->getName(), operands, types,
                       op->getAttrs());
  for (Region *region : regions)
    state.addRegion()->takeBody(*region);
  return builder.create(state);
}

/// Builds condition and body for carries that ranks share as given by
/// `carries`. Returns which ranks still agree after an iteration.
FailureOr<SmallVector<Leaders>> Simulation::runBody(stablehlo::WhileOp loop,
                                                    ArrayRef<Leaders> carries,
                                                    Region &cond,
                                                    Region &body) {
  SmallVector<Leaders> next;
  for (auto [from, to] :
       {std::pair(&loop.getCond(), &cond), std::pair(&loop.getBody(), &body)}) {
    OpBuilder::InsertionGuard guard(builder);
    Block &device = from->front();
    Block *all = builder.createBlock(to);
    for (auto [argument, leader] :
         llvm::zip_equal(device.getArguments(), carries))
      for (unsigned rank = 0; rank < numRanks; ++rank)
        if (leader[rank] == rank)
          all->addArgument(argument.getType(), argument.getLoc());
    spread(device.getArguments(), all->getArguments(), carries);
    if (failed(runBlock(device)))
      return failure();
    Operation *end = device.getTerminator();
    bool isCond = from == &loop.getCond();
    if (isCond &&
        failed(requireSameOnAllRanks(loop, end->getOperand(0), "a condition")))
      return failure();
    SmallVector<RankValues> yields = allOf(end->getOperands());
    if (!isCond)
      for (auto [ranks, leader] : llvm::zip_equal(yields, carries))
        next.push_back(meet(leader, getLeaders(ranks)));
    stablehlo::ReturnOp::create(builder, end->getLoc(),
                                isCond ? SmallVector<Value>{yields[0][0]}
                                       : pick(yields, carries));
  }
  return next;
}

/// Ranks share one loop. Assumes that ranks that agree on a carry initially
/// stay so, and rebuilds the loop until an iteration confirms it.
LogicalResult Simulation::runLoop(stablehlo::WhileOp loop) {
  SmallVector<RankValues> initial = allOf(loop->getOperands());
  SmallVector<Leaders> carries = llvm::map_to_vector(
      initial, [](const RankValues &ranks) { return getLeaders(ranks); });
  while (true) {
    Region cond, body;
    FailureOr<SmallVector<Leaders>> next = runBody(loop, carries, cond, body);
    if (failed(next))
      return failure();
    if (*next != carries) {
      carries = std::move(*next);
      continue;
    }
    SmallVector<Value> operands = pick(initial, carries);
    Operation *made =
        createLike(loop, operands, TypeRange(operands), {&cond, &body});
    spread(loop->getResults(), made->getResults(), carries);
    return success();
  }
}

LogicalResult Simulation::runBranches(Operation *op) {
  bool isIf = isa<stablehlo::IfOp>(op);
  if (failed(requireSameOnAllRanks(op, op->getOperand(0),
                                   isIf ? "a predicate" : "an index")))
    return failure();
  SmallVector<Leaders> results(op->getNumResults(), Leaders(numRanks, 0));
  SmallVector<std::unique_ptr<Region>> regions;
  for (Region &branch : op->getRegions()) {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(regions.emplace_back(new Region).get());
    if (failed(runBlock(branch.front())))
      return failure();
    for (auto [value, leader] : llvm::zip_equal(
             branch.front().getTerminator()->getOperands(), results))
      leader = meet(leader, getLeaders(of(value)));
  }
  SmallVector<Type> types;
  for (auto [branch, region] : llvm::zip_equal(op->getRegions(), regions)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&region->front());
    Operation *end = branch.front().getTerminator();
    SmallVector<Value> yields = pick(allOf(end->getOperands()), results);
    stablehlo::ReturnOp::create(builder, end->getLoc(), yields);
    types = llvm::to_vector(ValueRange(yields).getTypes());
  }
  auto made = createLike(
      op, of(op->getOperand(0)).front(), types,
      llvm::map_to_vector(regions, [](auto &region) { return region.get(); }));
  spread(op->getResults(), made->getResults(), results);
  return success();
}

//===----------------------------------------------------------------------===//
// Function and module
//===----------------------------------------------------------------------===//

LogicalResult Simulation::run() {
  OwningOpRef<func::FuncOp> old(
      cast<func::FuncOp>(main->cloneWithoutRegions()));
  old->getBody().takeBody(main.getBody());
  Block &device = old->getBody().front();
  Block *all = builder.createBlock(&main.getBody());
  FailureOr<SmallVector<Type>> types = addArguments(device, *all);
  if (failed(types) || failed(runBlock(device)))
    return failure();
  Operation *end = device.getTerminator();
  SmallVector<Value> results;
  for (auto [index, value] : llvm::enumerate(end->getOperands())) {
    FailureOr<Value> whole = assemble(index, of(value));
    if (failed(whole))
      return failure();
    results.push_back(*whole);
  }
  func::ReturnOp::create(builder, end->getLoc(), results);
  main.setFunctionType(builder.getFunctionType(*types, TypeRange(results)));
  for (StringRef name :
       {kShardingAttr, kWholeTypeAttr, kPartsAttr, kOfEachRankAttr}) {
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      main.removeArgAttr(i, name);
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      main.removeResultAttr(i, builder.getStringAttr(name));
  }
  return success();
}

/// Returns the mesh of the arguments' and results' shardings, or else the
/// largest mesh of the module; null if there is none.
static FailureOr<sdy::MeshAttr> findMesh(func::FuncOp main) {
  SmallVector<DictionaryAttr> all;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    all.push_back(main.getArgAttrDict(i));
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    all.push_back(main.getResultAttrDict(i));
  sdy::MeshAttr mesh;
  for (DictionaryAttr attrs : all)
    if (sdy::TensorShardingAttr sharding = getSharding(attrs)) {
      sdy::MeshAttr found = sharding.getMesh(main);
      if (mesh && found != mesh)
        return main.emitOpError("has values on two meshes: partition the "
                                "program first, by 'python -m "
                                "scalify.partition'");
      mesh = found;
    }
  return mesh ? mesh : sdy::findLargestMesh(main->getParentOp());
}

namespace {

struct SimulateRanks : scalify::impl::SimulateRanksPassBase<SimulateRanks> {
  using SimulateRanksPassBase::SimulateRanksPassBase;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main) {
      getOperation().emitError("has no function 'main' to simulate");
      return signalPassFailure();
    }
    FailureOr<sdy::MeshAttr> mesh = findMesh(main);
    if (failed(mesh) || failed(check(main, *mesh)) ||
        failed(Simulation(main, *mesh).run()))
      return signalPassFailure();
    for (auto op :
         llvm::make_early_inc_range(getOperation().getOps<sdy::MeshOp>()))
      op.erase();
    // JAX sets this on programs for several devices.
    if (getOperation()->hasAttr("mhlo.num_partitions"))
      getOperation()->setAttr(
          "mhlo.num_partitions",
          IntegerAttr::get(IntegerType::get(&getContext(), 32), 1));
  }

private:
  LogicalResult check(func::FuncOp main, sdy::MeshAttr mesh) const {
    if (!mesh)
      return main.emitOpError("has no mesh, and so no ranks to simulate: "
                              "partition the program first, by 'python -m "
                              "scalify.partition'");
    if (ranks != 0 && ranks != mesh.getTotalSize())
      return main.emitOpError()
             << "is of a mesh of " << mesh.getTotalSize() << " devices, and "
             << ranks.getValue() << " ranks shall be simulated";
    return success();
  }
};

} // namespace
