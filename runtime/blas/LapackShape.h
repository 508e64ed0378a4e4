// LAPACK's routines as commands of a plan: the shapes of their operands and
// their work space. Header only, because the compiler makes the buffers by it
// and the loader checks them by it.
#ifndef SCALIFY_RUNTIME_BLAS_LAPACKSHAPE_H
#define SCALIFY_RUNTIME_BLAS_LAPACKSHAPE_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scalify::rt {

enum class LapackRoutine : uint8_t {
  Potrf, // Cholesky factors
  Trsm,  // solutions of triangular systems (of BLAS)
  Getrf, // LU factors with row pivots
  Geqrf, // QR factors: R and Householder reflectors
  Geqp3, // QR factors with column pivots
  Orgqr, // Q from reflectors
  Syevd, // eigenvalues and eigenvectors of symmetric matrices
  Gesdd, // singular values and vectors, by divide and conquer
  Gesvd, // singular values and vectors, by QR iterations
  Sytrd, // tridiagonal form of symmetric matrices
  Gehrd, // Hessenberg form
  Gees,  // Schur form
  Geev,  // eigenvalues and eigenvectors of any square matrix
  Gtsv,  // solutions of tridiagonal systems
};

/// A routine's name without the letter of its type, its options as LAPACK's
/// letters, and how many of its operands it reads.
struct LapackTraits {
  std::string_view name;
  /// For each option in the order of the routine's parameters, its letters.
  std::array<std::string_view, 4> letters;
};

constexpr std::array<LapackTraits, 14> lapackTraits = {{
    {"potrf", {"LU"}},
    {"trsm", {"LR", "LU", "NTC", "NU"}},
    {"getrf", {}},
    {"geqrf", {}},
    {"geqp3", {}},
    {"orgqr", {}},
    {"syevd", {"VN", "LU"}},
    {"gesdd", {"SAN"}},
    {"gesvd", {"SAN"}},
    {"sytrd", {"LU"}},
    {"gehrd", {}},
    {"gees", {"VN", "N"}},
    {"geev", {"VN", "VN"}},
    {"gtsv", {}},
}};

inline const LapackTraits &traitsOf(LapackRoutine routine) {
  return lapackTraits[static_cast<size_t>(routine)];
}

inline std::optional<LapackRoutine> parseLapackRoutine(std::string_view name) {
  for (size_t i = 0; i < lapackTraits.size(); ++i)
    if (lapackTraits[i].name == name)
      return static_cast<LapackRoutine>(i);
  return std::nullopt;
}

/// One call for each of `batch` matrices. `m` and `n` are the rows and columns
/// of the matrix that the routine factors or solves for; `k` is the number of
/// reflectors or of right-hand sides.
struct LapackShape {
  LapackRoutine routine = LapackRoutine::Potrf;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  std::string letters;
  bool isComplex = false;

  bool has(size_t option, char letter) const {
    return letters[option] == letter;
  }
};

/// An operand for one index of the batch. In memory it is row major. One of
/// complex numbers has two buffers, its real and its imaginary part.
struct LapackOperand {
  int64_t rows = 1, cols = 1;
  int32_t rank = 0; // 2: a matrix, 1: a vector, 0: a number
  bool isInteger = false;
  /// Of a result: the operand whose copy the routine overwrites, or -1.
  int32_t overwrites = -1;
  bool isComplex = false;

  int64_t elements() const { return rows * cols; }
  int64_t parts() const { return isComplex ? 2 : 1; }
};

struct LapackSignature {
  std::vector<LapackOperand> reads, writes;
  /// Elements of the routine's own arrays: of the matrix's numbers, of real
  /// ones beside complex ones, and of integers.
  int64_t work = 0, realWork = 0, integerWork = 0;
  bool isComplex = false;

  /// Elements that a call needs, with the copies of its operands.
  int64_t floats() const {
    int64_t own = work * (isComplex ? 2 : 1) + realWork;
    return (count(false) + own + 15) / 16 * 16;
  }
  int64_t integers() const {
    return (count(true) + integerWork + 15) / 16 * 16;
  }
  /// Buffers of the operands.
  int64_t buffers() const {
    int64_t sum = 0;
    for (const auto *operands : {&reads, &writes})
      for (const LapackOperand &operand : *operands)
        sum += operand.parts();
    return sum;
  }

private:
  int64_t count(bool ofIntegers) const {
    int64_t sum = 0;
    for (const LapackOperand &read : reads)
      sum += read.isInteger == ofIntegers ? read.elements() * read.parts() : 0;
    for (const LapackOperand &write : writes)
      if (write.overwrites < 0)
        sum += write.isInteger == ofIntegers ? write.elements() * write.parts()
                                             : 0;
    return sum;
  }
};

/// The largest extents: the elements of a batch do not overflow.
constexpr int64_t maxLapackExtent = int64_t(1) << 20;
constexpr int64_t maxLapackBatch = int64_t(1) << 22;

/// Builds a routine's signature from its shape.
class LapackSignatureBuilder {
public:
  LapackSignatureBuilder(const LapackShape &shape, LapackSignature &out)
      : s(shape), least(std::min(shape.m, shape.n)),
        most(std::max(shape.m, shape.n)), out(out) {}

