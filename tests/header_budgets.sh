#!/usr/bin/env bash
# header_budgets.sh ROOT BUDGETS COMPILER [FLAG...]: fails where a public header costs more than its budget.
#
# The cost of a header is the number of lines that the compiler reads for a file that includes it alone, beside the
# number for ten standard headers, so that another standard library changes both. Headers of include/rankmesh/interop
# include what other people wrote, and generated headers what another header includes: they have no budget. With
# RANKMESH_HEADER_COSTS=1 it prints what each costs.
set -euo pipefail
root=$1 budgets=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lines() { printf '#include <%s>\n' "$@" | "${compiler[@]}" -E -x c++ - >"$work/lines" || { echo "$*: is not read"; exit 1; }; }
compiler=("$@" -std=c++20 "-I$root/include")

lines algorithm array compare cstdint limits optional ranges span string vector
reference=$(awk '!/^#/ && NF { n++ } END { print n }' "$work/lines")

broken=0 count=0
while read -r header; do
    count=$((count + 1))
    budget=$(awk -v header="$header" '$1 == header { print $2 }' "$budgets")
    lines "$header"
    # A line belongs to the include, in one of our files, through which it is read.
    awk -v header="$header" -v reference="$reference" -v budget="$budget" -v all="${RANKMESH_HEADER_COSTS:-}" '
        /^# [0-9]+ "/ {
            file = $3; gsub(/"/, "", file)
            if ($4 == 1) stack[++depth] = file
            else if ($4 == 2) depth--
            else if (depth == 0) next
            owner = ""
            for (i = depth; i > 0 && owner == ""; i--)
                if (stack[i] ~ /\/rankmesh\//) {
                    owner = stack[i]; sub(/.*\/rankmesh\//, "rankmesh/", owner)
                    if (i < depth) { to = stack[i + 1]; sub(/.*\//, "", to); owner = owner " by its #include <" to ">" }
                }
            next
        }
        NF { total++; by[owner]++ }
        END {
            cost = total / reference
            if (all) printf "%s %.2f\n", header, cost
            if (budget == "") {
                printf "%s costs %.2f and has no budget; give it one in %s\n", header, cost, "tests/header_budgets.txt"
                exit 1
            }
            if (cost <= budget + 0) exit 0
            for (owner in by) if (by[owner] > most) { most = by[owner]; worst = owner }
            printf "%s costs %.2f and may cost %.2f: %d lines, of which %s brings %d\n", header, cost, budget, total, worst, most
            exit 1
        }' "$work/lines" || broken=$((broken + 1))
done < <(cd "$root/include" && find rankmesh -name '*.hpp' -o -name '*.h' | grep -v '^rankmesh/interop/' | sort |
    xargs -r grep -L '^// Generated ')

while read -r header budget; do
    [ -z "$header" ] || [ "${header:0:1}" = "#" ] || [ -e "$root/include/$header" ] ||
        { echo "$header has a budget of $budget and is not there"; broken=$((broken + 1)); }
done <"$budgets"
[ "$count" -gt 0 ] || { echo "no headers under $root/include"; exit 1; }
[ "$broken" -eq 0 ] || { echo "$broken budgets are broken"; exit 1; }
echo "$count headers keep their budgets"
