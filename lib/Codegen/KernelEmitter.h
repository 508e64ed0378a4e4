//===- KernelEmitter.h - From a kernel's body to loops ----------*- C++ -*-===//
//
// Computes one element (or one vector of elements) of any value of a kernel's
// body on demand: asking for an element of an add asks for the elements of its
// operands at the same index, a transpose asks at a permuted index, a block
// argument is a load. Each operation is placed in the outermost loop in which
// its index is known, so that what does not vary along a row is computed once
// a row; and each (value, index) pair is computed once in a loop.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_CODEGEN_KERNELEMITTER_H
#define SCALIFY_LIB_CODEGEN_KERNELEMITTER_H

#include "IndexExpr.h"

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <array>
#include <map>
#include <memory>

namespace scalify::codegen {

/// An element or a vector of elements, and the loop level it is known at.
struct Element {
  mlir::Value value;
  unsigned level = 0;
};

/// What a trial emission learns about the loops: the index expressions that
/// tell apart iterations, and where a loop crosses from part to part.
struct AccessLog {
  llvm::SmallVector<mlir::AffineExpr> accesses;
  llvm::SmallVector<std::pair<mlir::AffineExpr, int64_t>> boundaries;
};

/// A value cast to a narrow format: its code, and what is counted of it.
struct QuantizeResult {
  static constexpr size_t kNumCounts = 5;
  /// What is counted, and the scale it was cast by.
  static constexpr size_t kNumWords = kNumCounts + 1;
  /// How the runtime reads the word of a scale (loader/Program.h has them too).
  static constexpr int64_t kScaleShift = 15, kOneScale = int64_t(1) << 40;
  mlir::Value code;
  /// i1: rounded beyond the largest finite value; not zero and became zero;
  /// zero; NaN; at least a sixteenth of the largest, NaN too.
  mlir::Value saturated, flushed, isZero, isNaN, isTop;
  std::array<mlir::Value, kNumCounts> counts() const {
    return {saturated, flushed, isZero, isNaN, isTop};
  }
};

/// For whom kernels are written.
enum class Machine { CPU, GPU };

/// Whose iterations the iterations of a loop are, on a GPU: every thread's,
/// one thread's of the block, one block's, one thread's of the grid.
enum class Spread { None, Threads, Blocks, Grid };

/// On a GPU: where this thread is.
struct Grid {
  mlir::Value thread, threads, block, blocks;
};

class KernelEmitter {
public:
  /// Arguments of `function`: one flat memref for each read, one for each
  /// write, lo, hi, counters.
  KernelEmitter(plan::KernelOp kernel, mlir::func::FuncOp function,
                Machine machine);
  const Machine machine;
  static int64_t lanesOf(plan::KernelOp kernel, Machine machine);

  //===--- loops (KernelEmitter.cpp) -------------------------------------===//
  /// Opens a loop at the current innermost place and makes it innermost.
  mlir::AffineExpr pushLoop(mlir::Value lower, mlir::Value upper,
                            Interval range, int64_t step, bool isLanes,
                            Spread spread = Spread::None);
  mlir::AffineExpr pushLoop(int64_t lower, int64_t upper, int64_t step = 1,
                            bool isLanes = false, Spread spread = Spread::None);
  /// One iteration, whose place in the range is computed; none where that may
  /// be behind the range and is.
  mlir::AffineExpr pushOne(mlir::AffineExpr lower, Interval range,
                           int64_t lanes, bool mayBeBehind = false);
  void popLoop();
  unsigned innermost() const { return levels.size() - 1; }
  /// Runs `body` with the loops below `level` out of sight.
  mlir::LogicalResult atLevel(unsigned level,
                              llvm::function_ref<mlir::LogicalResult()> body);

  //===--- the grid of a GPU (EmitGrid.cpp) ------------------------------===//
  /// Whether the threads of a block have iterations of their own at a level.
  bool isSpread(unsigned level) const { return levels[level].isSpread; }
  /// Of a value that each thread has a part of, the whole; in every thread.
  mlir::Value acrossThreads(unsigned level, mlir::vector::CombiningKind kind,
                            mlir::Value part);
  void waitForThreads(unsigned level);
  /// A place where each value is written once, though all threads compute it.
  mlir::OpBuilder &atStore(unsigned level);
  /// i1: counts what this thread computes at a level.
  mlir::Value isCounted(unsigned level);

  //===--- elements (KernelEmitter.cpp) ----------------------------------===//
  mlir::FailureOr<Element> element(mlir::Value value, const Index &index);
  mlir::LogicalResult store(unsigned write, Element element,
                            mlir::AffineExpr linear, mlir::Type type);
  mlir::FailureOr<Element> load(unsigned argument, mlir::AffineExpr linear,
                                mlir::Type elementType);
  mlir::LogicalResult finish();
  /// Fails where an element is read after another one was written over it
  /// (CheckInPlace.cpp).
  mlir::LogicalResult checkInPlace();

