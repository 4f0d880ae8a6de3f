#!/usr/bin/env bash
# `millrace show` from outside: a run that works is asked, by clients that behave and such that do not.
# usage: show.sh MILLRACE
set -u
millrace=$(realpath "$1")
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
cd "$folder" || exit 1
within() {
    local end=$((SECONDS + $1)); shift
    until "$@" > /dev/null 2>&1; do ((SECONDS < end)) || return 1; sleep 0.1; done
}

cat > run.yaml << 'YAML'
version: 1
ports:
  in: {source: {rate: 2000, flows: 8, addresses: {src: 10.0.0.0/8, dst: 192.0.2.0/24}}}
  out: {sink: {}}
chains:
  c:
    input: in
    output: out
    nfs:
      - conntrack: {max-flows: 64}
      - router: {next-hops: {edge: {port: out, mac: "02:00:00:00:00:01"}}, routes: [{prefix: 192.0.2.0/25, via: edge}]}
YAML
start() { "$millrace" run run.yaml --quiet "$@" & processes+=($!); last=$!; }
start --json report.json 2> warned1
first=$last
within 10 "$millrace" show ports || fail "the run does not answer"
[[ $(stat -c '%a %F %U' out/millrace.sock) == "600 socket $(id -un)" ]] || fail "the socket is not its user's alone"

# Every topic, as a table and as JSON; counters move on and add up.
for topic in ports chains routes neighbours sas flows; do
    "$millrace" show $topic > said 2>&1 || fail "show $topic fails"
    [[ -s said ]] || fail "show $topic says nothing"
    "$millrace" show $topic --json > answer || fail "show $topic --json fails"
    python3 - $topic << 'PY' || fail "show $topic --json: no such answer"
import json, sys
lines = open("answer").read().splitlines()
answer = json.loads(lines[0])
assert len(lines) == 1 and answer["version"] == 1 and answer["show"] == sys.argv[1] and sys.argv[1] in answer
for chain in answer.get("chains", []):
    assert chain["received-packets"] + chain["injected"] + chain["copied"] == sum(
        chain[key] for key in ("sent-packets", "dropped", "punted", "passed-on", "in-flight")), chain
PY
done
"$millrace" show routes > said && grep -q "192.0.2.0/25 *edge" said || fail "the route is not shown"
"$millrace" show neighbours > said && grep -q "edge *out *02:00:00:00:00:01 *static" said ||
    fail "the next hop is not shown"
"$millrace" show flows --limit 3 --match 'udp to 192.0.2.0/24' --by packets > said &&
    grep -q '^protocol *source' said ||
    fail "the flows are not shown"
"$millrace" show flows --match 'tcp' --json | grep -q '"total":0' || fail "flows are shown that do not match"
"$millrace" show flows --match 'tcpp' > said 2>&1 && fail "a match that is none is taken"
grep -q "did you mean 'tcp'" said || fail "and what is wrong with it is not told"
count() { "$millrace" show ports --json "$@" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["ports"][0]["received-packets"])'; }
before=$(count); sleep 0.5; [[ $(count) -gt $before ]] || fail "the counters stand still"

# Other clients: garbage, silence, many of them, such that do not read, or go at once.
python3 - << 'PY' || fail "the run does not outlive its clients"
import json, os, socket
def client():
    made = socket.socket(socket.AF_UNIX)
    made.connect("out/millrace.sock")
    made.settimeout(5)
    return made
def ask(request, made=None):
    made = made or client()
    made.sendall(request + b"\n")
    return json.loads(made.makefile().readline())
assert ask(b'{"version":2,"show":"ports"}')["error"].startswith("version 2")
assert "error" in ask(b'{"version":1,"show":"keys"}')
assert "error" in ask(b"GET / HTTP/1.1")
silent = [client() for _ in range(300)]
for _ in range(200):
    made = client()
    try:
        made.sendall(os.urandom(5000))
    except BrokenPipeError:
        pass
    made.close()
slow = [client() for _ in range(10)]
for made in slow:
    made.sendall(b'{"version":1,"show":"chains"}\n' * 100)
assert ask(b'{"version":1,"show":"ports"}')["ports"][0]["name"] == "in"
PY
"$millrace" show ports > said 2>&1 || fail "the run does not answer any more"

# Who comes second goes without, says so, and leaves the first in peace; by name it does not start.
start --for 1 2> warned2
wait "$last" || fail "the second run has failed"
grep -q "another process answers there.*--socket" warned2 || fail "the second run does not say that it answers nobody"
"$millrace" show ports > said 2>&1 || fail "the second run took the first one's socket with it"
"$millrace" run run.yaml --quiet --for 5 --socket out/millrace.sock 2> warned3 &&
    fail "a socket that is taken was given away"
grep -q "another process answers there" warned3 || fail "it does not say why"
start --for 20 --socket second.sock; second=$last
within 10 "$millrace" show ports --socket second.sock || fail "a run does not answer where --socket says"
kill -TERM "$second"; wait "$second" || fail "the run with --socket has failed"
[[ ! -e second.sock ]] || fail "a run that has ended has left its socket"

# Another generation.
sed -i 's#192.0.2.0/25#192.0.2.0/26#' run.yaml
kill -HUP "$first"
shows_new() { "$millrace" show routes | grep -q "192.0.2.0/26"; }
within 10 shows_new || fail "the new routes are not shown"
kill -TERM "$first"; wait "$first" || fail "the run has failed"
[[ ! -e out/millrace.sock ]] || fail "a run that has ended has left its socket"
"$millrace" show ports > said 2>&1 && fail "somebody answers though nobody is there"
python3 -c 'import json; r = json.load(open("report.json")); assert r["conserved"] and r["ports"][0]["received-packets"] > 1000' || fail "the run lost packets"

# What a run leaves that was killed is replaced.
start; killed=$last
within 10 "$millrace" show ports || fail "the run does not answer"
kill -KILL "$killed"; wait "$killed" 2> /dev/null
[[ -S out/millrace.sock ]] || fail "the killed run has left no socket"
"$millrace" show ports > said 2>&1 && fail "a dead run answers"
grep -q "has ended" said || fail "show does not say that the run has ended"
start; third=$last
within 10 "$millrace" show ports || fail "a dead run's socket is in the way"
kill -TERM "$third"; wait "$third"

# No socket at all.
"$millrace" run run.yaml --quiet --for 1 --no-socket & processes+=($!)
sleep 0.5; [[ ! -e out/millrace.sock ]] || fail "--no-socket made one"
wait $!
echo "socket: none" >> run.yaml
"$millrace" run run.yaml --quiet --for 1 & processes+=($!)
sleep 0.5; [[ ! -e out/millrace.sock ]] || fail "'socket: none' made one"
wait $!
sed -i 's/^socket: none/socket: deep.sock/' run.yaml
start; named=$last
within 10 "$millrace" show ports --socket out/deep.sock || fail "'socket:' is not where it says"
kill -TERM "$named"; wait "$named"
echo "a run shows what it does, and to nobody it should not"
