# SPDX-License-Identifier: Apache-2.0
# For tests of the program: source it with the program's path as $1; end with `finish "what held"`.
lockstep=$1
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
failures=0
quiet=(--report "" --jobs 2)

fail() {
  echo "FAILED: $1"
  sed 's/^/    /' out.txt | head -20
  failures=$((failures + 1))
}

# expect CODE PATTERN ARGS...: the program ends with CODE and says PATTERN (an extended regular expression).
# $as, if set, is what runs the program.
expect() {
  local code=$1 pattern=$2 got
  shift 2
  ${as:-} "$lockstep" "$@" >out.txt 2>&1 </dev/null
  got=$?
  if [ $got -ne "$code" ] || ! grep -qE -- "$pattern" out.txt; then
    fail "lockstep $*; wanted exit $code and /$pattern/, got exit $got and:"
  fi
}

finish() {
  [ $failures = 0 ] && echo "$1"
  exit $((failures > 0))
}
