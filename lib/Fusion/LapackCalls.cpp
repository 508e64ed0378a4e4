//===- LapackCalls.cpp - Ops that LAPACK computes -------------------------===//
//
// JAX gives its custom calls the routine's options as letters, in attributes,
// and asks for column-major matrices by their layouts.
//
//===----------------------------------------------------------------------===//

#include "LapackCalls.h"

#include "blas/LapackShape.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;

//===----------------------------------------------------------------------===//
// Custom calls
//===----------------------------------------------------------------------===//

/// Returns the keys of the options' letters in JAX's calls.
static ArrayRef<StringRef> getKeys(rt::LapackRoutine routine) {
  static const StringRef uplo[] = {"uplo"}, mode[] = {"mode"},
                         trsm[] = {"side", "uplo", "trans_x", "diag"},
                         syevd[] = {"mode", "uplo"}, gees[] = {"mode", "sort"},
                         geev[] = {"compute_left", "compute_right"};
  switch (routine) {
  case rt::LapackRoutine::Potrf:
  case rt::LapackRoutine::Sytrd:
    return uplo;
  case rt::LapackRoutine::Trsm:
    return trsm;
  case rt::LapackRoutine::Syevd:
    return syevd;
  case rt::LapackRoutine::Gesdd:
  case rt::LapackRoutine::Gesvd:
    return mode;
  case rt::LapackRoutine::Gees:
    return gees;
  case rt::LapackRoutine::Geev:
    return geev;
  default:
    return {};
  }
}

static DictionaryAttr getConfig(stablehlo::CustomCallOp call) {
  if (auto config = call->getAttrOfType<DictionaryAttr>("mhlo.backend_config"))
    return config;
  return dyn_cast_or_null<DictionaryAttr>(call.getBackendConfigAttr());
}

static std::optional<int64_t> getNumber(stablehlo::CustomCallOp call,
                                        StringRef key) {
  DictionaryAttr config = getConfig(call);
  auto number = config ? config.getAs<IntegerAttr>(key) : IntegerAttr();
  if (!number || number.getValue().getActiveBits() > 63)
    return std::nullopt;
  return number.getValue().getZExtValue();
}

/// Returns the real type of a number or of its parts.
static Type getRealElement(Type type) {
  Type element = getElementTypeOrSelf(type);
  auto complex = dyn_cast<ComplexType>(element);
  return complex ? complex.getElementType() : element;
}

static bool isComplex(Type type) {
  return isa<ComplexType>(getElementTypeOrSelf(type));
}

/// Returns the routine of a call's target, for the type of its first operand.
static std::optional<rt::LapackRoutine>
getRoutine(stablehlo::CustomCallOp call) {
  StringRef name = call.getCallTargetName();
  if (!name.consume_front("lapack_") || !name.consume_back("_ffi") ||
      call.getInputs().empty())
    return std::nullopt;
  Type type = call.getInputs()[0].getType();
  Type element = getRealElement(type);
  if (!isComplex(type)) {
    if (!(element.isF32() && name.consume_front("s")) &&
        !(element.isF64() && name.consume_front("d")))
      return std::nullopt;
    return rt::parseLapackRoutine(name.str());
  }
  if (!(element.isF32() && name.consume_front("c")) &&
      !(element.isF64() && name.consume_front("z")))
    return std::nullopt;
  // Symmetric is Hermitian there, and orthogonal unitary.
  if (name.consume_front("he"))
    return rt::parseLapackRoutine(("sy" + name).str());
  if (name.consume_front("un"))
    return rt::parseLapackRoutine(("or" + name).str());
  return rt::parseLapackRoutine(name.str());
}

