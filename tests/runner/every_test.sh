#!/usr/bin/env bash
# Compares the tests that the processes of a run of ctest recorded (tests/runner/run_tests.h) with the tests there are.
#   every_test.sh count PROGRAMS      how many tests and processes there are
#   every_test.sh ran RECORDS PROGRAMS   fails where a test did not run, or ran twice
#   ETNA_EMULATOR   the command that runs programs of another processor or system
# PROGRAMS holds a line PROGRAM=PROCESS,PROCESS... for each program; the folder RECORDS a file for each process.
set -euo pipefail
export LC_ALL=C
mode=$1 programs=${*: -1} records=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra emulator <<<"${ETNA_EMULATOR:-}"
failed=0
complain() { echo "every_test: $*" >&2; failed=1; }

tests=0 processes=0
: >"$work/counts"
while IFS='=' read -r program list; do
  IFS=',' read -ra names <<<"$list"
  "${emulator[@]}" "$program" --gtest_list_tests |
    awk '/^[^ ]/ {suite = $1; next} !/DISABLED_/ {print suite $1}' | sort >"$work/wanted"
  tests=$((tests + $(wc -l <"$work/wanted"))) processes=$((processes + ${#names[@]}))
  [[ $mode == ran ]] || continue
  : >"$work/ran"
  for name in "${names[@]}"; do
    if [[ ! -f $records/$name || $program -nt $records/$name ]]; then
      complain "$name did not run to its end since ${program##*/} was built"
    else
      grep -v '^#' "$records/$name" >>"$work/ran" || true
      grep '^#' "$records/$name" >>"$work/counts" || true
    fi
  done
  sort "$work/ran" >"$work/sorted"
  while IFS= read -r line; do
    complain "${program##*/}: did not run: $line"
  done < <(comm -23 "$work/wanted" "$work/sorted")
  while IFS= read -r line; do
    complain "${program##*/}: ran more than once: $line"
  done < <(comm -13 "$work/wanted" "$work/sorted")
done <"$programs"
echo "$tests tests in $processes processes"
awk -F': ' '
  {sum[$1] += $2; all += $2}
  END {for (name in sum) print sum[name], substr(name, 3); if (all) print all, "comparisons in all"}
' "$work/counts" | sort -rn
exit $failed
