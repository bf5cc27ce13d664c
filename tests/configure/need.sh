#!/usr/bin/env bash
# usage: need.sh SCRIPT: what scripts/need.sh cannot get is named and left out, but in CI it ends the script.
set -euo pipefail
script=$1
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

fail() {
    echo "$1"
    exit 1
}
# under CI COMMAND...: what the command says in a shell with the script, whose python3 has no pip, and whose apt has nothing.
under() {
    local ci=$1
    shift
    PATH="$work:$PATH" CI=$ci CUDA_HOME=$work bash -euc '. "$0"; "$@"; echo "goes on, left out: ${left_out[*]}"' "$script" "$@" 2>&1
}
for name in python3 apt-get sudo; do
    printf '#!/bin/sh\nexit 1\n' >"$work/$name"
    chmod +x "$work/$name"
done

said=$(under "" leave_out "no such thing") || fail "what is left out ends the script: $said"
[[ $said == *"goes on, left out: no such thing" ]] || fail "what is left out is not told: $said"
! said=$(under true leave_out "no such thing") || fail "CI goes on: $said"
[[ $said == "error: no such thing; in CI nothing is left out" ]] || fail "CI says: $said"

! under true need no-such-package >/dev/null || fail "CI goes on without a package"

# Without a compiler, and without the right to install one, the script ends after it has said what to install.
mkdir "$work/tools"
for name in bash dpkg-query grep id; do ln -s "$(command -v "$name" || echo /bin/true)" "$work/tools"; done
! said=$(PATH="$work/tools" CI= bash -euc '. "$0"; id() { echo 7; }; need no-such-package; echo goes on' "$script" 2>&1) || fail "goes on: $said"
[[ $said == *" run as root: apt-get install no-such-package"$'\n'"error: without g++ nothing can be built" ]] || fail "it says: $said"

# An NCCL that is too old is none, one that is not serves.
printf '' >"$work/cuda_runtime.h"
echo '#define NCCL_VERSION_CODE 22703' >"$work/nccl.h"
! under "" has_nccl "$work" >/dev/null || fail "NCCL 2.27.3 is taken"
echo '#define NCCL_VERSION_CODE 22809' >"$work/nccl.h"
under "" has_nccl "$work" >/dev/null || fail "NCCL 2.28.9 is not taken"

if ! under "" has_nccl "$work/none" >/dev/null; then
    said=$(under "" find_nccl "$work/wheels") || fail "without NCCL's headers nothing goes on: $said"
    [[ $said == *"goes on, left out: "*"no NCCL engine: there is no nccl.h of 2.28.9 or later"* ]] || fail "NCCL is left out unseen: $said"
    ! said=$(under true find_nccl "$work/wheels") || fail "CI goes on without NCCL: $said"
fi

# Python's packages: without Python the package is left out, a download that fails once is tried again, and what is there is taken.
find='find_python "$work/venv"; echo "settings: ${python_settings[*]}"'
export work
said=$(under "" eval "$find") || fail "without Python nothing goes on: $said"
[[ $said == *"settings: -DRANKMESH_PYTHON=OFF"*"goes on, left out: "*"no Python package: "* ]] || fail "Python is left out unseen: $said"
! said=$(under true eval "$find") || fail "CI goes on without Python: $said"
cat >"$work/python3" <<'END'
#!/bin/sh
echo "$*" >>"$work/calls"
for folder; do :; done
[ "$3" != --clear ] || rm -rf "$folder"/*
mkdir -p "$folder/bin" && cp "$work/pip" "$folder/bin/python"
END
cat >"$work/pip" <<'END'
#!/bin/sh
echo "$*" >>"$work/calls"
case "$*" in *--no-index*) [ -e "$work/fetched" ] ;; *) [ -e "$work/failed" ] && touch "$work/fetched" || { touch "$work/failed"; exit 1; } ;; esac
END
chmod +x "$work/pip"
for wanted in 4 1; do
    printf '' >"$work/calls"
    said=$(under true eval "$find") || fail "a download that fails once is not tried again: $said"
    [[ $said == *"settings: "$'\n'"goes on, left out: " ]] || fail "with Python there are settings: $said"
    [ "$(wc -l <"$work/calls")" = $wanted ] || fail "instead of $wanted calls: $(cat "$work/calls")"
done
# A wheel that is new in the list is added to what is there, and another's environment is not touched through a link.
rm "$work/fetched"
touch "$work/venv/kept"
under true eval "$find" >/dev/null || fail "a new wheel ends it"
[ -e "$work/venv/kept" ] || fail "a new wheel empties the environment"
rm "$work/fetched"
mkdir "$work/anothers"
touch "$work/anothers/kept"
ln -sfn anothers "$work/linked"
under true find_python "$work/linked" >/dev/null || fail "a link to another's environment ends it"
[ -e "$work/anothers/kept" ] || fail "another's environment is emptied through a link"

# Optional packages: unless they are to be fetched, one line names what is not tested, and the command; torch's build for the CPU comes first.
mkdir -p "$work/lacking/bin"
cat >"$work/lacking/bin/python" <<'END'
#!/bin/sh
echo "$*" >>"$work/calls"
case "$*" in *" install "*) [ -e "$work/index" ] && case "$*" in *+cpu) [ -e "$work/cpu" ] ;; esac ;; *) false ;; esac
END
chmod +x "$work/lacking/bin/python"
find='find_optional "$work/lacking"'
printf '' >"$work/calls"
said=$(under "" eval "fetch=OFF; $find") || fail "without optional packages nothing goes on: $said"
[[ $said == *"left out: not tested: rankmesh.torch, "*", rankmesh.jax; ./test --torch fetches what tests them" ]] || fail "it says: $said"
! grep -q " install " "$work/calls" || fail "it fetches unasked: $(cat "$work/calls")"
! said=$(under true eval "fetch=ON; $find") || fail "CI goes on without optional packages: $said"
touch "$work/index"
said=$(under "" eval "fetch=ON; $find")
[[ $said == *"pip finds no torch==2."*"PIP_EXTRA_INDEX_URL"*"left out: " ]] || fail "of torch for CUDA it says: $said"
touch "$work/cpu"
printf '' >"$work/calls"
said=$(under true eval "fetch=ON; $find") || fail "CI does not fetch: $said"
[ "$(grep -c " install -q torch==" "$work/calls")" = 1 ] || fail "torch is fetched twice: $(cat "$work/calls")"