/// The call's results that the routine writes, in its order.
static SmallVector<unsigned> getResults(const rt::LapackShape &shape) {
  switch (shape.routine) {
  case rt::LapackRoutine::Potrf:
  case rt::LapackRoutine::Geqrf:
    return {0, 1};
  case rt::LapackRoutine::Trsm:
  case rt::LapackRoutine::Orgqr:
    return {0};
  case rt::LapackRoutine::Getrf:
  case rt::LapackRoutine::Geqp3:
  case rt::LapackRoutine::Gehrd:
    return {0, 1, 2};
  case rt::LapackRoutine::Syevd:
    return shape.has(0, 'V') ? SmallVector<unsigned>{0, 1, 2}
                             : SmallVector<unsigned>{1, 2};
  case rt::LapackRoutine::Gesdd:
  case rt::LapackRoutine::Gesvd: // the first is the matrix, overwritten
    return shape.has(0, 'N') ? SmallVector<unsigned>{1, 4}
                             : SmallVector<unsigned>{1, 2, 3, 4};
  case rt::LapackRoutine::Sytrd:
    return {0, 1, 2, 3, 4};
  case rt::LapackRoutine::Gees: // without the number of chosen eigenvalues
    if (shape.isComplex)
      return shape.has(0, 'V') ? SmallVector<unsigned>{0, 1, 2, 4}
                               : SmallVector<unsigned>{0, 2, 4};
    return shape.has(0, 'V') ? SmallVector<unsigned>{0, 1, 2, 3, 5}
                             : SmallVector<unsigned>{0, 2, 3, 5};
  case rt::LapackRoutine::Gtsv:
    return {3, 4};
  case rt::LapackRoutine::Geev: { // eigenvalues in one or two vectors
    unsigned left = shape.isComplex ? 1 : 2;
    auto results = llvm::to_vector(llvm::seq(0u, left));
    for (unsigned side : {0u, 1u})
      if (shape.has(side, 'V'))
        results.push_back(left + side);
    results.push_back(left + 2);
    return results;
  }
  }
  return {};
}

/// Reads the sizes from the types of the call's operands.
static bool readSizes(stablehlo::CustomCallOp call, rt::LapackShape &shape,
                      ArrayRef<int64_t> &batch) {
  using rt::LapackRoutine;
  bool isSolve = shape.routine == LapackRoutine::Trsm;
  unsigned which = isSolve ? 1 : shape.routine == LapackRoutine::Gtsv ? 3 : 0;
  if (which >= call.getInputs().size())
    return false;
  ArrayRef<int64_t> dims = typeOf(call.getInputs()[which]).getShape();
  if (dims.size() < 2)
    return false;
  batch = dims.drop_back(2);
  shape.batch = ShapedType::getNumElements(batch);
  shape.m = dims[dims.size() - 2];
  shape.n = dims.back();
  if (shape.routine == LapackRoutine::Gtsv) {
    shape.k = shape.n;
    shape.n = shape.m;
  }
  if (shape.routine == LapackRoutine::Orgqr) {
    if (call.getInputs().size() != 2 ||
        typeOf(call.getInputs()[1]).getRank() == 0)
      return false;
    shape.k = typeOf(call.getInputs()[1]).getShape().back();
  }
  // JAX reduces whole matrices.
  return shape.routine != LapackRoutine::Gehrd ||
         (getNumber(call, "low") == 1 && getNumber(call, "high") == shape.n);
}

/// True if a value of the type, in memory in the order `layout`, is what the
/// routine takes: matrices column major, one after the other.
static bool fits(Type type, Attribute layout, const rt::LapackOperand &operand,
                 ArrayRef<int64_t> batch, Type element) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto order = dyn_cast_or_null<DenseIntElementsAttr>(layout);
  if (!tensor || !order)
    return false;
  SmallVector<int64_t> shape(batch);
  if (operand.rank >= 1)
    shape.push_back(operand.rows);
  if (operand.rank == 2)
    shape.push_back(operand.cols);
  auto dims = llvm::to_vector(
      llvm::reverse(llvm::seq<int64_t>(0, int64_t(shape.size()))));
  if (operand.rank == 2)
    std::swap(dims[0], dims[1]);
  Type wanted = operand.isInteger
                    ? Type(IntegerType::get(type.getContext(), 32))
                : operand.isComplex ? Type(ComplexType::get(element))
                                    : element;
  return tensor.getElementType() == wanted &&
         tensor.getShape() == ArrayRef<int64_t>(shape) &&
         llvm::equal(order.getValues<APInt>(), dims,
                     [](const APInt &have, int64_t want) {
                       return have.getZExtValue() == uint64_t(want);
                     });
}

