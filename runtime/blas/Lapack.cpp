#include "blas/Lapack.h"
#include "blas/Blas.h"

#include <complex>
#include <cstddef>
#include <limits>

using namespace scalify::rt;

namespace {
/// Copies rows x cols elements between matrices of the given strides, in tiles
/// that fit the cache. A step of 2 is from one part of a complex number to the
/// same of the next.
template <int sourceStep = 1, int targetStep = 1, typename T>
void transpose(const T *source, int64_t sourceStride, T *target,
               int64_t targetStride, int64_t rows, int64_t cols) {
  constexpr int64_t tile = 16;
  for (int64_t i = 0; i < rows; i += tile)
    for (int64_t j = 0; j < cols; j += tile)
      for (int64_t x = i; x < std::min(i + tile, rows); ++x)
        for (int64_t y = j; y < std::min(j + tile, cols); ++y)
          target[(y * targetStride + x) * targetStep] =
              source[(x * sourceStride + y) * sourceStep];
}

/// The operands of one call, copied, and its work space. The matrix's numbers
/// are `S`, the real ones beside them `T`.
template <typename T, typename S> class Frame {
public:
  Frame(const LapackCall &call, T *floats, int32_t *integers)
      : call(call), floats(floats), integers(integers) {
    for (const LapackOperand &read : call.signature.reads)
      slots[count++] = place(read);
    numReads = count;
    for (const LapackOperand &write : call.signature.writes)
      slots[count++] =
          write.overwrites < 0 ? place(write) : slots[write.overwrites];
    work = reinterpret_cast<S *>(this->floats);
    realWork = reinterpret_cast<T *>(work + call.signature.work);
    integerWork = this->integers;
  }

  void pack(void *const *buffers, int64_t index) {
    for (size_t i = 0; i < numReads; ++i) {
      const LapackOperand &read = call.signature.reads[i];
      if (read.isComplex) {
        in<T, 2>(buffers[0], read, slots[i], index);
        in<T, 2>(buffers[1], read, static_cast<T *>(slots[i]) + 1, index);
      } else if (read.isInteger) {
        in<int32_t>(buffers[0], read, slots[i], index);
      } else {
        in<T>(buffers[0], read, slots[i], index);
      }
      buffers += read.parts();
    }
  }
  void unpack(void *const *buffers, int64_t index) {
    for (const LapackOperand &read : call.signature.reads)
      buffers += read.parts();
    for (size_t i = numReads; i < count; ++i) {
      const LapackOperand &write = call.signature.writes[i - numReads];
      if (write.isComplex) {
        out<T, 2>(buffers[0], write, slots[i], index);
        out<T, 2>(buffers[1], write, static_cast<T *>(slots[i]) + 1, index);
      } else if (write.isInteger) {
        out<int32_t>(buffers[0], write, slots[i], index);
      } else {
        out<T>(buffers[0], write, slots[i], index);
      }
      buffers += write.parts();
    }
  }
  /// True if the routine would read a NaN.
  bool hasNaN();
  /// Sets all results to NaN, and pivots to those of no exchange.
  void fail();
  void invoke();

private:
  template <typename E> static void *take(E *&free, int64_t elements) {
    void *taken = free;
    free += elements;
    return taken;
  }
  void *place(const LapackOperand &operand) {
    return operand.isInteger
               ? take(integers, operand.elements())
               : take(floats, operand.elements() * operand.parts());
  }
  template <typename E, int step = 1>
  static void in(void *buffer, const LapackOperand &operand, void *slot,
                 int64_t index) {
    transpose<1, step>(static_cast<const E *>(buffer) +
                           index * operand.elements(),
                       operand.cols, static_cast<E *>(slot), operand.rows,
                       operand.rows, operand.cols);
  }
  template <typename E, int step = 1>
  static void out(void *buffer, const LapackOperand &operand, void *slot,
                  int64_t index) {
    transpose<step, 1>(static_cast<const E *>(slot), operand.rows,
                       static_cast<E *>(buffer) + index * operand.elements(),
                       operand.cols, operand.cols, operand.rows);
  }

  S *read(size_t i) { return static_cast<S *>(slots[i]); }
  S *write(size_t i) { return static_cast<S *>(slots[numReads + i]); }
  T *realWrite(size_t i) { return static_cast<T *>(slots[numReads + i]); }
  int32_t *integerOf(size_t i) {
    return static_cast<int32_t *>(slots[numReads + i]);
  }
  /// The last result of most routines.
  int32_t *info() { return static_cast<int32_t *>(slots[count - 1]); }

  void factor();
  void reflect();
  void decompose();
  void reduce();
  void diagonalize();
  void joinPairs(T *vectors);

  /// Calls the routine. Fortran takes addresses; the lengths of its texts, each
  /// one letter, come after the other arguments.
  template <typename... Args> void fortran(Args... args) {
    callWith(args..., one, one, one, one);
  }
  template <typename... Args> void callWith(Args... args) {
    reinterpret_cast<void (*)(Args...)>(call.function)(args...);
  }

  static constexpr size_t one = 1;
  const LapackCall &call;
  static constexpr bool isComplex = !std::is_same_v<T, S>;
  T *floats, *realWork;
  S *work;
  int32_t *integers, *integerWork;
  std::array<void *, 9> slots = {};
  size_t count = 0, numReads = 0;
};
} // namespace

