# What the scripts that measure share. To be sourced, with `me` (the script's name), `folder`, `seconds`, `limit` and
# `chosen` set. Finds the program (an unpacked portable tarball's, or a build's) and the published inputs, and makes the
# folder.

fail() {
    printf '%s: %s\n' "$me" "$1" >&2
    shift
    ((!$#)) || printf '    %s\n' "$@" >&2
    exit 2
}

build=${BUILD:-build}
if [[ -x bin/millrace ]]; then
    program=bin/millrace
elif [[ -x $build/millrace ]]; then
    program=$build/millrace
else
    fail "there is neither bin/millrace (a portable tarball) nor $build/millrace" \
        "'make build' or 'make portable' makes them"
fi
if [[ -z ${MILLRACE_DATA:-} ]]; then
    for data in data ../data ../shared/data; do
        [[ ! -d $data ]] || { MILLRACE_DATA=$(cd "$data" && pwd) && export MILLRACE_DATA && break; }
    done
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
failed=()

# Whether the measurement named $1 is asked for.
wanted() {
    local one
    ((${#chosen[@]})) || return 0
    for one in "${chosen[@]}"; do [[ $1 != "$one"* ]] || return 0; done
    return 1
}

# Measures $1, a name for the files, with the arguments of `millrace bench` that follow.
measure() {
    local name=$1 status=0 start=$SECONDS
    shift
    wanted "$name" || return 0
    timeout -k 5 "$limit" "$program" bench "$@" --for "$seconds" --warm-up "${warm_up:-0.1}" \
        --json "$folder/$name.json" \
        >"$folder/$name.log" 2>&1 || status=$?
    printf '%-26s %4d s, %4d s in all\n' "$name" $((SECONDS - start)) "$SECONDS"
    [[ $status == 0 ]] || { failed+=("$name") &&
        printf '    FAILED (status %d), see %s\n' "$status" "$folder/$name.log" && tail -n 3 "$folder/$name.log"; }
}

# Of the measurements NAME.round-1 and so on it keeps the one with the median rate, as NAME.
keep_median() {
    local each rounds=()
    wanted "$1" || return 0
    for each in "$folder/$1".round-*.json; do
        [[ ! -e $each ]] || rounds+=("$(sed -n 's/.*"packets-per-second": \([0-9.e+]*\).*/\1/p;T;q' "$each") $each")
    done
    ((${#rounds[@]} == 0)) || mapfile -t rounds < <(printf '%s\n' "${rounds[@]}" | sort -g)
    ((${#rounds[@]} == 0)) || mv "${rounds[${#rounds[@]} / 2]#* }" "$folder/$1.json"
    rm -f "$folder/$1".round-*
}

# Ends the script: says what failed.
finish_measuring() {
    ((${#failed[@]} == 0)) || fail "${#failed[@]} failed: ${failed[*]}"
    echo "$me: all measured on $device in $SECONDS s, in $folder"
}
