//===- Entries.cpp - Ops without arithmetic of their own ------------------===//
//
// Opaque calls, tokens, tuples, sizes: each has an entry that says so. The
// coverage test fails for an op that has none.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/Rules.h"

#include "Moments.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

using Results = MutableArrayRef<ScaleFacts>;

static void noFacts(const FactsQuery &query, Results out) {
  for (ScaleFacts &result : out)
    result.rule = shortName(query.op);
}

static void passFacts(const FactsQuery &query, Results out) {
  for (auto [i, result] : llvm::enumerate(out)) {
    if (i < query.op->getNumOperands())
      result = query.operand(i);
    result.rule = shortName(query.op);
  }
}

/// True for targets that annotate or move their operands and compute nothing.
static bool isAnnotation(StringRef target) {
  return llvm::StringSwitch<bool>(target)
      .Cases({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}, true)
      .Cases({"annotate_device_placement", "MoveToHost", "MoveToDevice"}, true)
      .Cases({"LayoutConstraint", "PinToDevice", "xla.sdy.FuncResultSharding"},
             true)
      .Cases({"xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"}, true)
      .Default(false);
}

//===----------------------------------------------------------------------===//
// Factorisations
//
// Routines of LAPACK and cuSOLVER that keep norms: the squares of the
// eigenvalues, of the singular values and of R's elements sum to those of the
// matrix, and the columns of U, V and Q have unit length.
//===----------------------------------------------------------------------===//

namespace {
enum class Factorisation { None, Eigen, Singular, Triangle, Orthogonal, Root };
} // namespace

/// Classifies lapack_ssyevd_ffi, cusolver_syevd_ffi and, on a TPU, Eigh.
static Factorisation getFactorisation(StringRef target) {
  StringRef routine = target;
  routine.consume_back("_ffi");
  routine.consume_front("cusolver_");
  // LAPACK's routines begin with a letter for the type.
  if (routine.consume_front("lapack_"))
    routine = routine.drop_front();
  return llvm::StringSwitch<Factorisation>(routine)
      .Cases({"syevd", "heevd", "geev", "Eigh"}, Factorisation::Eigen)
      .Cases({"gesdd", "gesvd", "gesvdj"}, Factorisation::Singular)
      .Cases({"geqrf", "getrf", "Qr", "LuDecomposition"},
             Factorisation::Triangle)
      .Cases({"orgqr", "ungqr", "ProductOfElementaryHouseholderReflectors"},
             Factorisation::Orthogonal)
      .Cases({"potrf", "Cholesky"}, Factorisation::Root)
      .Default(Factorisation::None);
}

static ScaleFamily customCallFamily(Operation *op) {
  StringRef target = cast<stablehlo::CustomCallOp>(op).getCallTargetName();
  if (isAnnotation(target) && op->getNumOperands() == op->getNumResults())
    return ScaleFamily::PassEach;
  return getFactorisation(target) == Factorisation::None ? ScaleFamily::Opaque
                                                         : ScaleFamily::True;
}

static ScaleFacts unitColumns(double rows) {
  ScaleFacts facts = ScaleFacts::gaussian(1 / std::sqrt(rows));
  facts.bound = 1.0;
  return facts;
}

/// Returns the facts of result `index` of a factorisation of the m x n matrix
/// `x`. Vectors are eigenvalues, singular values and the factors of reflectors.
static ScaleFacts factorFacts(Factorisation kind, const ScaleFacts &x, double m,
                              double n, bool isVector, unsigned index) {
  double largest = std::sqrt(std::max(m, n));
  switch (kind) {
  case Factorisation::Eigen:
    return isVector ? ScaleFacts::gaussian(largest * x.rms) : unitColumns(m);
  case Factorisation::Singular:
    if (isVector)
      return ScaleFacts::gaussian(largest * x.rms);
    // The overwritten matrix, U and the transpose of V.
    return index == 0 ? ScaleFacts::gaussian(x.rms)
                      : unitColumns(index == 2 ? m : n);
  case Factorisation::Triangle:
    // Householder's factors lie between 1 and 2.
    return isVector ? ScaleFacts::moments(1.5, 1.0 / 12)
                    : ScaleFacts::gaussian(x.rms);
  case Factorisation::Orthogonal:
    return unitColumns(m);
  case Factorisation::Root:
    return ScaleFacts::gaussian(std::sqrt(x.rms));
  case Factorisation::None:
    break;
  }
  return x;
}

static void customCallFacts(const FactsQuery &query, Results out) {
  auto call = cast<stablehlo::CustomCallOp>(query.op);
  Factorisation kind = getFactorisation(call.getCallTargetName());
  RankedTensorType matrix;
  if (query.op->getNumOperands() > 0)
    matrix = dyn_cast<RankedTensorType>(query.op->getOperand(0).getType());
  for (auto [i, result] : llvm::enumerate(out)) {
    if (i < query.op->getNumOperands())
      result = query.operand(i);
    auto type = dyn_cast<RankedTensorType>(query.op->getResult(i).getType());
    if (kind != Factorisation::None && matrix && matrix.getRank() > 1 && type) {
      ArrayRef<int64_t> sides = matrix.getShape().take_back(2);
      result = factorFacts(
          kind, query.operand(0), static_cast<double>(sides[0]),
          static_cast<double>(sides[1]), type.getRank() < matrix.getRank(), i);
    }
    result.rule = "custom_call @" + call.getCallTargetName().str();
  }
}

void scalify::attachEntries(MLIRContext *context) {
  using namespace stablehlo;
  attachRule<customCallFamily, customCallFacts, CustomCallOp>(context);
  attachRule<ScaleFamily::Opaque, noFacts, CompositeOp, InfeedOp, RecvOp,
             TupleOp, GetTupleElementOp>(context);
  // Values leave the program as true values.
  attachRule<ScaleFamily::True, noFacts, OutfeedOp, SendOp>(context);
  attachRule<ScaleFamily::Untouched, noFacts, AfterAllOp, CreateTokenOp,
             PartitionIdOp, ReplicaIdOp, GetDimensionSizeOp, ReturnOp>(context);
}

void scalify::attachSdyRules(MLIRContext *context) {
  attachRule<ScaleFamily::Pass, passFacts, sdy::ShardingConstraintOp,
             sdy::ReshardOp>(context);
  attachRule<ScaleFamily::Untouched, noFacts, sdy::MeshOp, sdy::ShardingGroupOp,
             sdy::ReturnOp>(context);
  // --scalify-localize lowers these to stablehlo before Scaling.
  attachRule<ScaleFamily::Opaque, noFacts, sdy::AllReduceOp,
             sdy::ReduceScatterOp, sdy::AllGatherOp, sdy::AllSliceOp,
             sdy::AllToAllOp, sdy::CollectivePermuteOp, sdy::ConstantOp>(
      context);
}
