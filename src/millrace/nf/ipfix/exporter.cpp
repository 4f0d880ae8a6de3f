#include "millrace/nf/ipfix/exporter.hpp"

#include <cerrno>

namespace millrace::nf::ipfix {
namespace {

constexpr uint64_t kNsOfSecond = 1'000'000'000;

Unsent reason_of(int error) {
    switch (error) {
        case ECONNREFUSED: return Unsent::refused;
        case ENETUNREACH:
        case EHOSTUNREACH:
        case ENETDOWN:
        case EADDRNOTAVAIL:
        case ENOTCONN: return Unsent::unreachable;
        case EAGAIN:
        case ENOBUFS: return Unsent::queue_full;
        default: return Unsent::failed;
    }
}

}  // namespace

Exporter::Exporter(const ExportOptions& options, std::unique_ptr<Sender> sender, std::vector<std::string> ports,
                   std::function<uint64_t()> wall_ns)
    : options_(options), sender_(std::move(sender)), ports_(std::move(ports)), wall_ns_(std::move(wall_ns)),
      message_(sender_->most_bytes(), options.domain) {}

Exporter::~Exporter() { send_rest(); }

/// No record is longer than the shortest message.
void Exporter::add(const Note& note) {
    flow_.clear();
    const TemplateId id = write_flow(note, flow_);
    if (message_.empty()) tell_templates_if_due();
    if (!message_.add(id, flow_.view())) {
        send_message();
        tell_templates_if_due();
        message_.add(id, flow_.view());
    }
    in_message_ += {1, note.count.packets, note.count.octets};
}

void Exporter::tell_templates_if_due() {
    if (!told_templates_ || messages_since_templates_ >= options_.template_messages ||
        wall_ns_() - templates_ns_ >= options_.template_refresh_ns)
        tell_templates();
}

/// Templates, and behind them what changes seldom.
void Exporter::tell_templates() {
    told_templates_ = true;
    templates_ns_ = wall_ns_();
    const auto put = [this](uint16_t set, auto&& write) {
        record_.clear();
        write();
        if (message_.add(set, record_.view())) return;
        send_message();
        message_.add(set, record_.view());
    };
    for (const TemplateId id : {kIpv4Flow, kIpv6Flow}) put(kTemplateSet, [&] { write_template(id, record_); });
    for (const TemplateId id : {kStatistics, kInterface})
        put(kOptionsTemplateSet, [&] { write_options_template(id, record_); });
    put(kStatistics, [this] {
        ExporterCounts counts{.messages = messages_,
                              .records = sent_.records + last_sent_.records,
                              .octets = message_bytes_,
                              .ignored_packets = ignored_packets_};
        RecordSum unsent = not_told_;
        for (const RecordSum& sum : unsent_) unsent += sum;
        counts.unsent_records = unsent.records;
        counts.unsent_packets = unsent.packets;
        counts.unsent_octets = unsent.octets;
        write_statistics(options_.domain, counts, record_);
    });
    for (size_t port = 0; port < ports_.size(); ++port)
        put(kInterface, [&] { write_interface(static_cast<uint16_t>(port), ports_[port], record_); });
    send_message();
    messages_since_templates_ = 0;
}

void Exporter::send_rest() {
    if (!message_.empty()) send_message();
}

void Exporter::finish() {
    send_rest();
    tell_templates();
    settle_last();
}

void Exporter::settle_last() {
    settle(last_sent_, sender_->refused());
    last_sent_ = {};
}

void Exporter::settle(const RecordSum& sum, int error) {
    if (error == 0) sent_ += sum;
    else unsent_[static_cast<size_t>(reason_of(error))] += sum;
}

/// Sequence numbers count what was not sent, too: so a collector sees that it is missing.
void Exporter::send_message() {
    const std::span<const uint8_t> bytes = message_.finish(static_cast<uint32_t>(wall_ns_() / kNsOfSecond), sequence_);
    sequence_ += message_.data_records();
    int error = sender_->send(bytes);
    const bool refused = error == ECONNREFUSED;
    settle(last_sent_, refused ? error : 0);
    last_sent_ = {};
    if (refused) error = sender_->send(bytes);
    while (error != 0 && waits_ && reason_of(error) == Unsent::queue_full && (waits_ = sender_->wait_for_room()))
        error = sender_->send(bytes);
    if (error == 0) {
        ++messages_;
        message_bytes_ += bytes.size();
        last_sent_ = in_message_;
    } else {
        settle(in_message_, error);
    }
    ++messages_since_templates_;
    in_message_ = {};
    message_.clear();
}

void Exporter::set_ignored(uint64_t packets, const RecordSum& not_told) {
    ignored_packets_ = packets;
    not_told_ = not_told;
}

}  // namespace millrace::nf::ipfix
