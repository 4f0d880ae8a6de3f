// A gateway that is told of SAs and policies by messages, in place of the kernel's.
#pragma once

#include <unistd.h>

#include "millrace/nf/ipsec/host.hpp"
#include "millrace/nftest/nf_runner.hpp"
#include "nf/ipsec/xfrm_messages.hpp"
#include "support/packet_arena.hpp"

namespace millrace::test {

class Told : public nf::ipsec::XfrmListener {
public:
    Told()
        : database_(4500, Config::parse("{}"),
                    [this](const std::string& message, const std::string&) { warnings.push_back(message); }) {
        unlink(sequence_file().c_str());
        const nf::Environment environment{
            .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts};
        configuration_ = std::make_shared<nf::ipsec::IpsecHost>(
            Config::parse("{kernel: true, sequence-file: '" + sequence_file() + "', default: bypass, sa-slots: 64}"),
            environment);
        now_ = configuration_;
    }
    ~Told() override { unlink(sequence_file().c_str()); }

    void tell(const XfrmMessage& message) { nf::ipsec::parse_xfrm(message.bytes(), *this); }
    nf::ipsec::Options options() const {
        nf::ipsec::Options all;
        all.default_action = nf::ipsec::Action::bypass;
        database_.add_to(all);
        return all;
    }
    /// Brings what was told to work, as `next` does.
    void apply() {
        nf::ipsec::Options all = options();
        now_ = std::make_shared<nf::ipsec::IpsecHost>(*now_, std::move(all), database_.version());
    }
    /// With one number of lanes, or by the CPU half (0); outcomes, and frames as they are afterwards.
    std::vector<std::string> run(std::vector<Frame>& frames, unsigned lanes) {
        const nf::Type& type = nf::type_of(*nf::find_type("ipsec"), *now_);
        PacketArena arena(128, 128);
        for (const Frame& frame : frames) arena.add(frame);
        std::vector<Decision> decisions(frames.size());
        if (lanes > 0) {
            nftest::run_device_half(type, now_->image().tables(), lanes, arena, decisions);
        } else {
            std::vector<Packet*> packets;
            for (size_t i = 0; i < frames.size(); ++i) packets.push_back(&arena[i]);
            now_->make_cpu_half()->process(packets, decisions.data());
        }
        std::vector<std::string> outcomes;
        for (size_t i = 0; i < frames.size(); ++i) {
            frames[i] = arena.bytes(i);
            outcomes.push_back(type.outcomes[decisions[i].outcome].name);
        }
        return outcomes;
    }
    std::string run_one(Frame& frame, unsigned lanes = 8) {
        std::vector<Frame> frames{frame};
        const std::string outcome = run(frames, lanes)[0];
        frame = frames[0];
        return outcome;
    }

    void on_sa(const nf::ipsec::XfrmSa& sa) override { database_.on_sa(sa); }
    void on_sa_gone(const nf::ipsec::XfrmId& id) override { database_.on_sa_gone(id); }
    void on_policy(const nf::ipsec::XfrmPolicy& policy) override { database_.on_policy(policy); }
    void on_policy_gone(const nf::ipsec::Selector& selector, uint8_t direction) override {
        database_.on_policy_gone(selector, direction);
    }
    void on_flush(bool policies) override { database_.on_flush(policies); }
    void on_hidden_change() override { ++hidden; }
    void on_answered(uint32_t, int) override {}
    void on_malformed() override { ++malformed; }

    std::vector<std::string> warnings;
    size_t malformed = 0, hidden = 0;
    nf::ipsec::XfrmDatabase& database() { return database_; }

private:
    static std::string sequence_file() { return testing::TempDir() + "xfrm-sequences-" + std::to_string(getpid()); }
    nf::ipsec::XfrmDatabase database_;
    std::shared_ptr<nf::ipsec::IpsecHost> configuration_, now_;
};

}  // namespace millrace::test