  /// Returns "", or what is wrong with the shape.
  std::string build();

private:
  // Columns that a blocked routine updates at once: LAPACK takes 32, and fewer
  // with less work space.
  static constexpr int64_t block = 64;

  LapackOperand matrix(int64_t rows, int64_t cols, int32_t overwrites = -1) {
    return {rows, cols, 2, false, overwrites, s.isComplex};
  }
  LapackOperand vector(int64_t size) {
    return {size, 1, 1, false, -1, s.isComplex};
  }
  LapackOperand realVector(int64_t size) { return {size, 1, 1, false, -1}; }
  LapackOperand integers(int64_t size) { return {size, 1, 1, true, -1}; }
  LapackOperand info() { return {1, 1, 0, true, -1}; }

  std::string checkSizes() const;
  bool needsSquare() const;
  void factors();
  void reflectors();
  void eigen();
  void singular();
  void reductions();
  void spectrum();
  void eigenvalues();

  const LapackShape &s;
  int64_t least, most;
  LapackSignature &out;
};

inline bool LapackSignatureBuilder::needsSquare() const {
  switch (s.routine) {
  case LapackRoutine::Potrf:
  case LapackRoutine::Syevd:
  case LapackRoutine::Sytrd:
  case LapackRoutine::Gehrd:
  case LapackRoutine::Gees:
  case LapackRoutine::Geev:
    return true;
  default:
    return false;
  }
}

inline std::string LapackSignatureBuilder::checkSizes() const {
  const LapackTraits &traits = traitsOf(s.routine);
  for (int64_t extent : {s.m, s.n, s.k})
    if (extent < 0 || extent > maxLapackExtent)
      return "has an extent of " + std::to_string(extent) + ", not 0 to " +
             std::to_string(maxLapackExtent);
  if (s.batch < 0 || s.batch > maxLapackBatch)
    return "has a batch of " + std::to_string(s.batch) + ", not 0 to " +
           std::to_string(maxLapackBatch);
  size_t options = 0;
  while (options < traits.letters.size() && !traits.letters[options].empty())
    ++options;
  if (s.letters.size() != options)
    return "has the options '" + s.letters + "', and needs " +
           std::to_string(options);
  for (size_t i = 0; i < options; ++i)
    if (traits.letters[i].find(s.letters[i]) == std::string_view::npos)
      return "has the option '" + s.letters.substr(i, 1) + "', not one of '" +
             std::string(traits.letters[i]) + "'";
  if (needsSquare() && s.m != s.n)
    return "has " + std::to_string(s.m) + " rows and " + std::to_string(s.n) +
           " columns, and needs a square";
  if (s.routine == LapackRoutine::Orgqr && (s.n > s.m || s.k > s.n))
    return "makes " + std::to_string(s.n) + " columns of length " +
           std::to_string(s.m) + " from " + std::to_string(s.k) + " reflectors";
  return "";
}

inline void LapackSignatureBuilder::factors() {
  switch (s.routine) {
  case LapackRoutine::Potrf:
    out.reads = {matrix(s.n, s.n)};
    out.writes = {matrix(s.n, s.n, 0), info()};
    return;
  case LapackRoutine::Trsm: {
    int64_t side = s.has(0, 'L') ? s.m : s.n;
    out.reads = {matrix(side, side), matrix(s.m, s.n)};
    out.writes = {matrix(s.m, s.n, 1)};
    return;
  }
  case LapackRoutine::Gtsv:
    out.reads = {vector(s.n), vector(s.n), vector(s.n), matrix(s.n, s.k)};
    out.writes = {matrix(s.n, s.k, 3), info()};
    return;
  default: // Getrf
    out.reads = {matrix(s.m, s.n)};
    out.writes = {matrix(s.m, s.n, 0), integers(least), info()};
  }
}

inline void LapackSignatureBuilder::reflectors() {
  out.reads = {matrix(s.m, s.n)};
  out.writes = {matrix(s.m, s.n, 0)};
  out.work = block * s.n + 1;
  if (s.routine == LapackRoutine::Orgqr) {
    out.reads.push_back(vector(s.k));
  } else if (s.routine == LapackRoutine::Geqrf) {
    out.writes.push_back(vector(least));
  } else { // Geqp3
    out.reads.push_back(integers(s.n));
    LapackOperand pivots = integers(s.n);
    pivots.overwrites = 1;
    out.writes.push_back(pivots);
    out.writes.push_back(vector(least));
    out.work = 2 * s.n + block * (s.n + 1);
    out.realWork = s.isComplex ? 2 * s.n : 0;
  }
}

