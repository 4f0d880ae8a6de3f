#!/usr/bin/env bash
# Every shell script parses, and stops at errors or says why not. usage: shell.sh ROOT
set -euo pipefail
cd "$1"
count=0 bad=0
while read -r file; do
    [[ -f $file ]] || continue
    head -c 64 "$file" | head -n 1 | grep -qaE '^#!.*\b(ba)?sh\b' || continue
    count=$((count + 1))
    bash -n "$file" || bad=1
    grep -qE '^set -e?u' "$file" || { echo "$file: has no 'set -u'"; bad=1; }
    [[ -x $file || $file == *.sh ]] || { echo "$file: is not executable"; bad=1; }
done < <(git ls-files -co --exclude-standard)
((count > 0)) || { echo "no scripts found"; bad=1; }
((bad)) || echo "$count scripts parse"
exit $bad
