//===- Clusters.h - Clustering of ops into kernels --------------*- C++ -*-===//
//
// First every op is pulled into the kernel of its users if that repeats no
// work, from the last op to the first; cheap ops with several users are cloned
// into each. Then kernels over the same rows are merged into one with several
// outputs, if one feeds the other or both read the same value.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_FUSION_CLUSTERS_H
#define SCALIFY_LIB_FUSION_CLUSTERS_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Fusion/Passes.h"

#include <memory>

namespace scalify {

/// The order in which a kernel accesses an op's elements while it iterates over
/// its space.
enum class Relation {
  Full,   // once each, in the order of the space
  Row,    // once per row
  Scalar, // one element
  Free    // some other order, or several times
};

struct Use {
  Relation relation = Relation::Free;
  double times = 1; // how often an element is computed, for Free
};

struct Cluster {
  unsigned id = 0;
  llvm::SetVector<mlir::Operation *> ops;
  int64_t full = 0;     // elements of the space
  int64_t columns = 0;  // of a row; 0 while no op depends on rows
  bool isKernel = true; // or one library call, or a stack's pieces
  bool isScatter = false;
  int64_t place = 0; // in a topological order of the clusters
};

/// The options of `scalify-form-plan`, which Passes.td documents.
struct ClusterLimits {
  unsigned maxBuffers, maxOps;
  int64_t phaseDistance;
  /// A kernel may also write a transposed copy of its result.
  bool mergeTransposed;
};

class Clusters {
public:
  Clusters(mlir::Block &block, ClusterLimits limits)
      : block(block), limits(limits) {}

  void pull();
  unsigned merge();

  /// Returns the clusters in execution order.
  llvm::SmallVector<Cluster *> schedule();
  Cluster *of(mlir::Operation *op) const { return clusterOf.lookup(op); }

  llvm::SmallVector<mlir::Value> inputs(const Cluster &cluster) const;
  llvm::SmallVector<mlir::Value> outputs(const Cluster &cluster) const;

  using Uses = llvm::DenseMap<mlir::Value, Use>;
  /// Computes the relation of every value of the cluster to its space; false if
  /// an output does not fit the space.
  bool analyse(Cluster &cluster, Uses &uses) const;

private:
  Cluster *create(mlir::Operation *root);
  void add(Cluster *cluster, mlir::Operation *op);
  bool pullInto(mlir::Operation *op);
  bool hasLongLiveRange(mlir::Operation *from, const Cluster &to) const;
  bool dequantizesForKernels(mlir::Operation *op,
                             llvm::ArrayRef<Cluster *> readers) const;
  bool wouldIncreaseMemory(Cluster *producer, Cluster *consumer) const;
  bool mayJoin(mlir::Operation *op, Cluster &cluster);
  unsigned mergeWithConsumers();
  unsigned mergeReaders(mlir::Value value);
  unsigned mergeTransposedCopies();
  bool mayWriteTransposed(const Cluster &maker, const Cluster &copy) const;
  bool tryMerge(Cluster *a, Cluster *b);
  bool iteratesOverRows(const Cluster &cluster) const;
  bool sameSpace(const Cluster &a, const Cluster &b) const;
  using ClusterSet = llvm::SmallPtrSet<Cluster *, 32>;
  std::optional<ClusterSet> followers(Cluster *first, Cluster *last) const;
  void makeAdjacent(Cluster *first, Cluster *last, const ClusterSet &followers);
  void numberOps();

  mlir::Block &block;
  ClusterLimits limits;
  std::vector<std::unique_ptr<Cluster>> clusters;
  llvm::SmallVector<Cluster *> places; // while clusters are merged
  llvm::DenseMap<mlir::Operation *, Cluster *> clusterOf;
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  llvm::DenseMap<mlir::Operation *, unsigned> copyDepth;
};

/// Returns the phase of the step that a kernel belongs to: that of the op,
/// among those with a phase, that is nearest to its outputs.
PhaseAttr getPhaseAttr(const Cluster &cluster);

/// Returns the pipeline task of a cluster: all its ops that have a task have
/// the same.
mlir::Attribute getTask(const Cluster &cluster);

/// True if the cluster sums the ranks' parts (`kInOrderAttr`). Such a sum is a
/// kernel of its own, because its users may run long after the parts arrive.
bool isRankSum(const Cluster &cluster);

/// True for a GEMM, an attention, a collective, a host call or a loop, each of
/// which is a command of its own.
bool isLibraryCall(mlir::Operation *op);

/// True for values with memory of their own: arguments, results of library
/// calls, the rank, and constants that are no splat or that kernels read from
/// memory.
bool isSource(mlir::Value value);

/// True for a concatenation whose pieces are computed in place.
bool isStack(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_CLUSTERS_H