inline void LapackSignatureBuilder::eigen() {
  out.reads = {matrix(s.n, s.n)};
  bool hasVectors = s.has(0, 'V');
  if (hasVectors)
    out.writes = {matrix(s.n, s.n, 0)};
  out.writes.push_back(realVector(s.n));
  out.writes.push_back(info());
  int64_t blocked = (block + 2) * s.n + 1;
  // Of complex matrices the larger part is real.
  int64_t own = hasVectors ? 1 + 6 * s.n + 2 * s.n * s.n : 2 * s.n + 1;
  out.work = std::max(blocked,
                      s.isComplex ? (hasVectors ? s.n * s.n + 2 * s.n : s.n + 1)
                                  : own);
  out.realWork = s.isComplex ? own : 0;
  out.integerWork = hasVectors ? 3 + 5 * s.n : 1;
}

inline void LapackSignatureBuilder::singular() {
  out.reads = {matrix(s.m, s.n)};
  out.writes = {realVector(least)};
  if (!s.has(0, 'N')) {
    bool isFull = s.has(0, 'A');
    out.writes.push_back(matrix(s.m, isFull ? s.m : least));
    out.writes.push_back(matrix(isFull ? s.n : least, s.n));
  }
  out.writes.push_back(info());
  // The least that releases of LAPACK ask for, and room for blocks.
  int64_t vectors = s.has(0, 'N') ? 0 : 5 * least * least;
  out.work = vectors + 10 * least + 2 * most + block * (s.m + s.n) + 1;
  out.integerWork = s.routine == LapackRoutine::Gesdd ? 8 * least : 0;
  if (s.isComplex)
    out.realWork =
        7 * least + (s.has(0, 'N') ? 0 : 5 * least * least + 2 * most * least);
}

inline void LapackSignatureBuilder::reductions() {
  int64_t steps = std::max<int64_t>(s.n - 1, 0);
  out.reads = {matrix(s.n, s.n)};
  out.writes = {matrix(s.n, s.n, 0)};
  out.work = block * s.n + 1;
  if (s.routine == LapackRoutine::Sytrd) {
    out.writes.insert(out.writes.end(),
                      {realVector(s.n), realVector(steps), vector(steps)});
  } else if (s.routine == LapackRoutine::Gehrd) {
    out.writes.push_back(vector(steps));
    out.work += (block + 1) * block; // the triangle of a block reflector
  } else {                           // Gees
    if (s.has(0, 'V'))
      out.writes.push_back(matrix(s.n, s.n));
    eigenvalues();
    out.work += 3 * s.n;
    out.realWork = s.isComplex ? s.n : 0;
  }
  out.writes.push_back(info());
}

/// Those of real matrices are two vectors, the real and the imaginary parts.
inline void LapackSignatureBuilder::eigenvalues() {
  out.writes.push_back(vector(s.n));
  if (!s.isComplex)
    out.writes.push_back(vector(s.n));
}

/// The eigenvectors of a real matrix are complex. LAPACK returns two columns
/// for each pair of conjugate ones.
inline void LapackSignatureBuilder::spectrum() {
  out.reads = {matrix(s.n, s.n)};
  eigenvalues();
  LapackOperand vectors = matrix(s.n, s.n);
  vectors.isComplex = true;
  for (size_t side : {0, 1})
    if (s.has(side, 'V'))
      out.writes.push_back(vectors);
  out.writes.push_back(info());
  out.work = (block + 4) * s.n + 1;
  out.realWork = 2 * s.n; // of a real matrix for a pair of columns
}

inline std::string LapackSignatureBuilder::build() {
  std::string problem = checkSizes();
  if (!problem.empty())
    return problem;
  switch (s.routine) {
  case LapackRoutine::Potrf:
  case LapackRoutine::Trsm:
  case LapackRoutine::Getrf:
  case LapackRoutine::Gtsv:
    factors();
    break;
  case LapackRoutine::Geqrf:
  case LapackRoutine::Geqp3:
  case LapackRoutine::Orgqr:
    reflectors();
    break;
  case LapackRoutine::Syevd:
    eigen();
    break;
  case LapackRoutine::Gesdd:
  case LapackRoutine::Gesvd:
    singular();
    break;
  case LapackRoutine::Sytrd:
  case LapackRoutine::Gehrd:
  case LapackRoutine::Gees:
    reductions();
    break;
  case LapackRoutine::Geev:
    spectrum();
    break;
  }
  out.isComplex = s.isComplex;
  // LAPACK takes the length of its work space in 32 bits.
  if (out.work > INT32_MAX || out.realWork > INT32_MAX)
    return "needs a work space of " +
           std::to_string(std::max(out.work, out.realWork)) +
           " elements, more than LAPACK's 32-bit integers hold";
  return "";
}

/// Computes the signature. Returns "", or what is wrong with the shape.
inline std::string makeLapackSignature(const LapackShape &shape,
                                       LapackSignature &signature) {
  signature = {};
  return LapackSignatureBuilder(shape, signature).build();
}

/// Returns how many tasks share the matrices of a batch, for which a work space
/// of `elements` has room.
inline int64_t countLapackTasks(const LapackShape &shape,
                                const LapackSignature &signature,
                                int64_t elements) {
  constexpr int64_t mostTasks = 64;
  int64_t floats = std::max<int64_t>(signature.floats(), 1);
  return std::min({shape.batch, elements / floats, mostTasks});
}

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_LAPACKSHAPE_H
