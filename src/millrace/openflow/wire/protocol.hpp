// OpenFlow 1.3's numbers, by its names (OpenFlow Switch Specification 1.3.5, section 7).
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::openflow {

inline constexpr uint8_t kVersion = 4;  ///< OpenFlow 1.3
inline constexpr size_t kHeaderBytes = 8;
inline constexpr uint32_t kNoBuffer = 0xffffffffu;
inline constexpr uint32_t kOnf = 0x4f4e4600u;                               ///< the experimenter ONF
inline constexpr uint32_t kBundleControl = 2300, kBundleAddMessage = 2301;  ///< its messages (EXT-230)

/// ofp_type
enum class Type : uint8_t {
    hello,
    error,
    echo_request,
    echo_reply,
    experimenter,
    features_request,
    features_reply,
    get_config_request,
    get_config_reply,
    set_config,
    packet_in,
    flow_removed,
    port_status,
    packet_out,
    flow_mod,
    group_mod,
    port_mod,
    table_mod,
    multipart_request,
    multipart_reply,
    barrier_request,
    barrier_reply,
    queue_get_config_request,
    queue_get_config_reply,
    role_request,
    role_reply,
    get_async_request,
    get_async_reply,
    set_async,
    meter_mod,
};

/// ofp_port_no, those that are no ports
namespace port {
inline constexpr uint32_t kMax = 0xffffff00u, kInPort = 0xfffffff8u, kTable = 0xfffffff9u, kFlood = 0xfffffffbu,
                          kAll = 0xfffffffcu, kController = 0xfffffffdu, kAny = 0xffffffffu;
}  // namespace port
namespace group {
inline constexpr uint32_t kAll = 0xfffffffcu, kAny = 0xffffffffu;
}  // namespace group

/// What an ERROR message says: ofp_error_type, and a code of that type.
struct Error {
    uint16_t type = 0, code = 0;
    friend bool operator==(const Error&, const Error&) = default;
};
namespace error {
inline constexpr Error hello_incompatible{0, 0}, hello_refused{0, 1};
inline constexpr Error bad_version{1, 0}, bad_type{1, 1}, bad_multipart{1, 2}, bad_experimenter{1, 3},
    bad_experimenter_type{1, 4}, bad_length{1, 6}, buffer_unknown{1, 8}, bad_table{1, 9}, is_slave{1, 10},
    bad_port{1, 11}, bad_packet{1, 12}, multipart_overflow{1, 13};
inline constexpr Error action_type{2, 0}, action_length{2, 1}, action_experimenter{2, 2}, action_port{2, 4},
    action_argument{2, 5}, action_group{2, 9}, action_unsupported_order{2, 11}, action_set_type{2, 13},
    action_set_length{2, 14}, action_set_argument{2, 15};
inline constexpr Error instruction_unknown{3, 0}, instruction_unsupported{3, 1}, instruction_table{3, 2},
    instruction_metadata{3, 3}, instruction_experimenter{3, 5}, instruction_length{3, 7};
inline constexpr Error match_type{4, 0}, match_length{4, 1}, match_wildcards{4, 5}, match_field{4, 6},
    match_value{4, 7}, match_mask{4, 8}, match_need{4, 9}, match_twice{4, 10};
inline constexpr Error flow_table_full{5, 1}, flow_table_id{5, 2}, flow_overlap{5, 3}, flow_command{5, 6},
    flow_flags{5, 7};
inline constexpr Error group_exists{6, 0}, group_invalid{6, 1}, group_weight{6, 2}, group_out_of_groups{6, 3},
    group_out_of_buckets{6, 4}, group_chaining{6, 5}, group_watch{6, 6}, group_unknown{6, 8}, group_type{6, 10},
    group_command{6, 11}, group_bucket{6, 12}, group_bad_watch{6, 13};
inline constexpr Error port_mod_port{7, 0}, port_mod_address{7, 1}, port_mod_config{7, 2};
inline constexpr Error table_mod_table{8, 0}, table_mod_config{8, 1};
inline constexpr Error queue_port{9, 0};
inline constexpr Error config_flags{10, 0};
inline constexpr Error role_stale{11, 0}, role_bad{11, 2};
inline constexpr Error meter_exists{12, 1}, meter_invalid{12, 2}, meter_unknown{12, 3}, meter_command{12, 4},
    meter_flags{12, 5}, meter_rate{12, 6}, meter_band{12, 8}, meter_out_of_meters{12, 10}, meter_out_of_bands{12, 11};
inline constexpr Error table_features_permission{13, 5};
/// Of the ONF's extensions: their number follows the code in the message.
inline constexpr uint16_t kExperimenter = 0xffff;
inline constexpr Error bundle_bad_id{kExperimenter, 2302}, bundle_exists{kExperimenter, 2303},
    bundle_closed{kExperimenter, 2304}, bundle_out_of_bundles{kExperimenter, 2305},
    bundle_bad_type{kExperimenter, 2306}, bundle_bad_flags{kExperimenter, 2307}, bundle_bad_length{kExperimenter, 2308},
    bundle_bad_xid{kExperimenter, 2309}, bundle_unsupported{kExperimenter, 2310}, bundle_too_many{kExperimenter, 2312},
    bundle_failed{kExperimenter, 2313};
}  // namespace error

/// ofp_multipart_type
enum class Multipart : uint16_t {
    desc,
    flow,
    aggregate,
    table,
    port_stats,
    queue,
    group,
    group_desc,
    group_features,
    meter,
    meter_config,
    meter_features,
    table_features,
    port_desc,
};

/// ofp_action_type, ofp_instruction_type
namespace action {
inline constexpr uint16_t kOutput = 0, kCopyTtlOut = 11, kCopyTtlIn = 12, kSetMplsTtl = 15, kDecMplsTtl = 16,
                          kPushVlan = 17, kPopVlan = 18, kPushMpls = 19, kPopMpls = 20, kGroup = 22, kSetNwTtl = 23,
                          kDecNwTtl = 24, kSetField = 25, kPushPbb = 26, kPopPbb = 27, kExperimenter = 0xffff;
}
namespace instruction {
inline constexpr uint16_t kGotoTable = 1, kWriteMetadata = 2, kWriteActions = 3, kApplyActions = 4, kClearActions = 5,
                          kMeter = 6, kExperimenter = 0xffff;
}

/// ofp_meter
namespace meter {
inline constexpr uint32_t kAll = 0xffffffffu;
}

/// ofp_controller_role
enum class Role : uint32_t { no_change, equal, master, slave };

/// ofp_packet_in_reason
enum class PacketInReason : uint8_t { no_match, action, invalid_ttl };

}  // namespace millrace::openflow
