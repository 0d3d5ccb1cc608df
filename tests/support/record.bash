# SPDX-License-Identifier: Apache-2.0
# For the run scripts of fuzz targets and faults: the line that a run adds to the table at the end of docs/robustness.md.

# names... as "`a`, `b`", or "none"
listed_names() {
  [ $# -gt 0 ] || { echo none; return; }
  local list
  list=$(printf '`%s`, ' "$@")
  echo "${list%, }"
}

# $1 commit, $2 machine, $3 command, $4 report's last line "total: N cases, N seconds, N findings", then the names of
# what the run left out; fails where there is no total
record_line() {
  local commit=$1 machine=$2 command=$3 total=$4
  shift 4
  [[ "$total" =~ ^total:\ ([0-9]+)\ cases,\ ([0-9]+)\ seconds,\ ([0-9]+)\ findings$ ]] || return 1
  printf '| %s | %s | %s | `%s` | %s | %s | %s | %s |\n' "$(date -u +%F)" "$commit" "$machine" "$command" \
    "$(listed_names "$@")" "${BASH_REMATCH[@]:1:3}"
}

# $1 repository
commit_of() { git -C "$1" describe --always --dirty 2> /dev/null || echo unknown; }