  mlir::OpBuilder &at(unsigned level);
  mlir::OpBuilder &atEntry();
  mlir::Value asIndex(mlir::AffineExpr expr);
  mlir::Value asIndexVector(mlir::AffineExpr expr);
  Element asElement(mlir::AffineExpr expr, mlir::Type elementType);
  mlir::Value broadcast(mlir::OpBuilder &b, mlir::Value value);
  mlir::Type vectorOf(mlir::Type scalar) const;
  mlir::Value constantIndex(int64_t value);

  //===--- tiles in the memory of a block (EmitTiles.cpp) ----------------===//
  /// A value whose elements of the tile at hand lie in the block's memory.
  struct StagedTile {
    mlir::Value memory;
    mlir::AffineExpr linear; // which element of the value the loops stand for
    mlir::AffineExpr place;  // where it lies
    int64_t rowLength;       // lanes lie in different rows
    unsigned level;
  };
  void stage(mlir::Value value, const StagedTile &tile);
  void endStage(mlir::Value value) { stagedTiles.erase(value); }
  mlir::LogicalResult storeToTile(const StagedTile &tile, Element element,
                                  mlir::Type type);

  //===--- scatter and reductions ----------------------------------------===//
  /// Returns how many blocks of a grid have something to do.
  mlir::FailureOr<int64_t> emitScatter(stablehlo::ScatterOp op);
  mlir::FailureOr<Element> elementOfReduce(stablehlo::ReduceOp op,
                                           unsigned result, const Index &index);
  /// Reductions of whole rows, on a GPU, whose elements the pass over the
  /// outputs takes along: opened at the level of a row, which is `row`, added
  /// to where the outputs are computed, and closed at the level of the row.
  mlir::LogicalResult openRowReductions(llvm::ArrayRef<stablehlo::ReduceOp> ops,
                                        mlir::AffineExpr row);
  mlir::LogicalResult addToRowReductions(mlir::AffineExpr column);
  void closeRowReductions();

  IndexScope scope;
  AccessLog *log = nullptr;
  plan::KernelOp kernel;
  mlir::func::FuncOp function;
  /// Null on a CPU.
  std::optional<Grid> grid;
  /// Lanes of a vector: of elements, and of sums along memory.
  int64_t maxLanes, maxSumLanes;
  /// Which pass over the data this is; a reduction, or null for the outputs.
  mlir::Operation *pass = nullptr;

private:
  struct Level {
    mlir::Operation *anchor; // operations of this level go before it
    mlir::Operation *loop;
    bool isSpread;
    std::optional<unsigned> outerLaneDim;
    int64_t outerLanes;
    llvm::SmallVector<
        std::pair<const void *, llvm::SmallVector<const void *, 4>>>
        keys;
    llvm::SmallVector<const void *> exprs;
  };
  using Key = std::pair<const void *, llvm::SmallVector<const void *, 4>>;

  mlir::FailureOr<Element> compute(mlir::Value value, const Index &index);
  mlir::FailureOr<Element> elementwise(mlir::Operation *op, const Index &index);
  mlir::FailureOr<Element> quantize(scalify::QuantizeOp op, const Index &index);
  // EmitRandomBits.cpp
  mlir::FailureOr<Element> randomBits(scalify::RandomBitsOp op,
                                      const Index &index);
  // EmitIndexing.cpp
  mlir::FailureOr<Element> indexing(mlir::Operation *op, const Index &index);
  mlir::FailureOr<Element> concatenate(stablehlo::ConcatenateOp op,
                                       const Index &index);
  mlir::FailureOr<Element> pad(stablehlo::PadOp op, const Index &index);
  mlir::FailureOr<Element> gather(stablehlo::GatherOp op, const Index &index);
  mlir::FailureOr<Element> dynamicSlice(stablehlo::DynamicSliceOp op,
                                        const Index &index);
  mlir::FailureOr<Element> dynamicUpdate(stablehlo::DynamicUpdateSliceOp op,
                                         const Index &index);
  mlir::FailureOr<mlir::AffineExpr>
  startIndex(mlir::Value value, const Index &index, int64_t limit);
  /// True, false or, if not known at compile time, an i1 element.
  std::optional<bool> within(mlir::AffineExpr expr, int64_t low, int64_t high);
  Element withinAtRunTime(mlir::AffineExpr expr, int64_t low, int64_t high);
  mlir::AffineExpr clampExpr(mlir::AffineExpr expr, int64_t low, int64_t high);
  Element select(Element condition, Element onTrue, Element onFalse);
  Element both(Element a, Element b);
  mlir::FailureOr<Element> elementWhere(llvm::ArrayRef<Element> conditions,
                                        mlir::Value value, const Index &index);
  mlir::Value loadLanes(mlir::OpBuilder &b, mlir::Value memory,
                        mlir::AffineExpr linear, mlir::Type type);
  mlir::LogicalResult apply(mlir::Block &body,
                            llvm::ArrayRef<Element> arguments,
                            llvm::SmallVectorImpl<Element> &results);
  void openGrid();
  void countOnGrid(unsigned level, mlir::Value &memory, mlir::Value flags);
  void addCountOfGrid(mlir::Value memory, int64_t slot);
  void addScale(mlir::Value scale, int64_t slot);
  std::pair<mlir::Value, mlir::Value>
  spreadOver(Spread spread, mlir::Value lower, int64_t step);
  /// In bytes, of a vector in memory; null where it is not known.
  mlir::IntegerAttr vectorAlignment(mlir::AffineExpr linear, mlir::Type stored);
  struct ReduceGroup;
  struct RowReduction;
  llvm::SmallVector<std::shared_ptr<RowReduction>> rowReductions;
  struct Scatter;
  mlir::LogicalResult emitReduceGroup(llvm::ArrayRef<stablehlo::ReduceOp> group,
                                      const Index &index, unsigned level);
  // KeptRows.cpp
  llvm::SmallVector<mlir::Value>
  valuesToKeep(llvm::ArrayRef<stablehlo::ReduceOp> group);
  void keep(mlir::Value value, const Index &index, llvm::ArrayRef<int64_t> dims,
            llvm::ArrayRef<mlir::AffineExpr> loops,
            llvm::ArrayRef<int64_t> extents);
  mlir::FailureOr<Element> kept(mlir::Value value, const Index &index);
  // EmitTiles.cpp
  mlir::FailureOr<Element> staged(mlir::Value value, const Index &index);
  llvm::SmallVector<stablehlo::ReduceOp> reducesInStep(stablehlo::ReduceOp op,
                                                       const Index &index);
  void remember(const Key &key, Element element);
  void notePlace(unsigned buffer, mlir::AffineExpr linear, mlir::Operation *op);

