// Frames for tests are the laboratory's; see tests/support/README.md.
#pragma once

#include "lab/packets/packet_builder.hpp"

namespace millrace::test {

using lab::build;
using lab::build_packet;
using lab::bytes_of;
using lab::Frame;
using lab::hex_dump;
using lab::IcmpHeader;
using lab::ipv4;
using lab::Ipv4Header;
using lab::ipv6;
using lab::Ipv6Extension;
using lab::Ipv6Header;
using lab::Mac;
using lab::PacketSpec;
using lab::parse_hex;
using lab::random_packet;
using lab::random_packets;
using lab::random_spec;
using lab::RandomOptions;
using lab::read_packet_spec;
using lab::Rng;
using lab::TcpHeader;
using lab::UdpHeader;
using lab::VlanTag;

}  // namespace millrace::test
