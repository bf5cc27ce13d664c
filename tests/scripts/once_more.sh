#!/usr/bin/env bash
# ./test runs a few tests that failed once more, alone, says which passed then, and fails where one fails twice or many fail. Beside
# the real script stand a cmake that does nothing and a ctest that fails the tests it is told to.
# once_more.sh SOURCE_DIR
set -euo pipefail
source_dir=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"/{bin,scripts,build/tsan/Testing/Temporary}
cp "$source_dir/test" "$folder"
printf '%s\n' 'need() { :; }' 'find_nccl() { nccl_settings=(); }' 'left_out=()' 'build_packages=()' 'test_packages=()' \
    'python_packages=()' >"$folder/scripts/need.sh"
printf '#!/bin/sh\n' >"$folder/bin/cmake"
cat >"$folder/bin/ctest" <<'END'
#!/bin/sh
case "$*" in
*--rerun-failed*) exit "$FAILS_TWICE" ;;
esac
: >build/tsan/Testing/Temporary/LastTestsFailed.log
for each in $FAILS; do echo "7:$each" >>build/tsan/Testing/Temporary/LastTestsFailed.log; done
[ -z "$FAILS" ] || exit 8
END
chmod +x "$folder"/bin/*

# expect STATUS TEXT FAILS FAILS_TWICE: what ./test ends with where these tests fail.
expect() {
    local status=0 out
    out=$(PATH="$folder/bin:$PATH" FAILS=$3 FAILS_TWICE=$4 "$folder/test" tsan 2>&1) || status=$?
    if [ $status -ne "$1" ] || [[ $out != *"$2"* ]]; then
        printf 'tests that fail: "%s"; expected status %s and "%s"; it was %s and:\n%s\n' "$3" "$1" "$2" $status "$out"
        exit 1
    fi
}
expect 0 "== built and tested" "" 0
expect 0 "tsan: A.b passed only when it was run again, alone" "A.b" 0
expect 0 "tsan: C.d passed only when it was run again, alone" "A.b C.d" 0
expect 8 "once more, one at a time: A.b" "A.b" 8
expect 8 "" "A B C D E F" 0
out=$(PATH="$folder/bin:$PATH" FAILS="A B C D E F" FAILS_TWICE=0 "$folder/test" tsan 2>&1) || true
[[ $out != *"once more"* ]] || { echo "many failures were run again"; exit 1; }