template <typename T, typename S> bool Frame<T, S>::hasNaN() {
  const LapackShape &s = call.shape;
  // Substitution keeps a NaN to the unknowns that depend on it.
  if (s.routine == LapackRoutine::Trsm || s.routine == LapackRoutine::Gtsv)
    return false;
  // The triangle of a symmetric matrix that is read, or that of reflectors.
  size_t option = s.routine == LapackRoutine::Syevd ? 1 : 0;
  bool isSymmetric = s.routine == LapackRoutine::Potrf ||
                     s.routine == LapackRoutine::Syevd ||
                     s.routine == LapackRoutine::Sytrd;
  bool isLower =
      s.routine == LapackRoutine::Orgqr || (isSymmetric && s.has(option, 'L'));
  bool isUpper = isSymmetric && s.has(option, 'U');
  bool found = false;
  for (size_t i = 0; i < numReads; ++i) {
    const LapackOperand &operand = call.signature.reads[i];
    if (operand.isInteger)
      continue;
    const S *column = read(i);
    for (int64_t col = 0; col < operand.cols; ++col, column += operand.rows) {
      bool isMatrix = operand.rank == 2;
      int64_t begin = isMatrix && isLower ? std::min(col, operand.rows) : 0;
      int64_t end =
          isMatrix && isUpper ? std::min(col + 1, operand.rows) : operand.rows;
      for (int64_t row = begin; row < end; ++row)
        found |= column[row] != column[row];
    }
  }
  return found;
}

template <typename T, typename S> void Frame<T, S>::fail() {
  for (size_t i = numReads; i < count; ++i) {
    const LapackOperand &write = call.signature.writes[i - numReads];
    auto *numbers = static_cast<int32_t *>(slots[i]);
    for (int64_t j = 0; write.isInteger && j < write.elements(); ++j)
      numbers[j] = write.rank == 0 ? 0 : static_cast<int32_t>(j + 1);
    if (!write.isInteger)
      std::fill_n(static_cast<T *>(slots[i]), write.elements() * write.parts(),
                  std::numeric_limits<T>::quiet_NaN());
  }
}

template <typename T, typename S> void Frame<T, S>::factor() {
  const LapackShape &s = call.shape;
  const char *letters = s.letters.data();
  auto m = int32_t(s.m), n = int32_t(s.n), k = int32_t(s.k);
  int32_t rows = std::max(m, 1), cols = std::max(n, 1);
  switch (s.routine) {
  case LapackRoutine::Potrf:
    return fortran(letters, &n, read(0), &cols, info());
  case LapackRoutine::Trsm: {
    S alpha = 1;
    int32_t *side = s.has(0, 'L') ? &rows : &cols;
    return fortran(letters, letters + 1, letters + 2, letters + 3, &m, &n,
                   &alpha, read(0), side, read(1), &rows);
  }
  case LapackRoutine::Gtsv:
    // The first of JAX's lower diagonal is outside the matrix.
    return fortran(&n, &k, read(0) + (n > 0), read(1), read(2), read(3), &cols,
                   info());
  default: // Getrf
    return fortran(&m, &n, read(0), &rows, integerOf(1), info());
  }
}

