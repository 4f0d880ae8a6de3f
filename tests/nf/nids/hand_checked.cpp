#include "hand_checked.hpp"

namespace millrace::nf::nids {

const std::vector<HandCheckedCapture>& hand_checked_published() {
    static const std::vector<HandCheckedCapture> captures = {
        {"a union in a query",
         "pcap/curated/ndpi/sql_injection.pcap",
         "",
         "",
         {
             {R"(alert http any any -> any any (http.uri; content:"UNION"; content:"SELECT"; distance:1; within:6; )"
              "sid:201;)",
              R"(http.request.uri contains "UNION+SELECT")", "1"},
             {R"(alert http any any -> any any (http.uri; content:"union"; sid:202;))",
              R"(http.request.uri matches "(?-i)union")", ""},
             {"alert tcp any 80 -> any any (flow:to_client,established; dsize:>1000; sid:203;)",
              "tcp.srcport == 80 and tcp.len > 1000", "3"},
             {"alert tcp any any -> any any (flags:A; dsize:0; sid:204;)", "tcp.flags == 0x10 and tcp.len == 0", "2 5"},
             {"alert tcp 192.168.3.0/24 any -> !192.168.3.107 ![80,8080] (sid:205;)",
              "ip.src == 192.168.3.0/24 and not ip.dst == 192.168.3.107 and not tcp.dstport in {80,8080}", "2-4"},
             {R"(alert http any any -> any any (http.stat_code; content:"200"; sid:206;))",
              R"(tcp.payload[0:12] == "HTTP/1.1 200")", "3"},
         }},
        {"four messages of DHCP",
         "pcap/curated/wireshark/dhcp.pcap",
         "",
         "",
         {
             {R"(alert udp any 68 -> 255.255.255.255 67 (content:"|63 82 53 63 35 01|"; offset:236; depth:6; )"
              "byte_test:1,=,1,0,relative; sid:301;)",
              "dhcp.option.dhcp == 1", "1"},
             {"alert udp any any -> any any (byte_test:1,=,2,0; sid:302;)", "dhcp.type == 2", "2 4"},
             {R"(alert udp any any -> any any (content:"|63 82 53 63|"; byte_test:1,>=,3,2,relative; sid:303;))",
              "dhcp.option.dhcp >= 3", "3-4"},
             {"alert udp any any -> any any (byte_test:4,=,0x3d1e,4; sid:304;)", "dhcp.id == 0x3d1e", "3-4"},
             {"alert udp any any -> any any (ttl:250; sid:305;)", "ip.ttl == 250", "1 3"},
             {R"(alert udp any any -> any any (content:"|63 82 53 63|"; content:!"|32 04|"; distance:0; sid:306;))",
              "not dhcp.option.type == 50", "2 4"},
             {R"(alert udp any any -> any any (content:"|63 82 53 63|"; offset:237; sid:307;))",
              "udp.payload[237:] contains 63:82:53:63", ""},
             {R"(alert udp any any -> any any (content:"|63 82 53 63|"; depth:239; sid:308;))",
              "udp.payload[0:239] contains 63:82:53:63", ""},
         }},
        {"a web scanner",
         "pcap/curated/ndpi/WebattackRCE.pcap.xz",
         "",
         "",
         {
             {R"(alert http any any -> any any (http.uri; content:"cmd.exe"; nocase; sid:401;))",
              R"(http.request.uri matches "cmd[.]exe")", "528-530 728-737 743-751"},
             {R"(alert http any any -> any any (http.uri; content:"etc/passwd"; sid:402;))",
              R"(tcp.payload matches "^[A-Z]+ [^\\r]*etc/passwd[^\\r]* HTTP/1")", "118 532 535 548 738 740 766 788"},
             {R"(alert http any any -> any any (http.uri; content:"%255c"; content:"%255c"; distance:2; within:5; )"
              "sid:403;)",
              R"(http.request.uri matches "(?-i)%255c..%255c")", "744-751"},
             {R"(alert http any any -> any any (http.uri; pcre:"/^\/level\/(1[6-9]|5[0-3])\//"; sid:404;))",
              R"(http.request.uri matches "^/level/(1[6-9]|5[0-3])/")", "554-555 557-567 598-601"},
             {R"(alert http any any -> any any (http.method; content:!"GET"; sid:405;))",
              R"(http.request.method and not http.request.method == "GET")", ""},
             {R"(alert http any any -> any any (http.user_agent; content:"() {"; startswith; sid:407;))",
              R"(http.user_agent matches "^[(][)] [{]")", "438-499"},
             {R"(alert tcp any any -> any any (content:"/level/"; http_uri; content:"exec"; http_uri; distance:0; )"
              "sid:412;)",
              R"(http.request.uri matches "/level/.*exec")", "554-555 557-647"},
             {"alert http any any -> any any (urilen:>100; sid:408;)", "len(http.request.uri) > 100",
              "648-714 717-725 786-787"},
             {R"(alert http any any -> any any (http.uri; content:".tar"; content:!".gz"; distance:0; within:3; )"
              R"(content:!"lz"; sid:409;))",
              R"~(http.request.uri matches "[.]tar(?![.]gz)" and not http.request.uri contains "lz")~",
              "129-130 137-138 143-148 153-154 183-184 211-212 239-240 243-244 297-298 301-306 333-334 343-344 "
              "351-352 357-358 381-382 391-392 397-398 403-404 417-418 429-430"},
             {R"(alert http any any -> any any (content:"() {"; sid:411;))", R"(tcp.payload contains "() {")",
              "438-499"},
         }},
        {"a scan by SYN",
         "pcap/curated/ndpi/synscan.pcap.xz",
         "",
         "",
         {
             {"alert tcp any any -> any any (flags:S; window:1024; threshold:type limit, track by_src, count 3, "
              "seconds 2; sid:501;)",
              "tcp.flags == 2 and tcp.window_size_value == 1024; the first 3 of each ip.src in 2 s",
              "5 7-8 194 212 222 1170 1177-1178"},
             {"alert tcp any any -> any any (flags:S; threshold:type limit, track by_dst, count 1, seconds 1; "
              "sid:502;)",
              "tcp.flags == 2; the first 1 of each ip.dst in 1 s", "1 20 268 683 1388"},
             {"alert tcp any any -> any any (flow:to_client; flags:SA; sid:503;)", "tcp.flags == 0x12",
              "11 17 46 529 632 1963 2006-2011"},
             {"alert tcp any any -> any any (flags:R+; sid:504;)", "tcp.flags.reset == 1", "14 47 118 571 1233"},
             {"alert tcp any any -> any [21:23,3389] (flow:to_server,not_established; sid:505;)",
              "tcp.flags.syn == 1 and tcp.flags.ack == 0 and tcp.dstport in {21..23,3389}", "12 18-21 23 43"},
             {"alert tcp any any -> any any (flags:S; threshold:type both, track by_src, count 500, seconds 10; "
              "sid:506;)",
              "tcp.flags == 2; number 500 of each ip.src in 10 s", "506"},
             {"alert tcp any any -> any any (flags:S; threshold:type threshold, track by_dst, count 400, seconds "
              "60; sid:507;)",
              "tcp.flags == 2; every 400th of each ip.dst within 60 s", "406 809 1209 1610"},
             {"alert tcp any any -> any any (flow:established; sid:508;)", "tcp.flags.ack == 1 and tcp.flags.syn == 0",
              "14 47 118 571 1233"},
         }},
        {"a session of FTP",
         "pcap/curated/ndpi/ftp.pcap.xz",
         "",
         "",
         {
             {R"(alert tcp any any -> any 21 (flow:to_server,established; content:"USER "; depth:5; )"
              R"(content:"anonymous"; distance:0; sid:601;))",
              R"(tcp.dstport == 21 and tcp.payload matches "^USER anonymous")", "6"},
             {R"(alert tcp any 21 -> any any (flow:to_client,established; content:"227 "; startswith; )"
              R"(pcre:"/\((\d+,){4}9[0-9],/"; sid:602;))",
              R"(tcp.srcport == 21 and tcp.payload matches "^227 .*[(](\\d+,){4}9[0-9],")", "64"},
             {R"(alert ftp any any -> any any (flow:to_server; content:"1MB.zip"; content:!"RETR"; depth:4; )"
              "sid:603;)",
              R"(tcp.dstport == 21 and tcp.payload contains "1MB.zip" and not tcp.payload[0:4] == "RETR")", "54 57 60"},
             {R"(alert tcp any 21 -> any any (content:"500"; depth:3; sid:604;))", "ftp.response.code == 500", "29 55"},
             {"alert tcp any any -> any any (flags:FA; sid:605;)", "tcp.flags == 0x11", "44 47 1182 1188 1191"},
             {R"(alert tcp any ![21,1024:20000] -> any any (content:"-rw-"; startswith; sid:606;))",
              R"(tcp.payload[0:4] == "-rw-" and not tcp.srcport == 21 and not (tcp.srcport >= 1024 and tcp.srcport )"
              "<= 20000)",
              "43"},
             {R"(alert tcp any any -> any 21 (content:"site"; nocase; offset:5; isdataat:!3,relative; sid:607;))",
              R"(tcp.dstport == 21 and tcp.payload[5:] matches "site" and tcp.len <= 11)", "23"},
             {"alert tcp any any -> any any (flags:S; sid:608;)", "tcp.flags == 2", "1 37 66"},
         }},
        {"names over IPv4 and IPv6, in fragments",
         "pcap/curated/ndpi/dns_fragmented.pcap",
         "",
         "",
         {
             {R"(alert dns any any -> any 53 (dns.query; content:"fg2.weberlab.de"; nocase; bsize:15; sid:701;))",
              R"(dns.flags.response == 0 and dns.qry.name matches "^fg2[.]weberlab[.]de$")", "7 10 13 18"},
             {"alert ip any any -> any any (fragbits:M; sid:702;)", "ip.flags.mf == 1", "2 11 16 41"},
             {"alert ip any any -> any any (fragoffset:>0; sid:703;)", "ip.frag_offset > 0", "3 12 17 42"},
             {"alert udp any 53 -> any any (dsize:>1400; sid:704;)",
              "udp.srcport == 53 and ((ip.len > 1428) or (ipv6.plen > 1416))", "2 5 8 11 16 38 41"},
             {R"(alert tcp any any -> any 53 (flow:to_server; content:"|00 30 00 01|"; sid:705;))",
              "tcp.dstport == 53 and dns.qry.type == 48", "48 60"},
             {"alert ip6 any any -> 2606:4700:4700::1111 any (sid:706;)", "ipv6.dst == 2606:4700:4700::1111",
              "28 30 43 55"},
             {"alert udp [2001:470::/32,!2001:470:765b::/48] any -> any 53 (sid:707;)",
              "ipv6.src == 2001:470::/32 and not ipv6.src == 2001:470:765b::/48 and udp.dstport == 53",
              "20 22 24 26 28 30 32 34 36-37 43 55"},
             {R"(alert udp any any -> any 53 (content:"|00 30 00 01|"; content:!"|01 20|"; offset:2; depth:2; )"
              "sid:708;)",
              "udp.dstport == 53 and dns.qry.type == 48 and not udp.payload[2:2] == 01:20", "1 15"},
             {"alert ip4 any any -> any any (fragbits:D; sid:709;)", "ip.flags.df == 1", "57-66"},
             {R"(alert dns any any -> any any (dns.query; content:"weberlab"; content:!"fg2"; sid:710;))",
              R"(dns.flags.response == 0 and dns.qry.name contains "weberlab" and not dns.qry.name contains "fg2")",
              "1 4 15 36-37 40 48 60"},
         }},
        // What stands behind MPLS labels is not looked at.
        {"many kinds of frames",
         "pcap/curated/tcpreplay/test.pcap",
         "",
         "",
         {
             {"alert icmp any any -> any any (itype:3; icode:3; sid:801;)", "icmp.type == 3 and icmp.code == 3",
              "51 152 154 160 162 173"},
             {"alert icmp any any -> any any (itype:8; sid:802;)", "icmp.type == 8 and not mpls", ""},
             {"alert icmp any any -> any any (itype:0; ttl:253; sid:803;)", "icmp.type == 0 and ip.ttl == 253",
              "12 132 134 136 138 140"},
             {"alert ip any any -> any any (ip_proto:2; ttl:1; sid:804;)", "ip.proto == 2 and ip.ttl == 1", "14-16"},
             {R"(alert tcp 2001:4958::/32 any -> any 80 (content:"GET / "; startswith; sid:805;))",
              R"(ipv6.src == 2001:4958::/32 and http.request.uri == "/")", "32"},
             {R"(alert http any any -> any any (http.uri; content:".css"; content:!"tidied"; sid:806;))",
              R"(http.request.uri contains ".css" and not http.request.uri contains "tidied")", "57"},
             {R"(alert dns any any -> 172.16.11.1 53 (dns.query; content:"akamaiedge"; sid:807;))",
              R"(ip.dst == 172.16.11.1 and dns.flags.response == 0 and dns.qry.name contains "akamaiedge" and not )"
              "icmp",
              "26-27"},
             {"alert tcp any 443 -> any any (flags:F+; sid:808;)", "tcp.srcport == 443 and tcp.flags.fin == 1", "5"},
             {"alert ip any any -> any any (ip_proto:88; sid:809;)", "ip.proto == 88", "115"},
         }},
        {"IPv6 in IPv4",
         "pcap/curated/ndpi/6in4tunnel.pcap",
         "",
         "",
         {
             {"alert ip any any -> any any (ip_proto:41; dsize:>1400; sid:901;)", "ip.proto == 41 and ip.len > 1420",
              "27-28 36 46 96 98 102 107 109-110"},
             {R"(alert ip any any -> any any (ip_proto:41; content:"|3a|"; offset:6; depth:1; content:"|80 00|"; )"
              "offset:40; depth:2; sid:902;)",
              "ip.proto == 41 and icmpv6.type == 128",
              "1 4 6 8 10 12 14 16 56 58 60 66 68 70 72 74 76 78 80 86 122 124 126"},
             {"alert tcp any any -> any any (sid:903;)", "ip.proto == 6", ""},
             {R"(alert ip any any -> any any (ip_proto:41; content:"|16 03|"; content:"facebook.com"; distance:0; )"
              "sid:904;)",
              R"(ip.proto == 41 and frame matches "(?s)\\x16\\x03.*facebook[.]com")", "25 27"},
         }},
        {"VXLAN behind a VLAN tag",
         "pcap/curated/ndpi/vxlan.pcap",
         "",
         "",
         {
             {R"(alert udp any any -> any 4789 (content:"|08 00 00 00|"; depth:4; content:"|03|www|08|facebook"; )"
              "offset:50; sid:1001;)",
              R"(udp.dstport == 4789 and dns.qry.name contains "www.facebook")", "24-27"},
             {R"(alert udp any any -> any 4789 (content:"|16 03 01|"; content:"facebook.com"; distance:0; )"
              "sid:1002;)",
              R"(tls.handshake.extensions_server_name contains "facebook.com")", "8 31"},
             {"alert udp any any -> any 53 (sid:1003;)", "udp.dstport#1 == 53", ""},
             {"alert udp any any -> any any (dsize:<70; sid:1004;)", "udp.length#1 < 78", "54-56"},
         }},
        {"requests of Modbus",
         "pcap/curated/ics/ModbusTCP.pcap.xz",
         "",
         "",
         {
             {R"(alert modbus any any -> any 502 (content:"|00 00|"; offset:2; depth:2; content:"|10|"; offset:7; )"
              "depth:1; sid:1101;)",
              "tcp.dstport == 502 and tcp.payload[7:1] == 10", "6023 6026 6414 6421 6463"},
             {R"(alert tcp any any -> 141.81.0.163 502 (content:"|00 00|"; offset:2; depth:2; byte_jump:2,4; )"
              "isdataat:1,relative; sid:1102;)",
              "ip.dst == 141.81.0.163 and tcp.dstport == 502; by hand: the length at 4, counted from 6, ends "
              "before tcp.payload does",
              "114 225 233 460 563 608 807 940 985 1214 1345 1367 1574 1692 1743 1937 2046 2094 2278 2394 2402 "
              "2623 2749 2792 3035 3144 3184 3394 3537 3563 3756 3844 3914 4122 4223 4274 4464 4613 4659 4872 "
              "4965 5030 5240 5333 5396 5580 5710 5726 5732 5928 6014 6094 6307 6427 6487 6660 6782 6854 7087 "
              "7180 7252 7453 7540 7600 7751 7880 8004 8157 8281 8365 8378 8548 8650 8718 8838 9002 9062 9227 "
              "9329 9394 9572 9697 9728 9993 10098 10160 10376 10457 10727 10816 10989 11068 11087 11302 11339 "
              "11471 11711 11739 11844 12044 12088 12192 12407 12459 12565 12764 12774 12806 12933 13137 13176 "
              "13329 13559 13599 13716 13920 13971 14078 14280 14316 14433 14642 14685 14788 14971 14980 15016 "
              "15171 15366"},
             {R"(alert tcp 141.81.0.10 any -> [141.81.0.0/24,!141.81.0.128/28] 502 (content:"|0f|"; offset:7; )"
              "depth:1; byte_test:2,=,9,8; byte_test:1,&,0x80,13; sid:1103;)",
              "ip.src == 141.81.0.10 and ip.dst == 141.81.0.0/24 and not ip.dst == 141.81.0.128/28 and "
              "tcp.dstport == 502 and tcp.payload[7:1] == 0f and tcp.payload[8:2] == 00:09 and tcp.payload[13] & "
              "80",
              "103 221 456 597 803 967 1205 1345 1569 1743 1933 2094 2268 2390 2619 2787 3029 3175 3384 3524 "
              "3747 3911 4115 4266 4457 4859 5025 5234 5386 5572 5710 5918 6085 6293 6487 6658 6759 7081 7241 "
              "7451 7591 7738 7974 8145 8357 8541 8715 8838 9054 9215 9386 9558 9728 9981 10151 10371 10813 "
              "11087 11302 11471 11711 11839 12044 12192 12558 12774 12926 13321 13712 13920 14071 14280 14425 "
              "14784 14980 15151 15358"},
             {"alert tcp any 502 -> any any (byte_test:1,>,0x7f,7; sid:1105;)",
              "tcp.srcport == 502 and tcp.len > 7 and tcp.payload[7:1] > 7f", ""},
             {"alert tcp any 502 -> any any (threshold:type limit, track by_src, count 1, seconds 5; dsize:>300; "
              "sid:1106;)",
              "tcp.srcport == 502 and tcp.len > 300; the first 1 of each ip.src in 5 s",
              "244 248 1346 1379 2414 2420 3158 3553 4262 5005 5744 8324 9520 11732 11842 13975 15023"},
         }},
        {"an exchange of keys",
         "pcap/curated/ipsec/ikev1-certs.pcap",
         "",
         "",
         {
             {"alert udp any 500 -> any 500 (byte_test:4,>,1000,24; sid:1201;)", "isakmp.length > 1000", "5-6"},
             {"alert udp any any -> any any (byte_jump:4,24,from_beginning; isdataat:!1,relative; sid:1202;)",
              "udp.payload; by hand: the length at 24 is no less than udp.payload's, or reaches its end", "1-10"},
             {R"(alert ike any any -> any any (content:"|20|"; offset:18; depth:1; sid:1203;))",
              "isakmp.exchangetype == 32", "7-10"},
             {"alert udp any any -> any any (byte_extract:4,24,bytes; byte_test:4,=,bytes,24; "
              "byte_test:1,=,5,16; sid:1204;)",
              "isakmp.nextpayload == 5 and isakmp.exchangetype != 32", "5-6"},
             {"alert udp any any -> any any (byte_test:1,&,1,19; sid:1205;)", "isakmp.flag_e == 1", "5-10"},
             {"alert udp 172.16.0.0/12 any -> !172.16.0.0/12 any (sid:1206;)",
              "ip.src == 172.16.0.0/12 and not ip.dst == 172.16.0.0/12", "2 4 6 9"},
         }},
        {"malware's web and TLS",
         "pcap/curated/ndpi/malware.pcap",
         "",
         "",
         {
             {R"(alert tls any any -> any 443 (tls.sni; content:".com"; endswith; sid:1301;))",
              R"(tls.handshake.extensions_server_name matches "[.]com$")", "10 30"},
             {R"(alert dns any any -> any 53 (dns.query; pcre:"/^[a-z0-9.-]+$/"; sid:1302;))",
              "dns.flags.response == 0", "1"},
             {"alert icmp any any -> any any (sid:1303;)", "icmp", "3"},
             {R"(alert tcp any any -> any 443 (content:"|16 03|"; depth:2; content:"|01|"; offset:5; depth:1; )"
              "sid:1304;)",
              "tcp.dstport == 443 and tls.handshake.type == 1", "10 30"},
             {R"(alert tcp any 443 -> any any (content:"|16 03|"; depth:2; byte_jump:2,1,relative; content:"|16 )"
              R"(03|"; within:2; sid:1305;))",
              "tcp.srcport == 443; by hand: a record 16:03, and 16:03 where its length says that the next begins",
              "12 32"},
         }},
        {"echoes and SSH",
         "ids-cases:issue-5466-alert-then-pass-01/icmp_and_ssh.pcap",
         "mode: ips",
         "18 22 44",
         {
             {"pass icmp any any -> any any (itype:0; sid:1401;)", "a pass rule tells nothing", ""},
             {"alert icmp any any -> any any (sid:1402;)", "icmp and not icmp.type == 0",
              "1 3 5 7 9 11 13 80 92 107 118 203 225 227 247 261 263 317 359 361"},
             {R"(drop tcp any any -> any 22 (flow:to_server,established; content:"SSH-2.0"; startswith; sid:1403;))",
              R"(tcp.dstport == 22 and tcp.payload[0:7] == "SSH-2.0")", "18"},
             {"reject tcp any 22 -> any any (dsize:>1000; sid:1404;)", "tcp.srcport == 22 and tcp.len > 1000", "22 44"},
             {"alert tcp any 22 -> any any (flags:SA; sid:1405;)", "tcp.srcport == 22 and tcp.flags == 0x12", "16"},
         }},
        // The first frame has half a TCP header in it: the parser refuses it, and no NF sees it.
        {"fragments behind a VLAN tag",
         "ids-cases:defrag/bug-6887-defrag-eth-vlan-ipv4-tcp-syn/frag-eth-vlan-ip-tcp-syn.pcap",
         "",
         "",
         {
             {"alert ip any any -> any any (fragbits:M; sid:1501;)", "ip.flags.mf == 1 and not tcp", "2"},
             {"alert ip any any -> any any (fragoffset:>0; sid:1502;)", "ip.frag_offset > 0", "2-3"},
             {"alert tcp any any -> any 8080 (sid:1503;)", "tcp.dstport == 8080 and not frame.len == 46", ""},
         }},
        {"echoes by their numbers",
         "ids-cases:detect-itype-prefilter/icmpv4-ping.pcap",
         "",
         "",
         {
             {"alert icmp any any -> any any (itype:8; threshold:type limit, track by_src, count 2, seconds 20; "
              "sid:1601;)",
              "icmp.type == 8; the first 2 of each ip.src in 20 s", "1 3 43 45 83 85 123 125"},
             {"alert icmp any any -> any any (itype:0; detection_filter:track by_dst, count 70, seconds 1000; "
              "sid:1602;)",
              "icmp.type == 0; those behind the first 70 of each ip.dst in 1000 s", "142 144 146 148 150"},
             {"alert icmp any any -> any any (icmp_seq:7; sid:1603;)", "icmp.seq == 7", "13-14"},
             {"alert icmp any any -> any any (itype:>0; icode:0; icmp_seq:9; sid:1604;)",
              "icmp.type > 0 and icmp.seq == 9", "17"},
         }},
    };
    return captures;
}

const std::vector<HandCheckedCapture>& hand_checked_captures() {
    static const std::vector<HandCheckedCapture> captures = [] {
        std::vector<HandCheckedCapture> all = hand_checked_example();
        all.insert(all.end(), hand_checked_published().begin(), hand_checked_published().end());
        return all;
    }();
    return captures;
}

}  // namespace millrace::nf::nids
