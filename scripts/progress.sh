# progress LOG: what a build by ninja prints goes from standard input to the end of LOG; of its lines `[n/m] Building ...`
# the count is shown, on a terminal in one line that changes, elsewhere once for each tenth of the way.
progress() {
    local log=$1 line percent shown=-1
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$log"
        [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (Building|Linking) ]] || continue
        percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
        if [ -t 1 ]; then
            printf '\r\033[K[%s/%s] %s %%' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$percent"
        elif [ $((percent / 10)) -gt "$shown" ]; then
            shown=$((percent / 10))
            printf '[%s/%s] %s %%\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$percent"
        fi
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
}