template <typename T, typename S> void Frame<T, S>::reflect() {
  const LapackShape &s = call.shape;
  auto m = int32_t(s.m), n = int32_t(s.n), k = int32_t(s.k);
  int32_t rows = std::max(m, 1), length = int32_t(call.signature.work);
  int32_t failed = 0; // only wrong arguments fail
  switch (s.routine) {
  case LapackRoutine::Geqrf:
    return fortran(&m, &n, read(0), &rows, write(1), work, &length, &failed);
  case LapackRoutine::Geqp3:
    if constexpr (isComplex)
      return fortran(&m, &n, read(0), &rows, integerOf(1), write(2), work,
                     &length, realWork, &failed);
    return fortran(&m, &n, read(0), &rows, integerOf(1), write(2), work,
                   &length, &failed);
  default: // Orgqr
    return fortran(&m, &n, &k, read(0), &rows, read(1), work, &length, &failed);
  }
}

template <typename T, typename S> void Frame<T, S>::decompose() {
  const LapackShape &s = call.shape;
  const char *letters = s.letters.data();
  auto m = int32_t(s.m), n = int32_t(s.n);
  int32_t rows = std::max(m, 1), length = int32_t(call.signature.work);
  if (s.routine == LapackRoutine::Syevd) {
    auto integerLength = int32_t(call.signature.integerWork);
    auto realLength = int32_t(call.signature.realWork);
    T *values = realWrite(s.has(0, 'V') ? 1 : 0);
    if constexpr (isComplex)
      return fortran(letters, letters + 1, &n, read(0), &rows, values, work,
                     &length, realWork, &realLength, integerWork,
                     &integerLength, info());
    return fortran(letters, letters + 1, &n, read(0), &rows, values, work,
                   &length, integerWork, &integerLength, info());
  }
  bool hasVectors = !s.has(0, 'N');
  S *u = hasVectors ? write(1) : work, *vt = hasVectors ? write(2) : work;
  int32_t vtRows =
      hasVectors ? std::max(int32_t(call.signature.writes[2].rows), 1) : 1;
  int32_t uRows = hasVectors ? rows : 1;
  bool isDivided = s.routine == LapackRoutine::Gesdd;
  T *values = realWrite(0);
  if constexpr (isComplex) {
    if (isDivided)
      return fortran(letters, &m, &n, read(0), &rows, values, u, &uRows, vt,
                     &vtRows, work, &length, realWork, integerWork, info());
    return fortran(letters, letters, &m, &n, read(0), &rows, values, u, &uRows,
                   vt, &vtRows, work, &length, realWork, info());
  }
  if (isDivided)
    return fortran(letters, &m, &n, read(0), &rows, values, u, &uRows, vt,
                   &vtRows, work, &length, integerWork, info());
  fortran(letters, letters, &m, &n, read(0), &rows, values, u, &uRows, vt,
          &vtRows, work, &length, info());
}

template <typename T, typename S> void Frame<T, S>::reduce() {
  const LapackShape &s = call.shape;
  const char *letters = s.letters.data();
  auto n = int32_t(s.n);
  int32_t rows = std::max(n, 1), length = int32_t(call.signature.work);
  if (s.routine == LapackRoutine::Sytrd)
    return fortran(letters, &n, read(0), &rows, realWrite(1), realWrite(2),
                   write(3), work, &length, info());
  int32_t low = 1;
  if (s.routine == LapackRoutine::Gehrd)
    return fortran(&n, &low, &n, read(0), &rows, write(1), work, &length,
                   info());
  // Gees, without a choice of eigenvalues.
  bool hasVectors = s.has(0, 'V');
  size_t next = hasVectors ? 2 : 1;
  int32_t chosen = 0;
  void *none = nullptr;
  S *vectors = hasVectors ? write(1) : work;
  if constexpr (isComplex)
    return fortran(letters, letters + 1, none, &n, read(0), &rows, &chosen,
                   write(next), vectors, &rows, work, &length, realWork, none,
                   info());
  fortran(letters, letters + 1, none, &n, read(0), &rows, &chosen, write(next),
          write(next + 1), vectors, &rows, work, &length, none, info());
}

