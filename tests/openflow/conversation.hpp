// A controller that says given bytes to a session, and a switch around it without ports or packets.
#pragma once

#include <gtest/gtest.h>

#include <iomanip>
#include <sstream>

#include "millrace/nf/switch/text/match_field.hpp"
#include "millrace/openflow/session/session.hpp"

namespace millrace::test {

using namespace millrace::openflow;

inline Bytes from_hex(const std::string& text) {
    Bytes bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2) {
        while (text[i] == ' ') ++i;
        bytes.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

inline std::string to_hex(ByteView bytes) {
    std::ostringstream text;
    for (const uint8_t byte : bytes)
        text << std::hex << std::setw(2) << std::setfill('0') << static_cast<unsigned>(byte);
    return text.str();
}

class FakeDatapath : public Datapath {
public:
    struct Injected {
        Bytes frame;
        uint16_t in_port, out_port;
    };
    explicit FakeDatapath(bool pipeline = false)
        : control_(flow_switch::PortNumbers({"lan", "wan", "dmz"}), {}, flow_switch::Flow::kMaxFlows, 0, pipeline) {
        control_.set_address({{}, 0x2a, nullptr});
    }
    flow_switch::Control& control() override { return control_; }
    std::vector<PortView> ports() const override { return views; }
    Lookups lookups() const override { return {9, 7}; }
    bool inject(ByteView frame, uint16_t in_port, uint16_t out_port) override {
        injected.push_back({Bytes(frame.begin(), frame.end()), in_port, out_port});
        return true;
    }
    std::vector<PortView> views = {
        {1, "lan", {2, 0, 0, 0, 0, 1}, true, 10'000, 11, 12, 13, 14, 15, 16, 17, 18}, {2, "wan"}, {3, "dmz"}};
    std::vector<Injected> injected;

private:
    flow_switch::Control control_;
};

/// A message that the session has sent.
struct Said {
    Type type;
    uint32_t xid;
    Bytes body;

    Error error() const { return type == Type::error ? Error{number(0, 2), number(2, 2)} : Error{0xffff, 0xffff}; }
    uint16_t number(size_t at, size_t count) const {
        return static_cast<uint16_t>(Reader(ByteView(body).subspan(at, count), {}).number(count));
    }
};

inline std::ostream& operator<<(std::ostream& out, const Error& error) {
    return out << "type " << error.type << " code " << error.code;
}

class Conversation {
public:
    explicit Conversation(bool greet = true, bool pipeline = false) : datapath(pipeline) {
        if (greet) say(from_hex("0400000800000001"));
        said();
    }

    /// Gives the session bytes; everything that it asks of the switch is at work at once, unless `at_work` is false.
    void say(ByteView bytes, bool at_work = true) {
        alive = alive && session.receive(bytes);
        while (alive && at_work) {
            const size_t before = session.output().size();
            datapath.control().at_work(datapath.control().version(), nullptr);
            alive = session.iterate();
            if (session.output().size() == before) break;
        }
    }
    void say(const std::string& hex, bool at_work = true) { say(from_hex(hex), at_work); }

    /// What the session has sent since; whole messages of version 4, or the test fails.
    std::vector<Said> said() {
        std::vector<Said> messages;
        Reader output(session.output(), {});
        while (output.left() > 0) {
            EXPECT_GE(output.left(), kHeaderBytes);
            EXPECT_EQ(output.u8(), kVersion);
            Said message;
            message.type = static_cast<Type>(output.u8());
            const uint16_t length = output.u16();
            message.xid = output.u32();
            const ByteView body = output.take(length - kHeaderBytes);
            message.body.assign(body.begin(), body.end());
            messages.push_back(std::move(message));
        }
        session.output().clear();
        return messages;
    }
    /// The only message that the session answers with.
    Said answer(const std::string& hex) {
        say(hex);
        const std::vector<Said> messages = said();
        EXPECT_EQ(messages.size(), 1u) << hex;
        return messages.empty() ? Said{} : messages[0];
    }
    std::vector<std::string> flows() {
        std::vector<std::string> texts;
        for (const auto& entry : datapath.control().flows({}, {}))
            texts.push_back(text_of(entry.flow, datapath.control().ports()));
        return texts;
    }

    FakeDatapath datapath;
    Roles roles;
    Session session{datapath, roles};
    bool alive = true;
};

}  // namespace millrace::test
