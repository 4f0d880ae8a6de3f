#include <fmt/format.h>

#include <chrono>

#include "millrace/nf/ipfix/record_log.hpp"
#include "millrace/nf/state/keyed_table.hpp"
#include "millrace/nf/tended.hpp"

namespace millrace::nf::ipfix {
namespace {

uint64_t wall_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
}

class IpfixHost : public KeyedFunction<Ipfix>, public Tended {
public:
    IpfixHost(const Config& config, const Environment& environment)
        : IpfixHost(read_options(config, environment.output_folder), environment) {}

    std::string summary() const override { return summary_; }
    std::vector<Statistic> statistics() const override;
    /// What TCP says of segments that are yet to be cut holds for all of them together.
    bool takes_uncut() const override { return true; }

    void on_event(const Event& event, const PacketInfo&) override {
        if (event.code > 1) return;
        std::memcpy(reinterpret_cast<uint8_t*>(&note_) + event.code * Event::kNoteBytes, &event, Event::kNoteBytes);
        if (event.code == 1) log_->add(note_);
    }
    void device_lost() override {
        KeyedFunction::device_lost();
        log_->forget();
    }
    void events_told() override { log_->send_rest(); }

    void tend(StateReader* reader) override {
        tell_ignored();
        log_->end_idle(table().entries(), each_by(reader));
    }
    void end(StateReader* reader) override {
        tell_ignored();
        log_->end_all(each_by(reader));
    }
    bool goes_on_with(const NetworkFunction& before) const override {
        const auto* const own = dynamic_cast<const IpfixHost*>(&before);
        return own != nullptr && table().goes_on_with(own->table());
    }

private:
    IpfixHost(const Options& options, const Environment& environment)
        : KeyedFunction(options.flows, environment, "flows"), log_(log_of(options.to, environment)) {
        const auto* const previous = dynamic_cast<const IpfixHost*>(environment.previous);
        not_told_ = previous != nullptr ? previous->not_told_
                                        : std::make_shared<std::vector<uint64_t>>(static_cast<size_t>(NotTold::count));
        Ipfix::Tables& own = tables();
        image_to_fill().attach_state(own.not_told, not_told_, "not-told");
        own.active_ns = options.active_ns;
        own.linger_ns = std::min(options.flows.timeout_ns, Ipfix::kLingerNs);
        summary_ = fmt::format("to {}, {} KiB of flows", options.to.target(), table().bytes() >> 10);
    }
    static std::shared_ptr<RecordLog> log_of(const ExportOptions& to, const Environment& environment) {
        auto* const previous = dynamic_cast<IpfixHost*>(environment.previous);
        if (previous != nullptr && previous->log_->is_of(to)) return previous->log_;
        std::unique_ptr<Sender> sender = !to.file.empty()   ? make_file_sender(to, environment.warn)
                                         : environment.live ? make_udp_sender(to)
                                                            : make_no_sender(to);
        return std::make_shared<RecordLog>(to, std::move(sender), environment.ports, wall_ns);
    }
    RecordLog::Each each_by(StateReader* reader) const {
        return [this, reader](uint64_t until, const RecordLog::Visit& visit) {
            return table().each(reader, visit, until);
        };
    }
    RecordSum not_told() const {
        const auto of = [this](NotTold what) { return (*not_told_)[static_cast<size_t>(what)]; };
        return {of(NotTold::records), of(NotTold::packets), of(NotTold::octets)};
    }
    void tell_ignored() { log_->set_ignored(table().refused(), not_told()); }

    std::shared_ptr<RecordLog> log_;
    std::shared_ptr<std::vector<uint64_t>> not_told_;
    Note note_{};  ///< whose pieces are being told
    std::string summary_;
};

std::vector<Statistic> IpfixHost::statistics() const {
    std::vector<Statistic> all = table().statistics();
    const RecordSum sent = log_->sent(), not_told = this->not_told();
    all.push_back({"records-exported", sent.records, "records of flows that were sent"});
    all.push_back({"packets-exported", sent.packets, "packets that they have counted"});
    all.push_back({"octets-exported", sent.octets, "bytes of IP that they have counted"});
    all.push_back({"messages", log_->messages(), "messages that were sent"});
    all.push_back({"message-bytes", log_->message_bytes(), "their bytes"});
    RecordSum lost = not_told;
    const auto unsent = [&](const char* name, Unsent why, const char* help) {
        const RecordSum sum = log_->unsent(why);
        all.push_back({name, sum.records, help});
        lost += sum;
    };
    unsent("records-refused", Unsent::refused, "records lost: nobody listens at the collector");
    unsent("records-unreachable", Unsent::unreachable, "records lost: there is no way to the collector");
    unsent("records-queue-full", Unsent::queue_full, "records lost: the system had no room for their message");
    unsent("records-failed", Unsent::failed, "records lost: their message could not be sent or written");
    all.push_back({"records-not-told", not_told.records, "records lost: a batch had no room for more"});
    all.push_back({"packets-lost", lost.packets, "packets that all lost records have counted"});
    return all;
}

const Register<Ipfix, IpfixHost> registration{{
    .name = "ipfix",
    .summary = "counts the packets of each flow, and exports its records by IPFIX",
    .outcomes = {{"counted", Disposition::next, "it is counted to its flow"},
                 {"full", Disposition::next, "there is no room for one more flow, and it is not counted"},
                 {"uncounted", Disposition::next, "it is no well-formed IP packet, and is not counted"}},
    .device_header = "millrace/nf/ipfix/device.hpp",
    .device_struct = "millrace::nf::ipfix::Ipfix",
    .emits_events = true,
    .note_bytes = sizeof(Note),
}};

}  // namespace
}  // namespace millrace::nf::ipfix
