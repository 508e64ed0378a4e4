#!/usr/bin/env bash
# Sets up and builds Scalify on Debian 12: packages, Python environment, build.
#
#   scripts/setup.sh [packages] [python] [build]     all three by default
#
# `package` in place of `build` builds what a wheel has: all but the tests.
#
# Each step skips finished work: packages by asking dpkg, the environment by a hash of
# requirements.txt, the build by ninja. Logs are under build/logs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

missing_packages() {
  grep -vE '^[[:space:]]*(#|$)' scripts/packages.txt | while read -r package; do
    status=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    case $status in ii*) ;; *) printf '%s ' "$package" ;; esac
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo ${CI:+-n} env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

packages() {
  command -v dpkg-query >/dev/null ||
    fail "this is no Debian system (dpkg-query is missing)" \
      "Install what scripts/packages.txt names by hand, then run: scripts/setup.sh python build"
  local missing
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    fail "packages are missing and this is neither root nor a machine with sudo; as root:" \
      "apt-get update && apt-get install $missing"
  fi
  say "installing Debian packages: $missing"
  logged apt-update as_root apt-get -o DPkg::Lock::Timeout=300 update
  # shellcheck disable=SC2086 # one word a package
  logged apt-install as_root apt-get -o DPkg::Lock::Timeout=300 install -y \
    --no-install-recommends $missing
}

# Prints the first Python 3.11 with venv and headers.
find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.11 /usr/bin/python3.11}; do
    "$candidate" - 2>/dev/null <<'PY' && { command -v "$candidate"; return 0; }
import ensurepip, os, sys, sysconfig, venv
headers = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(0 if sys.version_info >= (3, 11) and os.path.exists(headers) else 1)
PY
  done
  return 1
}

python() {
  local stamp=.venv/requirements.stamp want
  want=$(fingerprint requirements.txt)
  [ "$(cat "$stamp" 2>/dev/null)" != "$want" ] || return 0
  if [ ! -x .venv/bin/python ]; then
    local interpreter
    interpreter=$(find_python) ||
      fail "no Python 3.11 with venv and headers was found" \
        "Install python3-dev and python3-venv, or name one: PYTHON=/path/to/python3.11 make setup"
    say "creating .venv with $interpreter"
    logged venv "$interpreter" -m venv .venv
  fi
  say "installing Python packages: $(sed -E 's/ *#.*//; /^$/d' requirements.txt | tr '\n' ' ')"
  logged pip .venv/bin/python -m pip install --disable-pip-version-check -r requirements.txt
  printf '%s\n' "$want" >"$stamp"
}

# A compile of MLIR code takes up to 1.5 GB: fewer jobs if memory is short.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
  [ "$memory" -ge 1 ] || memory=1
  echo $((cores < memory ? cores : memory))
}

build() { build_targets all; }

package() { build_targets scalify-package; }

build_targets() {
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  local stamp=build/configure.stamp want
  want=$(fingerprint CMakePresets.json)
  if [ ! -f build/build.ninja ] || [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
    say "configuring (cmake --preset release)"
    logged configure cmake --preset release
    printf '%s\n' "$want" >"$stamp"
  fi
  say "building (log in $logs/build.log)"
  logged build ninja -C build -j"${JOBS:-$(jobs)}" "$@"
}

started=$SECONDS
[ $# -gt 0 ] || set -- packages python build
for step in "$@"; do
  case $step in
    packages | python | build | package) "$step" ;;
    *) fail "unknown step '$step': it is one of packages, python, build, package" ;;
  esac
done
say "$* ready ($((SECONDS - started)) s)"
