#!/usr/bin/env bash
# Runs all checks that need a GPU and writes their results as JSON.
#
#   integration/gpu/run.sh [--dry-run] [--seconds N] [--only PATTERN] [--again] [--folder DIR] [OUT]
#   integration/gpu/run.sh --build [--folder DIR]
#
# Requires out/gpu, which prepare.py writes on a machine with the compiler. This machine needs CUDA,
# Python with NumPy and ml_dtypes, and for some checks jax. A repeated call resumes, for example
# after --seconds. The dry run needs no GPU: calls are recorded. --build only compiles the runtime,
# which saves a minute on the machine with the GPU: a copied out/gpu-build is used unchanged.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=out/gpu device=cuda out='' only='*' seconds='' again='' build_only=''
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) device=null ;;
    --again) again=--again ;;
    --build) build_only=1 ;;
    --seconds) seconds=${2:?--seconds takes a number} && shift ;;
    --only) only=${2:?--only takes a pattern} && shift ;;
    --folder) folder=${2:?--folder takes a folder} && shift ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0" && exit 0 ;;
    -*) echo "run.sh: no option is called '$1'" >&2 && exit 2 ;;
    *) out=$1 ;;
  esac
  shift
done
[ -f "$folder/plan.json" ] || { [ -n "$build_only" ] && [ -d "$folder/include" ]; } || {
  echo "run.sh: no $folder/plan.json: run integration/gpu/prepare.py where the compiler is" >&2
  exit 2
}
python=${PYTHON:-python3}
build=${SCALIFY_GPU_BUILD:-out/gpu-build}
mkdir -p "$build"

# The location of CUDA: PyPI's wheels or a toolkit. jax prefers the wheels' libraries, so the
# runtime does too: both sides of a comparison use the same cuBLASLt and cuDNN.
wheels=$("$python" - 2>/dev/null <<'EOF' || true
import os, nvidia
paths = list(nvidia.__path__)
print(next((path for path in paths if os.path.isdir(f"{path}/cudnn")), paths[0]))
EOF
)
toolkit=${CUDA_HOME:-/usr/local/cuda}
find_cuda() {
  for libraries in ${wheels:+"$wheels/cu13/lib"} "$toolkit/lib64" "$toolkit/lib"; do
    [ ! -e "$libraries/libcublasLt.so.13" ] || return 0
  done
  return 1
}
if [ "$device" = cuda ]; then
  if find_cuda; then
    found=$libraries${wheels:+:$wheels}
    export SCALIFY_CUDA_LIBRARIES=${SCALIFY_CUDA_LIBRARIES:-$found}
  fi
  # For libraries that those open themselves, such as NVRTC by cuDNN.
  for part in ${wheels:+"$wheels/cu13/lib" "$wheels/cudnn/lib" "$wheels/nccl/lib"} "$toolkit/lib64"; do
    [ ! -d "$part" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$part
  done
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
fi

# cuDNN's attention is built in if its headers are found: PyPI's nvidia-cudnn-cu13 (or a copy of
# torch) has cuDNN's, and prepare.py copies those of the frontend. Without them, checks with
# attentions fail with an error that says so.
headers=$(cd "$folder" && pwd)/include
export CUDNN_FRONTEND_PATH=${CUDNN_FRONTEND_PATH:-${headers%/include}}
for part in "$headers" ${wheels:+"$wheels/cudnn/include" "${wheels%/nvidia}/include" "$wheels/cu13/include"} \
  "$toolkit/include"; do
  [ ! -d "$part" ] || CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$part
done
export CPLUS_INCLUDE_PATH=${CPLUS_INCLUDE_PATH:-}
[ -z "$wheels" ] || export CUDNN_PATH=${CUDNN_PATH:-$wheels/cudnn}

# By cmake, which rebuilds only outdated files; it needs packages of the system.
by_cmake() {
  command -v cmake >/dev/null &&
    cmake -S runtime -B "$build/runtime" >"$build/cmake.log" 2>&1 &&
    cmake --build "$build/runtime" --target scalify_runtime_shared -j "$(nproc)" \
      >>"$build/cmake.log" 2>&1
}

# By the compiler alone, with the headers that prepare.py copied. OpenBLAS and
# oneDNN are used on a CPU only.
compile_one() {
  "${CXX:-g++}" -std=c++17 -O2 -DNDEBUG -fPIC -fvisibility=hidden -fvisibility-inlines-hidden \
    -DSCALIFY_RUNTIME_VERSION="\"$version\"" -DSCALIFY_OPENBLAS_PATH='"libopenblas.so.0"' \
    -DSCALIFY_DNNL_PATH='"libdnnl.so.2"' \
    -Iruntime -Iruntime/include -I"$folder/include" -c "$1" \
    -o "$build/runtime/objects/${1//\//_}.o"
}

sum_of_sources() {
  { find runtime "$folder/include" -type f -print0 2>/dev/null || true; } | LC_ALL=C sort -z | xargs -0 cat | sha256sum
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
  sum_of_sources >"$build/runtime/sum"
}

build_bench() {
  "${CXX:-g++}" -std=c++17 -O2 integration/gpu/gemm_bench.cpp \
    -o "$build/gemm_bench" -L"$libraries" -Wl,-rpath,"$libraries" -l:libcublasLt.so.13 \
    -l:libcudart.so.13 >"$build/bench.log" 2>&1
}

if [ -n "$build_only" ]; then
  by_compiler
  exit
fi
if [ "$(sum_of_sources)" != "$(cat "$build/runtime/sum" 2>/dev/null)" ] && ! by_cmake; then
  echo "run.sh: no runtime by cmake ($build/cmake.log), so by the compiler alone"
  by_compiler
fi
arguments=(--folder "$folder" --library "$build/runtime/libscalify_runtime.so" --device "$device" --only "$only" ${again:+"$again"})
if [ "$device" = cuda ]; then
  if [ -n "${found:-}" ] && build_bench; then
    arguments+=(--bench "$build/gemm_bench")
  else
    echo "run.sh: no gemm_bench ($build/bench.log); products have nothing beside them"
  fi
fi
# The build's time counts too.
[ -z "$seconds" ] || arguments+=(--seconds "$((seconds - SECONDS))")
[ -z "$out" ] || arguments+=(--out "$out")
exec "$python" integration/gpu/check.py "${arguments[@]}"
