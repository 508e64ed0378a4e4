//===- KernelEmitter.h - Emission of a kernel's body as loops ---*- C++ -*-===//
//
// Computes one element (or one vector of elements) of any value of a kernel's
// body on demand: an element of an add requests the elements of its operands at
// the same index, a transpose requests a permuted index, a block argument is a
// load. Each operation is emitted in the outermost loop in which its index is
// known, so that values that do not vary along a row are computed once per row.
// Each (value, index) pair is computed once in a loop.
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
  /// Of a code that this kernel has made: the number that it stands for, in
  /// F32.
  mlir::Value number = nullptr;
};

/// Records of a trial emission: the index expressions that distinguish
/// iterations, and the values at which an index crosses from one part of a
/// concatenation or pad to the next.
struct AccessLog {
  llvm::SmallVector<mlir::AffineExpr> accesses;
  llvm::SmallVector<std::pair<mlir::AffineExpr, int64_t>> boundaries;
};

/// A value cast to a narrow format: its code, and the flags to count.
struct QuantizeResult {
  static constexpr size_t kNumCounts = 5;
  /// The counts, and the scale of the cast.
  static constexpr size_t kNumWords = kNumCounts + 1;
  /// Encoding of the scale's word; loader/Program.h repeats these constants.
  static constexpr int64_t kScaleShift = 15, kOneScale = int64_t(1) << 40;
  mlir::Value code;
  /// The number that an FP8 code stands for, in F32; null on a GPU, which has
  /// instructions for both directions, and for 16 bits, whose code is in F32.
  mlir::Value number;
  /// i1: rounds beyond the largest finite value; is not zero and becomes zero;
  /// zero; NaN; at least a sixteenth of the largest finite value, or NaN.
  mlir::Value saturated, flushed, isZero, isNaN, isTop;
  std::array<mlir::Value, kNumCounts> counts() const {
    return {saturated, flushed, isZero, isNaN, isTop};
  }
};

/// The machine that kernels are emitted for.
enum class Machine { CPU, GPU };

/// The distribution of a loop's iterations on a GPU: none (every thread runs
/// them), over the threads of a block, over the blocks, over the threads of the
/// grid.
enum class Spread { None, Threads, Blocks, Grid };

/// On a GPU: the position of this thread.
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
  /// Opens a loop inside the current innermost one and makes it innermost.
  mlir::AffineExpr pushLoop(mlir::Value lower, mlir::Value upper,
                            Interval range, int64_t step, bool isLanes,
                            Spread spread = Spread::None);
  mlir::AffineExpr pushLoop(int64_t lower, int64_t upper, int64_t step = 1,
                            bool isLanes = false, Spread spread = Spread::None);
  /// Opens a single iteration, at the computed index `lower` of `range`. With
  /// `mayBePastEnd` it does not run if `lower` is past the end of the range.
  mlir::AffineExpr pushIteration(mlir::AffineExpr lower, Interval range,
                                 int64_t lanes, bool mayBePastEnd = false);
  void popLoop();
  unsigned innermost() const { return levels.size() - 1; }
  /// Runs `body` with the loops below `level` hidden.
  mlir::LogicalResult atLevel(unsigned level,
                              llvm::function_ref<mlir::LogicalResult()> body);

  //===--- the grid of a GPU (EmitGrid.cpp) ------------------------------===//
  /// True if the iterations at `level` are distributed over threads.
  bool isSpread(unsigned level) const { return levels[level].isSpread; }
  /// Reduces the partial values of a block's threads; all threads get the
  /// result.
  mlir::Value reduceAcrossThreads(unsigned level,
                                  mlir::vector::CombiningKind kind,
                                  mlir::Value part);
  void emitBarrier(unsigned level);
  /// Returns a builder at which one thread stores a value that all compute.
  mlir::OpBuilder &getStoreBuilder(unsigned level);
  /// Returns an i1 that is true in the thread that counts values of `level`.
  mlir::Value isCounted(unsigned level);

  //===--- elements (KernelEmitter.cpp) ----------------------------------===//
  mlir::FailureOr<Element> element(mlir::Value value, const Index &index);
  mlir::LogicalResult store(unsigned write, Element element,
                            mlir::AffineExpr linear, mlir::Type type);
  mlir::FailureOr<Element> load(unsigned argument, mlir::AffineExpr linear,
                                mlir::Type elementType);
  mlir::LogicalResult finish();
  /// Fails if an element is read after another element overwrote it
  /// (CheckInPlace.cpp).
  mlir::LogicalResult checkInPlace();

  mlir::OpBuilder &at(unsigned level);
  mlir::OpBuilder &atEntry();
  mlir::Value asIndex(mlir::AffineExpr expr);
  mlir::Value asIndexVector(mlir::AffineExpr expr);
  mlir::Value combineIndices(mlir::OpBuilder &b, mlir::AffineBinaryOpExpr expr,
                             mlir::Value lhs, mlir::Value rhs);
  mlir::Value floorDivide(mlir::OpBuilder &b, mlir::AffineBinaryOpExpr expr,
                          mlir::Value lhs, mlir::Value rhs);
  Element asElement(mlir::AffineExpr expr, mlir::Type elementType);
  mlir::Value broadcast(mlir::OpBuilder &b, mlir::Value value);
  mlir::Type vectorOf(mlir::Type scalar) const;
  mlir::Value constantIndex(int64_t value);

  //===--- tiles in shared memory (EmitTiles.cpp) ------------------------===//
  /// A value whose current tile is in shared memory.
  struct StagedTile {
    mlir::Value memory;
    mlir::AffineExpr linear; // the loops' element of the value
    mlir::AffineExpr place;  // its index in the tile
    int64_t rowLength;       // the stride between lanes
    unsigned level;
  };
  void stage(mlir::Value value, const StagedTile &tile);
  void endStage(mlir::Value value) { stagedTiles.erase(value); }
  mlir::LogicalResult storeToTile(const StagedTile &tile, Element element,
                                  mlir::Type type);

  //===--- scatter and reductions ----------------------------------------===//
  /// Returns the number of blocks of a grid that have work.
  mlir::FailureOr<int64_t> emitScatter(stablehlo::ScatterOp op);
  mlir::FailureOr<Element> elementOfReduce(stablehlo::ReduceOp op,
                                           unsigned result, const Index &index);
  /// Row reductions whose inputs are computed in the pass over the outputs, on
  /// a CPU in `lanes`. They are opened and closed at the level of the row
  /// (`row`), and accumulated where the outputs are computed.
  mlir::LogicalResult openRowReductions(llvm::ArrayRef<stablehlo::ReduceOp> ops,
                                        mlir::AffineExpr row, int64_t lanes);
  mlir::LogicalResult accumulateRowReductions(mlir::AffineExpr column);
  void closeRowReductions();

  IndexScope scope;
  AccessLog *log = nullptr;
  plan::KernelOp kernel;
  mlir::func::FuncOp function;
  /// Null on a CPU.
  std::optional<Grid> grid;
  /// Vector lanes of elements, and of sums along the innermost dimension.
  int64_t maxLanes, maxSumLanes;
  /// The current pass over the data: a reduction, or null for the outputs.
  mlir::Operation *pass = nullptr;

