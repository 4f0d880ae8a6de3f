#include "hand_checked.hpp"

namespace millrace::nf::nids {

const std::vector<HandCheckedCapture>& hand_checked_example() {
    static const std::vector<HandCheckedCapture> captures = {
        {"the example's recording",
         "examples:traffic.pcap",
         "variables: {HOME_NET: [10.0.0.0/8, '2001:db8:10::/48'], WEB: '192.0.2.10'}",
         "",
         {
             {R"(alert tcp any any -> $WEB 80 (content:"../"; content:"etc/passwd"; nocase; distance:0; sid:101;))",
              R"(ip.dst#1 == 192.0.2.10 and tcp.dstport == 80 and tcp.payload matches "[.][.]/.*etc/passwd")", "4380"},
             {R"(alert tcp any any -> any 80 (content:"POST"; depth:4; sid:102;))",
              "tcp.dstport == 80 and tcp.payload[0:4] == 50:4f:53:54", "953 1833 2716 4568 4628 4730 4740 4750"},
             {R"(alert http any any -> any any (http.uri; content:"/wp-login.php"; startswith; sid:103;))",
              R"(http.request.uri[0:13] == "/wp-login.php")", "4568"},
             {R"(alert http any any -> any any (http.method; content:"GET"; bsize:3; http.user_agent; )"
              R"(content:"curl/"; startswith; content:!"curl"; offset:4; http.uri; content:"?"; sid:104;))",
              R"(http.request.method == "GET" and http.user_agent matches "^curl/" and http.request.uri contains )"
              R"("?")",
              "4390 4478 4488 4498 4508 4518 4528 4578 4588 4598 4608 4618 4638 4760 4887 4899"},
             {R"(alert http any any -> any any (http.host; content:"bad.example"; endswith; sid:105;))",
              R"(http.host matches "bad[.]example$")", "4760"},
             {R"(alert http any any -> any any (http.stat_code; content:"405"; sid:106;))", "http.response.code == 405",
              "4672 4682 4692"},
             {R"(alert http any any -> any any (http.user_agent; content:"nikto"; nocase; sid:107;))",
              R"(http.user_agent matches "nikto")", "4420"},
             {R"(alert http any any -> any any (http.uri; pcre:"/[?&][a-z]+=[^&]*(%27|')/i"; sid:108;))",
              R"~(http.request.uri matches "[?&][a-z]+=[^&]*(%27|')")~", "4498 4508"},
             {R"(alert dns any any -> any 53 (dns.query; content:"bad.example"; nocase; endswith; )"
              R"(content:!"tunnel"; sid:109;))",
              R"(udp.dstport == 53 and dns.flags.response == 0 and dns.qry.name matches "bad[.]example$" and not )"
              R"(dns.qry.name contains "tunnel" and not icmp)",
              "4932"},
             {R"(alert tls any any -> any 443 (tls.sni; content:"malware.bad.example"; bsize:19; sid:110;))",
              R"(tls.handshake.extensions_server_name == "malware.bad.example")", "4870"},
             {"alert icmp any any -> any any (itype:8; dsize:>1200; sid:111;)", "icmp.type == 8 and ip.len#1 > 1228",
              "4301 4307 4313 4319 4325 4331 6933 6935 6937 6939"},
             {"alert icmp any any -> any any (itype:3; icode:3; sid:112;)", "icmp.type == 3 and icmp.code == 3",
              "6888 6890 6892 6894 6896 6898 6950 6952"},
             {"alert icmp any any -> any any (itype:11; icode:0; sid:113;)", "icmp.type == 11 and icmp.code == 0",
              "4364 4366 4368 6963 6965"},
             {"alert ip4 any any -> any any (ttl:<5; sid:114;)", "ip.ttl#1 < 5",
              "4363 4365 4367 4369 4371 4373 6962 6964 6992"},
             {"alert ip any any -> any any (fragbits:M; fragoffset:0; sid:115;)",
              "ip.flags.mf#1 == 1 and ip.frag_offset#1 == 0",
              "4301 4304 4307 4310 4313 4316 4319 4322 4325 4328 4331 4334 5245"},
             {"alert ip any any -> any any (fragoffset:>0; fragbits:!M; sid:116;)",
              "ip.frag_offset#1 > 0 and ip.flags.mf#1 == 0",
              "4303 4306 4309 4312 4315 4318 4321 4324 4327 4330 4333 4336 5248 6976"},
             {"alert tcp any any -> any any (flags:FPU; sid:117;)", "tcp.flags == 0x29 and ip.proto#1 == 6",
              "6656-6657 6659-6661 6663 6665 6667 6669 6671 6673 6675 6677 6679 6681 6683 6685 6687 6689 6691 "
              "6693 6695 6697 6699 6701 6703 6705 6707 6709 6711 6713 6715 6717 6719 6721 6723 6725 6727 6729 "
              "6731"},
             {"alert tcp any any -> any any (flags:SF,12; sid:118;)",
              "tcp.flags.syn == 1 and tcp.flags.fin == 1 and tcp.flags.reset == 0 and tcp.flags.push == 0 and "
              "tcp.flags.ack == 0 and tcp.flags.urg == 0",
              "6966"},
             {"alert tcp any any -> any any (flags:0; threshold:type limit, track by_src, count 5, seconds 60; "
              "sid:119;)",
              "tcp.flags == 0 and ip.proto#1 == 6; the first 5 of each ip.src in 60 s", "6733-6734 6736-6738"},
             {"alert icmp any any -> any any (itype:0; threshold:type limit, track by_dst, count 1, seconds 1; "
              "sid:120;)",
              "icmp.type == 0; the first 1 of each ip.dst in 1 s",
              "4118 4124 4130 4136 4142 4148 4154 4160 4166 4172 4178 4184 4190 4196 4202 4208 4214 4220 4226 "
              "4232 4304 6934"},
             {"alert udp ![10.0.0.0/8] any -> any ![53,1024:65535] (sid:121;)",
              "udp.dstport#1 < 1024 and not udp.dstport#1 == 53 and not ip.src#1 == 10.0.0.0/8 and not icmp and "
              "not icmpv6 and not gre",
              "6961 6977 6981 6983 6986"},
             {"alert tcp 2001:db8::/32 any -> [2001:db8:20::/48,!2001:db8:20::11] any (flow:to_server; flags:S; "
              "sid:122;)",
              "ipv6.src == 2001:db8::/32 and ipv6.dst == 2001:db8:20::/48 and not ipv6.dst == 2001:db8:20::11 "
              "and tcp.flags == 2",
              "666 697 730 763 796 829 863 898 1561 1592 1623 1654 1685 1716 1748 1781 2444 2475 2506 2537 2568 "
              "2599 2631 2664 2976 4837 4847 5207"},
             {"alert icmpv6 any any -> any any (itype:128; dsize:>1000; sid:123;)",
              "icmpv6.type == 128 and ipv6.plen > 1016", "4337 4343 4349 4357"},
             {R"(alert udp any any -> any 123 (content:"|17 00 03 2a|"; depth:4; sid:124;))",
              "udp.dstport == 123 and udp.payload[0:4] == 17:00:03:2a", "5219"},
             {R"(alert udp any any -> any 161 (content:"|04|"; offset:4; depth:4; byte_jump:1,0,relative; )"
              R"(content:"|a3|"; within:1; sid:125;))",
              "udp.dstport == 161 and snmp.data == 3", "5229"},
             {R"(alert tcp 10.0.20.0/24 any -> any 80 (flow:to_server,established; content:"GET "; startswith; )"
              "sid:126;)",
              R"(vlan and ip.src#1 == 10.0.20.0/24 and http.request.method == "GET")",
              "490 506 522 538 554 570 586 604 620 636 1405 1419 1433 1447 1461 1475 1489 1505 1519 1533 2287 "
              "2301 2315 2329 2343 2357 2371 2388 2402 2416 4860"},
             {"alert ip any any -> any any (sameip; sid:127;)", "frame[26:4] == frame[30:4] and ip and not vlan",
              "6960"},
             {"alert ip any any -> any any (ip_proto:132; sid:128;)", "ip.proto#1 == 132", "6974"},
             {R"(alert tcp any 80 -> $HOME_NET any (flow:to_client,established; content:"|0d 0a 0d 0a 7f|ELF"; )"
              "sid:129;)",
              "tcp.srcport == 80 and tcp.payload contains 0d:0a:0d:0a:7f:45:4c:46", "4772"},
         }},
        {"alerts held back by lines of their own",
         "examples:traffic.pcap",
         "",
         "",
         {
             {"alert icmp any any -> any any (itype:8; sid:1701;)\n"
              "suppress gen_id 1, sig_id 1701, track by_src, ip [10.0.10.0/24,!10.0.10.12]",
              "icmp.type#1 == 8 and (not ip.src#1 == 10.0.10.0/24 or ip.src#1 == 10.0.10.12)", "4129 4131 4133"},
             {"alert icmp any any -> any any (itype:8; sid:1702;)\n"
              "event_filter gen_id 1, sig_id 1702, type limit, track by_src, count 1, seconds 60",
              "icmp.type#1 == 8; the first 1 of each ip.src in 60 s",
              "4117 4123 4129 4135 4141 4147 4153 4159 4165 4171 4177 4183 4189 4195 4201 4207 4213 4219 4225 "
              "4231"},
             {"alert icmp any any -> any any (itype:8; sid:1703;)\n"
              "suppress gen_id 1, sig_id 1703",
              "every alert is suppressed", ""},
             {"alert icmpv6 any any -> any any (itype:128; sid:1704;)\n"
              "suppress gen_id 1, sig_id 1704, track by_either, ip 2001:db8:10::10/124\n"
              "suppress gen_id 1, sig_id 1704, track by_dst, ip 2001:db8:20::66",
              "icmpv6.type#1 == 128 and not ipv6.addr == 2001:db8:10::10/124 and not ipv6.dst == 2001:db8:20::66",
              "4337 4343 4349 4357"},
         }},
    };
    return captures;
}

}  // namespace millrace::nf::nids
