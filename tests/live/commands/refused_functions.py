#!/usr/bin/env python3
"""Hostile options of network functions, by the program, as `refused.py` has them of all else.

usage: refused_functions.py MILLRACE CAPTURE [NAME...]
  MILLRACE  the program
  CAPTURE   a capture with packets
  NAME      only the cases whose name has this in it
"""
import os

import refusals
from refusals import alert, case, grown, nf, zeros

SA = "name: a, direction: out, spi: 0x1000, local: 192.0.2.1, remote: 192.0.2.2, cipher: aes-128-ctr"


def open_to_all(path):
    path.write_text('a: {key: "00112233445566778899aabbccddeeff"}\n')
    path.chmod(0o644)


for file in ("/dev/zero", "/tmp", "/dev/urandom"):
    case("firewall file " + file, nf("firewall: {file: §" + file + "}"))
    case("firewall classbench " + file, nf("firewall: {classbench: §" + file + "}"))
    case("router file " + file, nf("router: {routes: [§" + file + "], next-hops: {a: {port: wan}}}"))
case("firewall rules of 4 GB", nf("firewall: {file: §bomb.xz}"), files={"bomb.xz": zeros(4)}, seconds=30)
case("firewall rules in a FIFO", nf("firewall: {file: §fifo}"), files={"fifo": os.mkfifo})
case("firewall of nine million rules in a line", lambda: nf(
    'firewall: {rules: [§"permit tcp from ' + ",".join(f"10.{i // 256}.{i % 256}.0/24" for i in range(3000)) + " to " +
    ",".join(f"11.{i // 256}.{i % 256}.0/24" for i in range(3000)) + '"]}'))
case("firewall rules that grow", nf("firewall: {rules: " + grown("permit tcp") + "}"))
case("firewall addresses that grow", nf("firewall: {rules: [{action: deny, src: " + grown("10.0.0.0/8") + "}]}"))
case("firewall priority", nf('firewall: {rules: [§"permit tcp priority 99999999999999999999"]}'))
case("firewall max-table 0", nf("firewall: §{rules: [permit tcp], max-table: 0}"))
case("firewall without its file", nf("firewall: {§file: }"))
case("firewall rules in a map", nf("firewall: {rules: {§a: b}}"))
case("an unknown option", nf("firewall: {§rulez: []}"))
case("router prefix /33", nf("router: {routes: [{prefix: §10.0.0.0/33, via: a}], next-hops: {a: {port: wan}}}"))
case(
    "router without its next hop", nf("router: {routes: [{prefix: 10.0.0.0/8, via: §b}], next-hops: {a: {port: wan}}}")
)
case("router with 33,000 next hops", lambda: nf("router: {routes: [], next-hops: §{" + ",".join(
    f"h{i}: {{}}" for i in range(33000)) + "}}"))
case("router MAC", nf('router: {routes: [], next-hops: {a: {mac: §"zz:00:00:00:00:00"}}}'))
case("nids alerts into a folder", nf("nids: {eve: §/tmp, rule: " + alert() + "}"))
case("nids alerts into no folder", nf("nids: {eve: §nosuch/dir/eve.json, rule: " + alert() + "}"))
for name, expression in {"50,000 brackets": "(" * 50000 + "a" + ")" * 50000, "repeats in a row": "(a+)+(a+)+(a+)+$",
                         "repeats of repeats": "((((a{1000}){1000}){1000}){1000})"}.items():
    case("nids expression of " + name, nf("nids: {rule: " + alert(f'pcre:"/{expression}/"; ') + "}"), refused=False)
# These it warns of.
case("nids expression of 110 KB", nf("nids: {rule: §" + alert('pcre:"/' + "(a|b){100}" * 10000 + '/"; ') + "}"),
     refused=False)
case("nids number twice", nf("nids: {rule: [" + alert() + ", §" + alert() + "]}"), refused=False)
case("nids lists of lists", nf("nids: {rule: §" + alert(source="[" * 20000 + "any" + "]" * 20000) + "}"))
case("nids variables in a circle", nf("nids: {variables: {A: $B, B: $A}, rule: " + alert(source="$A") + "}"))
case(
    "ipsec key of three digits",
    nf("ipsec: {sas: [{" + SA + ', key: §"123", nonce: "00000000", auth-key: "' + "0" * 40 + '"}]}'),
)
case(
    "ipsec keys in a folder", nf("ipsec: {keys: §kd, sas: [{" + SA + "}]}"),
    files={"kd": lambda path: os.mkdir(path, 0o700)},
)
case("ipsec keys that are open to all", nf("ipsec: {keys: §k.yaml, sas: [{" + SA + "}]}"),
     files={"k.yaml": open_to_all})
case("ipsec sa-slots", nf("ipsec: {default: bypass, sa-slots: §4294967295}"))
case("ipsec mtu -1", nf("ipsec: {default: bypass, mtu: §-1}"))
case("switch flow", nf("switch: {flows: [§'priority=99999999,actions=fly']}"))
case("switch max-flows", nf("switch: {flows: ['actions=output:2'], max-flows: §4000000000}"))
for file in ("/dev/zero", "fifo"):
    case("switch changes " + file, nf("switch: {flows: ['actions=output:2'], changes: §" + file + "}"),
         files={"fifo": os.mkfifo})
case("switch controller", nf("switch: {controller: §'tls:localhost'}"))
case("switch controller's port", nf("switch: {controller: §'tcp:127.0.0.1:99999'}"))
case("switch groups in a circle", nf("switch: {flows: ['actions=group:1'], groups: g.txt}"),
     files={"g.txt": "group_id=1,type=select,bucket=actions=group:1\n"})

if __name__ == "__main__":
    refusals.main(__doc__)