/// Makes complex columns of a real matrix's eigenvectors, in their place. Of a
/// pair of conjugate eigenvalues LAPACK returns the real and the imaginary part
/// of the first one's vector.
template <typename T, typename S> void Frame<T, S>::joinPairs(T *vectors) {
  int64_t n = call.shape.n;
  const T *imaginary = realWrite(1);
  T *pair = realWork;
  // The last column first, since a complex one lies further behind.
  for (int64_t last = n - 1; last >= 0;) {
    bool isPair = last > 0 && imaginary[last] != 0;
    int64_t first = isPair ? last - 1 : last;
    std::copy_n(vectors + first * n, isPair ? 2 * n : n, pair);
    for (int64_t column = first; column <= last; ++column)
      for (int64_t row = 0; row < n; ++row) {
        T part = isPair ? pair[n + row] : T(0);
        vectors[2 * (column * n + row)] = pair[row];
        vectors[2 * (column * n + row) + 1] = column == first ? part : -part;
      }
    last = first - 1;
  }
}

template <typename T, typename S> void Frame<T, S>::diagonalize() {
  const LapackShape &s = call.shape;
  const char *letters = s.letters.data();
  auto n = int32_t(s.n);
  int32_t rows = std::max(n, 1), length = int32_t(call.signature.work);
  size_t next = isComplex ? 1 : 2;
  S *left = s.has(0, 'V') ? write(next++) : work;
  S *right = s.has(1, 'V') ? write(next++) : work;
  if constexpr (isComplex) {
    fortran(letters, letters + 1, &n, read(0), &rows, write(0), left, &rows,
            right, &rows, work, &length, realWork, info());
  } else {
    fortran(letters, letters + 1, &n, read(0), &rows, write(0), write(1), left,
            &rows, right, &rows, work, &length, info());
    if (s.has(0, 'V'))
      joinPairs(left);
    if (s.has(1, 'V'))
      joinPairs(right);
  }
}

template <typename T, typename S> void Frame<T, S>::invoke() {
  switch (call.shape.routine) {
  case LapackRoutine::Potrf:
  case LapackRoutine::Trsm:
  case LapackRoutine::Getrf:
  case LapackRoutine::Gtsv:
    return factor();
  case LapackRoutine::Geqrf:
  case LapackRoutine::Geqp3:
  case LapackRoutine::Orgqr:
    return reflect();
  case LapackRoutine::Syevd:
  case LapackRoutine::Gesdd:
  case LapackRoutine::Gesvd:
    return decompose();
  case LapackRoutine::Sytrd:
  case LapackRoutine::Gehrd:
  case LapackRoutine::Gees:
    return reduce();
  case LapackRoutine::Geev:
    return diagonalize();
  }
}

template <typename T, typename S>
static void runTask(const LapackCall &call, void *const *buffers,
                    int32_t *integers, int64_t task) {
  const LapackSignature &signature = call.signature;
  int64_t last = signature.buffers();
  Frame<T, S> frame(call,
                    static_cast<T *>(buffers[last]) + task * signature.floats(),
                    integers);
  int64_t batch = call.shape.batch;
  int64_t begin =
      batch / call.tasks * task + std::min(task, batch % call.tasks);
  int64_t end = begin + batch / call.tasks + (task < batch % call.tasks);
  for (int64_t index = begin; index < end; ++index) {
    frame.pack(buffers, index);
    // OpenBLAS's `scal` takes a NaN for a zero: factors would be finite.
    frame.hasNaN() ? frame.fail() : frame.invoke();
    frame.unpack(buffers, index);
  }
}

void *scalify::rt::findLapackRoutine(const LapackShape &shape, bool isDouble) {
  std::string name(traitsOf(shape.routine).name);
  if (!shape.isComplex)
    return Blas::get().find(((isDouble ? "d" : "s") + name + "_").c_str());
  // Symmetric is Hermitian there, and orthogonal unitary.
  for (auto [real, complex] : {std::pair("sy", "he"), std::pair("or", "un")})
    if (name.compare(0, 2, real) == 0)
      name.replace(0, 2, complex);
  return Blas::get().find(((isDouble ? "z" : "c") + name + "_").c_str());
}

void scalify::rt::runLapackTask(const LapackCall &call, void *const *buffers,
                                int32_t *integers, int64_t task) {
  auto run =
      call.shape.isComplex
          ? (call.isDouble ? runTask<double, std::complex<double>>
                           : runTask<float, std::complex<float>>)
          : (call.isDouble ? runTask<double, double> : runTask<float, float>);
  run(call, buffers, integers, task);
}
