//===- Clusters.h - Which ops share a kernel --------------------*- C++ -*-===//
//
// First every op is pulled into the kernel of its users where that costs no
// repeated work, from the last op to the first; cheap ops with several users
// are copied into each. Then kernels that work on the same rows, and pass
// values to each other or read the same ones, become one with several outputs.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_FUSION_CLUSTERS_H
#define SCALIFY_LIB_FUSION_CLUSTERS_H

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Fusion/Passes.h"

#include <memory>

namespace scalify {

/// How an op's elements are met while a kernel walks its space.
enum class Relation {
  Full,   // once each, in the order of the space
  Row,    // once a row
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
  int64_t columns = 0;  // of a row; 0 while no op distinguishes rows
  bool isKernel = true; // or one library call, or a stack's pieces
  bool isScatter = false;
  int64_t place = 0; // in an order in which the clusters could run
};

/// What `scalify-form-plan` was told (Passes.td says what each is).
struct ClusterLimits {
  unsigned maxBuffers, maxOps;
  int64_t phaseDistance;
  /// A kernel may write what it makes a second time, transposed.
  bool mergeTurned;
};

class Clusters {
public:
  Clusters(mlir::Block &block, ClusterLimits limits)
      : block(block), limits(limits) {}

  void pull();
  unsigned merge();

  /// The clusters in the order they run.
  llvm::SmallVector<Cluster *> schedule();
  Cluster *of(mlir::Operation *op) const { return clusterOf.lookup(op); }

  llvm::SmallVector<mlir::Value> inputs(const Cluster &cluster) const;
  llvm::SmallVector<mlir::Value> outputs(const Cluster &cluster) const;

  using Uses = llvm::DenseMap<mlir::Value, Use>;
  /// How every value of the cluster is met; false if an output fits no space.
  bool analyse(Cluster &cluster, Uses &uses) const;

private:
  Cluster *create(mlir::Operation *root);
  void add(Cluster *cluster, mlir::Operation *op);
  bool pullInto(mlir::Operation *op);
  bool isFar(mlir::Operation *from, const Cluster &to) const;
  bool widensKept(mlir::Operation *op, llvm::ArrayRef<Cluster *> readers) const;
  bool holdsMore(Cluster *producer, Cluster *consumer) const;
  bool mayJoin(mlir::Operation *op, Cluster &cluster);
  unsigned mergeWithConsumers();
  unsigned mergeReaders(mlir::Value value);
  unsigned mergeTurnedCopies();
  bool mayWriteTurned(const Cluster &maker, const Cluster &copy) const;
  bool tryMerge(Cluster *a, Cluster *b);
  bool walksRows(const Cluster &cluster) const;
  bool sameSpace(const Cluster &a, const Cluster &b) const;
  using ClusterSet = llvm::SmallPtrSet<Cluster *, 32>;
  std::optional<ClusterSet> followers(Cluster *first, Cluster *last) const;
  void unite(Cluster *first, Cluster *last, const ClusterSet &followers);
  void numberOps();

  mlir::Block &block;
  ClusterLimits limits;
  std::vector<std::unique_ptr<Cluster>> clusters;
  llvm::SmallVector<Cluster *> places; // while clusters are merged
  llvm::DenseMap<mlir::Operation *, Cluster *> clusterOf;
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  llvm::DenseMap<mlir::Operation *, unsigned> copyDepth;
};

/// The phase of the step that a kernel belongs to: that of the op nearest to
/// what it writes that has one.
PhaseAttr getPhaseAttr(const Cluster &cluster);

/// The task of a pipeline that a cluster belongs to: that of its ops that have
/// one, which is the same.
mlir::Attribute getTask(const Cluster &cluster);

/// Whether it sums what ranks gave (`kInOrderAttr`): a kernel of its own, for
/// what reads the sum may come long after what it is made of.
bool isRankSum(const Cluster &cluster);

/// True for a GEMM, an attention, a collective or a host call: a command of its
/// own.
bool isLibraryCall(mlir::Operation *op);

/// True for values that are memory of their own: arguments, results of library
/// calls, the rank and constants that are no splat.
bool isSource(mlir::Value value);

/// True for a concatenation whose pieces are computed in its memory.
bool isStack(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_CLUSTERS_H
