#!/usr/bin/env bash
# Runs all checks that need a GPU and writes what they found as JSON.
#
#   integration/gpu/run.sh [--dry-run] [--only PATTERN] [--folder DIR] [OUT]
#
# prepare.py has filled out/gpu before, where the compiler is; here are CUDA, Python with NumPy and
# ml_dtypes, and for some checks jax. The dry run needs no GPU: calls are recorded.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=out/gpu device=cuda out='' only='*'
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) device=null ;;
    --only) only=${2:?--only takes a pattern} && shift ;;
    --folder) folder=${2:?--folder takes a folder} && shift ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0" && exit 0 ;;
    -*) echo "run.sh: no option is called '$1'" >&2 && exit 2 ;;
    *) out=$1 ;;
  esac
  shift
done
[ -f "$folder/plan.json" ] || {
  echo "run.sh: no $folder/plan.json: run integration/gpu/prepare.py where the compiler is" >&2
  exit 2
}
python=${PYTHON:-python3}
build=${SCALIFY_GPU_BUILD:-out/gpu-build}
mkdir -p "$build"

# cuDNN's attention is built in where its headers are: PyPI's nvidia-cudnn-cu13 (or a copy of torch)
# and nvidia-cudnn-frontend. Without, checks with attentions fail by an error that says so.
wheels=$("$python" -c 'import nvidia; print(nvidia.__path__[0])' 2>/dev/null || true)
if [ -n "$wheels" ]; then
  export CPLUS_INCLUDE_PATH="$wheels/cudnn/include:${wheels%/nvidia}/include:$wheels/cu13/include:${CUDA_HOME:-/usr/local/cuda}/include${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}"
fi

# By cmake, which knows whether a library is up to date; it asks for packages of the system.
by_cmake() {
  command -v cmake >/dev/null &&
    cmake -S runtime -B "$build/runtime" >"$build/cmake.log" 2>&1 &&
    cmake --build "$build/runtime" --target scalify_runtime_shared -j "$(nproc)" \
      >>"$build/cmake.log" 2>&1
}

# By the compiler alone, with the header that prepare.py copied. OpenBLAS multiplies on a CPU only.
compile_one() {
  "${CXX:-g++}" -std=c++17 -O2 -DNDEBUG -fPIC -fvisibility=hidden -fvisibility-inlines-hidden \
    -DSCALIFY_RUNTIME_VERSION="\"$version\"" -DSCALIFY_OPENBLAS_PATH='"libopenblas.so.0"' \
    -Iruntime -Iruntime/include -I"$folder/include" -c "$1" \
    -o "$build/runtime/objects/${1//\//_}.o"
}

by_compiler() {
  mkdir -p "$build/runtime/objects"
  version=$(sed -nE 's/^project\(scalify_runtime .*VERSION ([0-9.]+)\)/\1/p' runtime/CMakeLists.txt)
  export version folder build
  export -f compile_one
  find runtime -name '*.cpp' -not -path 'runtime/tools/*' -not -path 'runtime/comm/mpi/*' -print0 |
    xargs -0 -P "$(nproc)" -n 1 bash -c 'compile_one "$@"' _
  "${CXX:-g++}" -shared -o "$build/runtime/libscalify_runtime.so" \
    "$build/runtime/objects/"*.o -pthread -ldl
}

# Where CUDA is: a toolkit, or PyPI's wheels. The runtime takes its cuBLASLt from there too, so
# that both sides of a comparison have one.
find_cuda() {
  for cuda in "${CUDA_HOME:-/usr/local/cuda}" "$wheels/cu13"; do
    for libraries in "$cuda/lib64" "$cuda/lib"; do
      [ ! -e "$libraries/libcublasLt.so.13" ] || return 0
    done
  done
  return 1
}

build_bench() {
  "${CXX:-g++}" -std=c++17 -O2 -I"$cuda/include" integration/gpu/gemm_bench.cpp \
    -o "$build/gemm_bench" -L"$libraries" -Wl,-rpath,"$libraries" -l:libcublasLt.so.13 \
    -l:libcudart.so.13 >"$build/bench.log" 2>&1
}

if ! by_cmake; then
  echo "run.sh: no runtime by cmake ($build/cmake.log), so by the compiler alone"
  by_compiler
fi
arguments=(--folder "$folder" --library "$build/runtime/libscalify_runtime.so" --device "$device" --only "$only")
if [ "$device" = cuda ]; then
  if find_cuda && export SCALIFY_CUDA_LIBRARIES="${SCALIFY_CUDA_LIBRARIES:-$libraries${wheels:+:$wheels}}" && build_bench; then
    arguments+=(--bench "$build/gemm_bench")
  else
    echo "run.sh: no gemm_bench ($build/bench.log); what needs it is skipped"
  fi
fi
[ -z "$out" ] || arguments+=(--out "$out")
exec "$python" integration/gpu/check.py "${arguments[@]}"
