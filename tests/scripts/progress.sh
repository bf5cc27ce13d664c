#!/usr/bin/env bash
# progress.sh SCRIPTS: what `progress` shows of a build and what it keeps, in a pipe and on a terminal.
set -euo pipefail
. "$1/progress.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() {
    echo "-- Configuring done"
    echo "[1/2] Re-running CMake..."
    for i in $(seq 1 40); do echo "[$i/40] Building part_$i.o"; done
    echo "part_7.cpp: warning: [1/2] is no progress"
}
equal() {
    [ "$2" = "$3" ] || { printf '%s should be\n%q\nand is\n%q\n' "$1" "$3" "$2"; exit 1; }
}

echo "an older line" >"$work/log"
equal "the log" "$(build | progress "$work/log" >"$work/shown"; cat "$work/log")" "$(echo "an older line"; build)"
equal "a pipe's line" "$(sed -n 3p "$work/shown")" "[8/40] 20 %"
equal "the number of a pipe's lines" "$(wc -l <"$work/shown")" 11
equal "a pipe's last line" "$(tail -n 1 "$work/shown")" "[40/40] 100 %"

# `script` gives it a terminal, with the shell that knows these functions; the last thing it does there is to clear its line.
export -f build progress
export work
SHELL="$BASH" script -qec 'bash -c "build | progress $work/log"' /dev/null </dev/null >"$work/terminal"
equal "a terminal's lines" "$(tr '\r' '\n' <"$work/terminal" | grep -c '%')" 40
equal "a terminal's line feeds" "$(tr -cd '\n' <"$work/terminal" | wc -c)" 0
equal "a terminal's end" "$(tail -c 4 "$work/terminal")" "$(printf '\r\033[K')"

# A build that fails is a failure.
fails() { build | progress "$work/log" >/dev/null; }
build() { echo "[1/2] Building one"; return 3; }
! fails || { echo "a build that fails should not pass"; exit 1; }
