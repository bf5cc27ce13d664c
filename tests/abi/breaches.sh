#!/usr/bin/env bash
# usage: breaches.sh WORK: last_tag.sh on a small library: what it finds, and what is none.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$1
rm -rf "$work"
mkdir -p "$work/source/include"
cd "$work/source"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a

# write VERSION FIELDS C-PARAMETERS [MORE]: a library with a function of C++ that takes a struct, one of C, and more.
write() {
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(rankmesh VERSION %s LANGUAGES CXX)\nadd_library(rankmesh lib.cpp)\n%s\n' "$1" \
        'target_include_directories(rankmesh PRIVATE include)' >CMakeLists.txt
    printf '#pragma once\nnamespace rankmesh {\nstruct Options { %s };\nint run(const Options& options);\n}\nextern "C" int rankmesh_rank(%s);\n%s\n' \
        "$2" "$3" "${4:-}" >include/lib.hpp
    printf '#include "lib.hpp"\nint rankmesh::run(const Options& options) { return options.a; }\nint rankmesh_rank(%s) { return 0; }\n%s\n' \
        "$3" "${4:+int more() { return 0; \}}" >lib.cpp
}
# says STATUS TEXT: what the script ends with and says.
says() {
    local status=0 said
    said=$(bash "$here/last_tag.sh" "$PWD" "$work/work" 2>&1) || status=$?
    [[ $status == "$1" && $said == *"$2"* ]] || { printf 'expected %s and "%s", got %s:\n%s\n' "$1" "$2" $status "$said"; exit 1; }
}

git init -q
write 1.2.0 'int a;' 'int world'
git add . && git commit -qm 1
says 77 "nothing was compared"
git tag v1.2.0
says 77 "nothing was compared"  # of the tagged commit itself
git commit -q --allow-empty -m 2
says 0 "as in v1.2.0: all that it exports"
write 1.2.1 'int a;' 'int world' 'int more();'
says 0 "as in v1.2.0: all that it exports"
write 1.2.1 'int a; int b;' 'int world'
says 1 "all that it exports must be as in v1.2.0"
write 1.3.0 'int a; int b;' 'int world'
says 0 "as in v1.2.0: the functions of rankmesh.h"
write 1.3.0 'int a;' 'long world'
says 1 "the functions of rankmesh.h must be as in v1.2.0"
write 2.0.0 'int a;' 'long world'
says 77 "version 2.0 may break what v1.2.0 promised"