  /// A row of a value that costs much, kept from the pass that computed it.
  struct KeptRow {
    mlir::Value memory;
    llvm::SmallVector<int64_t> dims; // those that walk the row, in order
    llvm::SmallVector<int64_t> extents;
    Index row; // index of the others
    bool isComplete = false;
  };

  mlir::OpBuilder builder;
  /// A load or a store of a kernel that writes in place.
  struct Place {
    unsigned buffer;
    mlir::AffineExpr linear;
    mlir::Operation *op;
  };
  llvm::SmallVector<Place> places;
  llvm::DenseMap<mlir::Value, KeptRow> keptRows;
  llvm::DenseMap<mlir::Value, StagedTile> stagedTiles;
  llvm::SmallVector<Level> levels;
  std::map<Key, Element> elements;
  llvm::DenseMap<mlir::AffineExpr, mlir::Value> indices;
  llvm::DenseMap<mlir::AffineExpr, mlir::Value> indexVectors;
  /// Where a cast counts; only the first pass over the data that meets it does.
  struct CastCounters {
    mlir::Operation *pass = nullptr;
    /// A place for each of QuantizeResult's counts.
    std::array<mlir::Value, QuantizeResult::kNumCounts> places;
    /// Where the task has one scale for all of the cast.
    mlir::Value scale;
  };
  llvm::DenseMap<mlir::Operation *, CastCounters> quantizeCounters;
  /// Predicates that guard emission.
  llvm::SmallVector<Element> guards;
  llvm::DenseMap<mlir::Operation *, llvm::DenseSet<mlir::Operation *>>
      reduceDependencies;
};

/// The type a value of element type `type` has in registers: narrow floats
/// are computed in f32, FP8 is kept as its code, integers are signless.
mlir::Type registerType(mlir::Type type);

/// The type of one element in memory.
mlir::Type storageType(mlir::Type type);

/// Result of an elementwise op (EmitElementwise.cpp); operands are registers,
/// all scalars or all vectors.
mlir::FailureOr<mlir::Value> emitElementwise(mlir::OpBuilder &b,
                                             mlir::Operation *op,
                                             mlir::ValueRange operands,
                                             Machine machine);
// EmitConvert.cpp
mlir::Value emitConvert(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::Value value, mlir::Type from, mlir::Type to,
                        Machine machine);
/// The number that an integer of element type `element` stands for, as an
/// index. Of ui64 numbers from 2^63 on it is to be read as unsigned.
mlir::Value toIndex(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                    mlir::Type element);
/// `element`, or a vector of it if `type` is one.
mlir::Type withElement(mlir::Type type, mlir::Type element);
mlir::Value constantLike(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Type type, double value);
mlir::Value constantLike(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Type type, int64_t value);

// Casts.cpp
mlir::Value toRegister(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Value stored, mlir::Type type, Machine machine);
mlir::Value toStorage(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                      mlir::Type type, Machine machine);
mlir::Value roundTo(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                    mlir::Type type, Machine machine);
mlir::Value encodeFloat8(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Value value, mlir::Type type, bool saturate,
                         Machine machine);
mlir::Value decodeFloat8(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Value code, mlir::Type type, Machine machine);
/// A saturating cast to FP8, F16 or BF16; the code is what a register holds.
QuantizeResult quantizeNarrow(mlir::OpBuilder &b, mlir::Location loc,
                              mlir::Value scaled, mlir::Type type,
                              Machine machine);
mlir::Value decodeNarrow(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Value code, mlir::Type type, Machine machine);

/// Kinds of reduction whose lanes can be combined in any order.
enum class ReduceKind { Add, Mul, Max, Min, And, Or, Xor, General };
ReduceKind reduceKind(stablehlo::ReduceOp op);

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_KERNELEMITTER_H
