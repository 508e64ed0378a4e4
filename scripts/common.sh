# Functions of the scripts in this folder: messages, and commands that log to a file.
# Source it from a script whose working directory is the repository's root.

logs=build/logs

say() { printf '%s\n' "scalify: $*"; }

fail() {
  printf '%s\n' "scalify: error: $1" >&2
  shift
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

# logged NAME COMMAND... runs the command with its output in build/logs/NAME.log. Every 20
# seconds it shows the log's last line, as progress of a long step. If the command fails, it
# shows the log's tail and ends the script.
logged() {
  local name=$1 log="$logs/$1.log" pid waited=0 started=$SECONDS
  shift
  mkdir -p "$logs"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    waited=$((waited + 1))
    if [ $((waited % 100)) = 0 ]; then
      printf '  %4ds  %s\n' "$((SECONDS - started))" "$(tail -n 1 "$log" | tr -d '\r' | cut -c1-100)"
    fi
  done
  trap - INT TERM
  if ! wait "$pid"; then
    printf '\n' >&2
    tail -n 40 "$log" >&2
    fail "step '$name' failed; the whole log is in $log"
  fi
}

# fingerprint FILE... prints one hash of the files' contents.
fingerprint() { cat "$@" | sha256sum | cut -c1-16; }
