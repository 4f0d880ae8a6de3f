// Frames for tests: nftest/packets/packet_builder.hpp; see tests/support/README.md.
#pragma once

#include "millrace/nftest/packets/packet_builder.hpp"

namespace millrace::test {

using nftest::build;
using nftest::build_packet;
using nftest::bytes_of;
using nftest::Frame;
using nftest::hex_dump;
using nftest::IcmpHeader;
using nftest::ipv4;
using nftest::Ipv4Header;
using nftest::ipv6;
using nftest::Ipv6Extension;
using nftest::Ipv6Header;
using nftest::Mac;
using nftest::PacketSpec;
using nftest::parse_hex;
using nftest::random_packet;
using nftest::random_packets;
using nftest::random_spec;
using nftest::RandomOptions;
using nftest::read_packet_spec;
using nftest::Rng;
using nftest::TcpHeader;
using nftest::UdpHeader;
using nftest::VlanTag;

}  // namespace millrace::test