private:
  struct Level {
    mlir::Operation *anchor; // operations of this level precede it
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
  /// Whether `expr` is in [low, high), or none if only run time can tell.
  std::optional<bool> within(mlir::AffineExpr expr, int64_t low, int64_t high);
  Element withinAtRunTime(mlir::AffineExpr expr, int64_t low, int64_t high);
  mlir::AffineExpr clampExpr(mlir::AffineExpr expr, int64_t low, int64_t high);
  Element select(Element condition, Element onTrue, Element onFalse);
  Element both(Element a, Element b);
  mlir::FailureOr<Element> guardedElement(llvm::ArrayRef<Element> conditions,
                                          mlir::Value value,
                                          const Index &index);
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
  /// Returns the alignment of a vector in memory in bytes, null if unknown.
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
  llvm::SmallVector<stablehlo::ReduceOp>
  findFusibleReductions(stablehlo::ReduceOp op, const Index &index);
  void remember(const Key &key, Element element);
  void recordAccess(unsigned buffer, mlir::AffineExpr linear,
                    mlir::Operation *op);

  /// A row of an expensive value, kept from the pass that computed it.
  struct KeptRow {
    mlir::Value memory;
    llvm::SmallVector<int64_t> dims; // dimensions along the row, in order
    llvm::SmallVector<int64_t> extents;
    Index row; // index of the other dimensions
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
  /// Counters of a cast. Only the first pass that computes the cast counts.
  struct CastCounters {
    mlir::Operation *pass = nullptr;
    /// The counter of each of QuantizeResult's counts.
    std::array<mlir::Value, QuantizeResult::kNumCounts> places;
    /// Set if the task has one scale for the whole cast.
    mlir::Value scale;
  };
  llvm::DenseMap<mlir::Operation *, CastCounters> quantizeCounters;
  /// Predicates that guard emission.
  llvm::SmallVector<Element> guards;
  llvm::DenseMap<mlir::Operation *, llvm::DenseSet<mlir::Operation *>>
      reduceDependencies;
};

/// Returns the type that elements of `type` have in registers: narrow floats
/// are computed in f32, FP8 is kept as its code, integers are signless.
mlir::Type registerType(mlir::Type type);

/// Returns the type of one element in memory.
mlir::Type storageType(mlir::Type type);

/// Emits an elementwise op (EmitElementwise.cpp). Operands are in registers,
/// all scalars or all vectors.
mlir::FailureOr<mlir::Value> emitElementwise(mlir::OpBuilder &b,
                                             mlir::Operation *op,
                                             mlir::ValueRange operands,
                                             Machine machine);
// EmitConvert.cpp
mlir::Value emitConvert(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::Value value, mlir::Type from, mlir::Type to,
                        Machine machine);
/// Converts an integer of element type `element` to an index. An index from a
/// ui64 of 2^63 or more must be read as unsigned.
mlir::Value toIndex(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                    mlir::Type element);
/// Returns `element`, or a vector of it if `type` is a vector.
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
/// Cast to FP8, F16 or BF16 that saturates finite values; in FP8 infinities
/// become NaN. The code is the value in a register.
QuantizeResult quantizeNarrow(mlir::OpBuilder &b, mlir::Location loc,
                              mlir::Value scaled, mlir::Type type,
                              Machine machine);
mlir::Value decodeNarrow(mlir::OpBuilder &b, mlir::Location loc,
                         mlir::Value code, mlir::Type type, Machine machine);

/// Kinds of reduction. Lanes combine in any order, except for General.
enum class ReduceKind { Add, Mul, Max, Min, And, Or, Xor, General };
ReduceKind reduceKind(stablehlo::ReduceOp op);

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_KERNELEMITTER_H
