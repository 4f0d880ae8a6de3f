#include "millrace/io/capture/pcap_port.hpp"

#include <algorithm>
#include <filesystem>

#include "millrace/io/wake_event.hpp"

namespace millrace::io {

PcapPort::PcapPort(PortInfo info, std::optional<Input> input, std::unique_ptr<CaptureWriter> output)
    : Port(std::move(info)), input_(std::move(input)) {
    if (output) output_ = std::make_unique<CaptureSpool>(std::move(output));
    ended_ = !input_;
    if (!input_) return;
    pool_ = std::make_unique<PacketPool>(info_.name, input_->pool);
    pacer_.emplace(input_->options);
    progress_ = 0;
}

bool PcapPort::next_record(CaptureRecord& record) {
    CaptureReader& reader = *input_->reader;
    while (!reader.next(record)) {
        if (!reader.error().empty()) {
            receiving(0).drop(PortDrop::read_error);
            read_trouble_ = reader.error();
        } else if (++rounds_done_ < input_->options.loops && records_in_round_ > 0) {
            records_in_round_ = 0;
            pacer_->restart();
            try {
                reader.rewind();
                continue;
            } catch (const ConfigError& e) {
                receiving(0).drop(PortDrop::read_error);
                read_trouble_ = e.diagnostics().front().message;
            }
        }
        progress_.store(reader.error().empty() ? 1 : reader.progress(), std::memory_order_relaxed);
        ended_.store(true, std::memory_order_release);
        return false;
    }
    ++records_in_round_;
    return true;
}

bool PcapPort::fetch() {
    while (!have_ready_) {
        CaptureRecord record;
        if (!next_record(record)) return false;
        const auto reason = make_ready(*input_->reader, input_->options, pool_->max_frame_bytes(), record, ready_);
        if (reason) receiving(0).drop(*reason);
        else have_ready_ = true;
    }
    return pacer_->is_due(ready_.record.timestamp_ns);
}

uint16_t PcapPort::receive(uint16_t, rte_mbuf** mbufs, uint16_t count) {
    if (!input_ || ended_.load(std::memory_order_relaxed)) return 0;
    count = pacer_->allowed(count);
    uint16_t n = 0;
    uint64_t bytes = 0;
    while (n < count && fetch()) {
        rte_mbuf* mbuf = nullptr;
        if (!pool_->allocate(&mbuf, 1)) {
            increase(starved_, 1);
            break;
        }
        copy_frame(ready_, rte_pktmbuf_mtod(mbuf, uint8_t*));
        mbuf->pkt_len = ready_.length;
        mbuf->data_len = static_cast<uint16_t>(ready_.length);
        mbuf->port = info_.index;
        set_packet_metadata(mbuf, ready_.record.timestamp_ns, ready_.record.number);
        if (ready_.padded) increase(padded_, 1);
        if (ready_.snapped) increase(snapped_, 1);
        bytes += ready_.length;
        have_ready_ = false;
        mbufs[n++] = mbuf;
    }
    pacer_->took(n);
    if (n != 0) {
        receiving(0).count(n, bytes);
        if (!ended_.load(std::memory_order_relaxed) && input_->options.loops != UINT64_MAX)
            progress_.store((static_cast<double>(rounds_done_) + input_->reader->progress()) /
                                static_cast<double>(input_->options.loops),
                            std::memory_order_relaxed);
    }
    return n;
}

void PcapPort::begin_sleep(uint16_t, WakeUps& wake_ups) {
    wake_ups.poll();
    if (have_ready_) wake_ups.within(pacer_->until_due(ready_.record.timestamp_ns));
}

uint16_t PcapPort::send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    for (uint16_t i = 0; i < count; ++i) {
        if (mbufs[i]->nb_segs <= CaptureSpool::kMaxSegments) {
            if (!output_->put(mbufs[i])) return i;
            continue;
        }
        sending(queue).drop(PortDrop::too_many_segments);
        rte_pktmbuf_free(mbufs[i]);
    }
    return count;
}

PortCounters PcapPort::counters() const {
    PortCounters result = Port::counters();
    const auto detail = [&](const char* name, const std::atomic<uint64_t>& n) {
        if (n != 0) result.details[name] = n;
    };
    detail("padded", padded_);
    detail("snapped", snapped_);
    detail("pool-empty", starved_);
    if (output_) {
        result.sent_packets = output_->written_records();
        result.sent_bytes = output_->written_bytes();
        if (output_->lost_records() != 0) result.drops[drop_name(PortDrop::write_error)] = output_->lost_records();
    }
    return result;
}

void PcapPort::flush() {
    if (output_) output_->flush();
}

void PcapPort::close() {
    if (output_) output_->close();
    ended_ = true;
}

std::string PcapPort::trouble() const {
    std::string text;
    if (ended_.load(std::memory_order_acquire)) text = read_trouble_;
    if (output_ && !output_->error().empty()) text += (text.empty() ? "" : "; ") + output_->error();
    return text;
}

OpenPort plan_pcap(const PortPlan& plan) {
    std::vector<std::string> keys = {"output"};
    std::optional<CaptureOptions> input;
    PortInfo info = plan.info;
    if (info.kind == "pcap") {
        keys.insert(keys.end(), CaptureOptions::keys().begin(), CaptureOptions::keys().end());
        plan.only(keys);
        input = CaptureOptions::read(plan.options, plan.value);
        if (const auto queues = plan.options.find("queues"); queues && plan.queues > 1)
            queues->fail("a capture file is read by one queue",
                         "use 'capture', which loads it into memory, for several");
        info.receive_queues = 1;
        info.detail = input->path;
        check_capture(*input, plan);
    } else {
        plan.only(keys);
    }
    const auto output = plan.options.find("output");
    std::string output_path;
    if (output) {
        output_path = plan.output_path(*output);
        info.send_queues = plan.queues;
        info.mtu = 65535;
        info.detail += (info.detail.empty() ? "to " : ", to ") + output_path;
    }
    return [plan, info, input, output, output_path]() -> std::unique_ptr<Port> {
        std::optional<PcapPort::Input> opened;
        if (input) {
            opened.emplace(PcapPort::Input{*input, std::make_unique<CaptureReader>(input->path, input->where), {}});
            opened->pool = plan.pool_for(longest_frame_of(*opened->reader, *input, plan));
        }
        std::unique_ptr<CaptureWriter> writer;
        if (output) {
            // Folders are made below the output folder only; what then is missing, opening the file tells.
            std::error_code ignored;
            if (std::filesystem::path(output->text()).is_relative())
                std::filesystem::create_directories(std::filesystem::path(output_path).parent_path(), ignored);
            writer = std::make_unique<CaptureWriter>(output_path, capture_format(output_path), output->where());
        }
        return std::make_unique<PcapPort>(info, std::move(opened), std::move(writer));
    };
}

}  // namespace millrace::io
