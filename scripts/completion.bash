# Completion of scalify and its programs in bash, and in zsh after `autoload -U bashcompinit &&
# bashcompinit`: source this file. Options are what --help prints, subcommands what `scalify --help`
# prints; other words are files.
_scalify() {
  local word=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]} words
  COMPREPLY=()
  if [[ ${program##*/} == scalify ]]; then
    if [[ $COMP_CWORD == 1 ]]; then
      words=$("$program" --help 2>/dev/null | sed -nE 's/^  ([a-z]+) .*/\1/p')
      COMPREPLY=($(compgen -W "$words" -- "$word"))
      return
    fi
    set -- "$program" "${COMP_WORDS[1]}"
  else
    set -- "$program"
  fi
  [[ $word == -* ]] || return
  # LLVM's dash touches a name that is as wide as its column.
  words=$("$@" --help 2>/dev/null |
    sed -nE 's/^ +-., (--)/ \1/; s/^( +-[^ ]+)-   .*/\1/; s/^ +(-[^ =,]+).*/\1/p')
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _scalify scalify scalify-opt scalify-compile scalify-run scalify-plan
