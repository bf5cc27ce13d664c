#!/usr/bin/env bash
# usage: last_tag.sh SOURCE WORK: fails where the shared library breaks what docs/stability.md promises since the last tag: against one of the
# same minor version any change of what it exports, against one of the same major version a change of the functions of rankmesh.h. What
# is added is no breach. It ends with 77 where there is nothing to compare with.
set -euo pipefail
source=$1 work=$2

version() { sed -nE 's/^project\(rankmesh VERSION ([0-9]+)\.([0-9]+).*/\1 \2/p' "$1/CMakeLists.txt"; }

# library FOLDER BUILD: builds the shared library with all that is said about its types. Engines that were not built export the same.
library() {
    cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-g -DBUILD_SHARED_LIBS=ON -DRANKMESH_{TESTS,CLI,INSTALL}=OFF \
        -DRANKMESH_{MPI,GLOO,NCCL}=OFF && cmake --build "$2" --target rankmesh
}

# Of a commit that is tagged the last tag is the one before.
tag=$(git -C "$source" describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null) || {
    echo "there is no tag v... before this commit: nothing was compared"
    exit 77
}
rm -rf "$work"
mkdir -p "$work/tagged"
git -C "$source" archive "$tag" | tar x -C "$work/tagged"
read -r old_major old_minor < <(version "$work/tagged")
read -r major minor < <(version "$source")
compared="all that it exports"
only=()
if [ "$major" != "$old_major" ]; then
    echo "version $major.$minor may break what $tag promised: nothing was compared"
    exit 77
elif [ "$minor" != "$old_minor" ]; then
    compared="the functions of rankmesh.h"
    printf '[suppress_%s]\ndrop = yes\nsymbol_name_regexp = ^_Z\n' function variable >"$work/mangled"
    only=(--suppressions "$work/mangled")
fi
for each in tagged now; do
    folder=$work/tagged
    [ $each = tagged ] || folder=$source
    library "$folder" "$work/$each.build" >"$work/$each.log" 2>&1 || { tail -n 20 "$work/$each.log"; exit 1; }
done
found() { find "$work/$1.build" -name 'librankmesh.so' | head -n 1; }
abidiff --no-added-syms "${only[@]}" --headers-dir1 "$work/tagged/include" --headers-dir2 "$source/include" "$(found tagged)" "$(found now)" || {
    echo "$compared must be as in $tag: restore it, or raise the version (docs/stability.md)"
    exit 1
}
echo "as in $tag: $compared"
