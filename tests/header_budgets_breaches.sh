#!/usr/bin/env bash
# header_budgets_breaches.sh WORK COMPILER [FLAG...]: plants headers in an empty tree, and fails unless header_budgets.sh
# judges them as it should.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$1
shift
compiler=("$@")
expect() {  # expect STATUS TEXT: of the headers and budgets that stand there
    local status=0 said
    said=$(bash "$here/header_budgets.sh" "$work" "$work/budgets" "${compiler[@]}" 2>&1) || status=$?
    [ "$status" -eq "$1" ] && [[ $said == *"$2"* ]] && return
    printf 'expected %s and "%s"; the check ended with %s and said:\n%s\n' "$1" "$2" "$status" "$said"
    exit 1
}
rm -rf "$work"
mkdir -p "$work/include/rankmesh/core" "$work/include/rankmesh/interop"
echo '#include <nobody_has_this>' >"$work/include/rankmesh/interop/other.hpp"
: >"$work/budgets"
expect 1 "no headers"
printf '#pragma once\n#include <cstddef>\nint a;\n' >"$work/include/rankmesh/core/a.hpp"
printf '#include <rankmesh/core/a.hpp>\n#include <cstddef>\nint b;\n' >"$work/include/rankmesh/core/b.hpp"
expect 1 "rankmesh/core/a.hpp costs 0.00 and has no budget"
printf '# A comment.\n\nrankmesh/core/a.hpp 0.05\nrankmesh/core/b.hpp 0.05\n' >"$work/budgets"
expect 0 "2 headers keep their budgets"
printf '#pragma once\n#include <cstddef>\n#include <regex>\nint a;\n' >"$work/include/rankmesh/core/a.hpp"
expect 1 "of which rankmesh/core/a.hpp by its #include <regex> brings"
expect 1 "rankmesh/core/b.hpp costs"
printf '#pragma once\nint a;\n' >"$work/include/rankmesh/core/a.hpp"
seq 9000 | sed 's|.*|int f();|' >>"$work/include/rankmesh/core/a.hpp"
expect 1 "of which rankmesh/core/a.hpp brings 9001"
printf '#pragma once\nint a;\n' >"$work/include/rankmesh/core/a.hpp"
echo 'rankmesh/core/gone.hpp 1.00' >>"$work/budgets"
expect 1 "rankmesh/core/gone.hpp has a budget of 1.00 and is not there"
echo "the check finds every breach"