/// True if operands and results are those of the signature, and results that it
/// does not have are unused.
static bool fits(stablehlo::CustomCallOp call,
                 const rt::LapackSignature &signature,
                 ArrayRef<unsigned> results, ArrayRef<int64_t> batch) {
  ArrayAttr inputLayouts = call.getOperandLayoutsAttr();
  ArrayAttr resultLayouts = call.getResultLayoutsAttr();
  if (!inputLayouts || !resultLayouts ||
      call.getInputs().size() != signature.reads.size() ||
      inputLayouts.size() != signature.reads.size() ||
      resultLayouts.size() != call.getNumResults())
    return false;
  Type element = getRealElement(call.getInputs()[0].getType());
  for (auto [i, read] : llvm::enumerate(signature.reads))
    if (!fits(call.getInputs()[i].getType(), inputLayouts[i], read, batch,
              element))
      return false;
  for (auto [result, write] : llvm::zip(results, signature.writes))
    if (result >= call.getNumResults() ||
        !fits(call.getResult(result).getType(), resultLayouts[result], write,
              batch, element))
      return false;
  return llvm::all_of(call.getResults(), [&](OpResult result) {
    return result.use_empty() ||
           llvm::is_contained(results, result.getResultNumber());
  });
}

static LapackMatch makeMatch(const rt::LapackShape &shape,
                             ArrayRef<unsigned> results) {
  return {std::string(rt::traitsOf(shape.routine).name),
          shape.letters,
          {shape.batch, shape.m, shape.n, shape.k},
          llvm::to_vector(results),
          shape.isComplex};
}

static std::optional<LapackMatch> matchCall(stablehlo::CustomCallOp call) {
  std::optional<rt::LapackRoutine> routine = getRoutine(call);
  if (!routine)
    return std::nullopt;
  rt::LapackShape shape;
  shape.routine = *routine;
  shape.isComplex = isComplex(call.getInputs()[0].getType());
  for (StringRef key : getKeys(*routine)) {
    std::optional<int64_t> letter = getNumber(call, key);
    if (!letter)
      return std::nullopt;
    shape.letters.push_back(static_cast<char>(*letter));
  }
  ArrayRef<int64_t> batch;
  rt::LapackSignature signature;
  if (!readSizes(call, shape, batch) ||
      !rt::makeLapackSignature(shape, signature).empty())
    return std::nullopt;
  SmallVector<unsigned> results = getResults(shape);
  if (!fits(call, signature, results, batch))
    return std::nullopt;
  return makeMatch(shape, results);
}

//===----------------------------------------------------------------------===//
// StableHLO's solvers
//===----------------------------------------------------------------------===//

static std::optional<LapackMatch>
matchSolver(rt::LapackRoutine routine, Value solved, std::string letters) {
  RankedTensorType type = typeOf(solved);
  Type element = getRealElement(type);
  if (!element.isF32() && !element.isF64() && !element.isF16() &&
      !element.isBF16())
    return std::nullopt;
  rt::LapackShape shape;
  shape.routine = routine;
  shape.isComplex = isComplex(type);
  shape.batch = ShapedType::getNumElements(type.getShape().drop_back(2));
  shape.m = type.getShape().drop_back().back();
  shape.n = type.getShape().back();
  shape.letters = std::move(letters);
  rt::LapackSignature signature;
  if (!rt::makeLapackSignature(shape, signature).empty())
    return std::nullopt;
  return makeMatch(shape, {0});
}

std::optional<LapackMatch> scalify::matchLapack(Operation *op) {
  auto isStatic = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape();
  };
  if (!llvm::all_of(op->getOperandTypes(), isStatic) ||
      !llvm::all_of(op->getResultTypes(), isStatic))
    return std::nullopt;
  if (auto call = dyn_cast<stablehlo::CustomCallOp>(op))
    return matchCall(call);
  if (auto cholesky = dyn_cast<stablehlo::CholeskyOp>(op))
    return matchSolver(rt::LapackRoutine::Potrf, cholesky.getA(),
                       cholesky.getLower() ? "L" : "U");
  auto solve = dyn_cast<stablehlo::TriangularSolveOp>(op);
  if (!solve)
    return std::nullopt;
  using stablehlo::Transpose;
  std::string letters = solve.getLeftSide() ? "L" : "R";
  letters += solve.getLower() ? 'L' : 'U';
  letters += solve.getTransposeA() == Transpose::NO_TRANSPOSE ? 'N'
             : solve.getTransposeA() == Transpose::TRANSPOSE  ? 'T'
                                                              : 'C';
  letters += solve.getUnitDiagonal() ? 'U' : 'N';
  return matchSolver(rt::LapackRoutine::Trsm, solve.getB(), letters);
}
