#!/usr/bin/env bash
# Makes build/wheels/scalify-*-manylinux*.whl: the package and the libraries that it needs, LLVM's
# too, under names that no other package's can meet. `make wheel` builds first.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 PATH=$PWD/.venv/bin:$PATH
rm -rf build/wheels build/wheels-bare
# The same build tree, so its tests stay on; its targets are the package's.
SCALIFY_TESTS=ON logged wheel python -m pip wheel --disable-pip-version-check . --no-deps \
  --no-build-isolation --config-settings build-dir=build --wheel-dir build/wheels-bare
say "adding the libraries that it needs (minutes)"
# MPI is the cluster's own, and opened only by the transport "mpi".
logged auditwheel auditwheel repair --exclude 'libmpi.so*' --plat manylinux_2_36_x86_64 \
  --wheel-dir build/wheels build/wheels-bare/*.whl
for wheel in build/wheels/*.whl; do
  say "$wheel: $(($(stat -c %s "$wheel") / 1000000)) MB"
done
