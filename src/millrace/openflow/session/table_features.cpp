#include "millrace/openflow/session/reply.hpp"
#include "millrace/openflow/session/session.hpp"
#include "millrace/openflow/wire/actions.hpp"

namespace millrace::openflow {
namespace {

/// A property of a table: its type, then what `write` appends.
template <class Write>
void write_property(Writer& writer, uint16_t type, Write&& write) {
    const size_t begin = writer.size();
    writer.u16(type).u16(0);
    write();
    writer.set_u16(begin + 2, writer.size() - begin);
    writer.pad_to_8(begin);
}

/// What one table can: all can the same but go on to lower ones.
void write_table(Writer& writer, Datapath& datapath, uint8_t table, unsigned count) {
    const bool pipeline = datapath.control().pipeline(), last = table + 1u == count;
    const uint64_t metadata = pipeline ? ~uint64_t{0} : 0;
    const std::vector<uint16_t> actions = known_actions(pipeline);
    std::vector<uint16_t> instructions = known_instructions(pipeline);
    if (last) std::erase(instructions, instruction::kGotoTable);
    const auto numbers = [&](const std::vector<uint16_t>& all) {
        for (const uint16_t number : all) writer.u16(number).u16(4);
    };
    const auto fields = [&](auto&& wanted, bool masks) {
        for (const flow_switch::MatchField& field : flow_switch::match_fields())
            if (wanted(field)) write_oxm_header(writer, field, masks && field.form != flow_switch::FieldForm::port);
    };
    const auto any = [](const flow_switch::MatchField&) { return true; };
    const auto settable = [](const flow_switch::MatchField& field) { return field.set != nullptr; };
    const size_t begin = writer.size();
    writer.u16(0)
        .u8(table)
        .zeros(5)
        .text(pipeline ? "table " + std::to_string(table) : "switch", 32)
        .u64(metadata)
        .u64(metadata)
        .u32(0)
        .u32(datapath.control().max_flows());
    // The kinds for table-miss flows are the same; left out they say so.
    write_property(writer, 0, [&] { numbers(instructions); });
    write_property(writer, 2, [&] {
        for (unsigned next = table + 1u; next < count; ++next) writer.u8(next);
    });
    write_property(writer, 4, [&] { numbers(actions); });          // that can be written
    write_property(writer, 6, [&] { numbers(actions); });          // and applied
    write_property(writer, 8, [&] { fields(any, true); });         // match
    write_property(writer, 10, [&] { fields(any, false); });       // that may be left out
    write_property(writer, 12, [&] { fields(settable, false); });  // set by what is written
    write_property(writer, 14, [&] { fields(settable, false); });  // and applied
    writer.set_u16(begin, writer.size() - begin);
}

}  // namespace

void answer_table_features(Datapath& datapath, Reader& request, Reply& reply) {
    if (request.left() > 0) throw error::table_features_permission;
    const unsigned count = tables_of(datapath.control());
    for (unsigned table = 0; table < count; ++table)
        reply.entry([&](Writer& writer) { write_table(writer, datapath, static_cast<uint8_t>(table), count); });
}

}  // namespace millrace::openflow
