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

# The token of a text, signed: with a wrong checksum, the program says the right one.
sign() { echo "$1#$("$lockstep" replay "$1#0" 2>&1 | grep -oE 'write #[0-9a-f]{8}' | cut -c8-)"; }

# all_equal FILE [answered]: each token of FILE, a line of its own, is equal or explained; `answered`: and not by a refusal,
# which may be due. One run judges them all, so that they share processes.
all_equal() {
  expect 0 '^exit 0' run --corpus "$1" --cases 1 --db judged.db "${quiet[@]}"
  python3 - "$@" >out.txt 2>&1 <<'PY' || fail "not every case of $1 is equal or explained"
import sqlite3, sys

try:
    judged = sqlite3.connect("judged.db").execute("SELECT token, verdict, explanation FROM v_cases WHERE how = 'corpus'")
except sqlite3.OperationalError:
    judged = []  # the run ended before it had a store
told = {token: (verdict, why) for token, verdict, why in judged}
tokens = [line.strip() for line in open(sys.argv[1]) if line.startswith("v")]
wrong = []
for token in tokens:
    verdict, why = told.get(token, ("not judged", ""))
    if ";numerics=fast;" in token:
        verdict, why = "of the fast lane, which this run is not", ""
    if not verdict.startswith(("equal", "explained")) or ("answered" in sys.argv and why.startswith("refused")):
        wrong.append(f"{verdict}: {token}\n  {why}")
print("\n".join(wrong) or f"{len(tokens)} cases")
sys.exit(bool(wrong) or not tokens)
PY
}

finish() {
  [ $failures = 0 ] && echo "$1"
  exit $((failures > 0))
}
