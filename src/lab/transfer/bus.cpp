#include "lab/transfer/bus.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>

#include "lab/clock.hpp"

namespace millrace::lab {
namespace {

using device::Address;
using device::Status;

/// Memory of both sides for one direction, and the stream that moves it.
class Lane {
public:
    Lane(device::Device& device, const BusOptions& options, bool to_device)
        : device_(device), options_(options), to_device_(to_device),
          bytes_(to_device ? options.to_device_bytes : options.to_host_bytes) {
        if (bytes_ == 0) return;
        rows_ = to_device && options.row_bytes != 0 ? std::max<size_t>(bytes_ / options.row_bytes, 1) : 0;
        const size_t host_bytes = rows_ != 0 ? rows_ * options.pitch_bytes : bytes_;
        for (unsigned i = 0; i < options.depth; ++i) {
            host_.push_back(device.allocate_host(host_bytes));
            std::memset(host_.back(), 1, host_bytes);
            there_.push_back(device.allocate(bytes_, "the bus benchmark"));
        }
        stream_ = device.create_stream();
    }
    ~Lane() {
        for (void* memory : host_) device_.free_host(memory);
        for (const Address address : there_) device_.free(address);
    }
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    bool used() const { return bytes_ != 0; }
    uint64_t done() const { return done_; }
    bool idle() const { return under_way_.empty(); }
    size_t bytes() const { return rows_ != 0 ? rows_ * options_.row_bytes : bytes_; }

    /// Starts copies while there is room and `ahead` allows, and takes in those that have come.
    void turn(bool more) {
        if (!used()) return;
        while (more && under_way_.size() < options_.depth) {
            device::EventId event = 0;
            require(copy(started_++ % options_.depth));
            require(device_.record(stream_, event));
            under_way_.push_back(event);
        }
        while (!under_way_.empty()) {
            const Status status = device_.query(under_way_.front());
            if (status == Status::pending) break;
            require(status);
            under_way_.pop_front();
            ++done_;
        }
    }
    uint64_t started() const { return started_; }

private:
    Status copy(size_t i) {
        if (rows_ != 0)
            return device_.copy_rows_to_device(stream_, there_[i], options_.row_bytes, host_[i], options_.pitch_bytes,
                                               options_.row_bytes, rows_);
        return to_device_ ? device_.copy_to_device(stream_, there_[i], host_[i], bytes_)
                          : device_.copy_to_host(stream_, host_[i], there_[i], bytes_);
    }

    device::Device& device_;
    const BusOptions& options_;
    const bool to_device_;
    const size_t bytes_;
    size_t rows_ = 0;
    device::StreamId stream_ = 0;
    std::vector<void*> host_;
    std::vector<Address> there_;
    std::deque<device::EventId> under_way_;
    uint64_t started_ = 0, done_ = 0;
};

}  // namespace

BusRate measure_bus(device::Device& device, const BusOptions& options) {
    Lane in(device, options, true), out(device, options, false);
    const bool both = in.used() && out.used();
    const auto turn = [&](bool more) {
        // Neither way may run ahead of the other, or it would have the bus to itself for a while.
        in.turn(more && (!both || in.started() <= out.done() + options.depth));
        out.turn(more && (!both || out.started() <= in.done() + options.depth));
    };
    const auto run = [&](double seconds) {
        const uint64_t from_in = in.done(), from_out = out.done();
        const auto begin = Clock::now();
        const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
        while (elapsed() < seconds) turn(true);
        const double took = elapsed();
        return std::pair{static_cast<double>(in.done() - from_in) / took,
                         static_cast<double>(out.done() - from_out) / took};
    };
    run(options.seconds / 4);
    const auto [pieces_in, pieces_out] = run(options.seconds);
    while (!in.idle() || !out.idle()) turn(false);
    BusRate rate;
    rate.pieces_per_second = both ? std::min(pieces_in, pieces_out) : pieces_in + pieces_out;
    rate.to_device_gbs = pieces_in * static_cast<double>(in.bytes()) * 1e-9;
    rate.to_host_gbs = pieces_out * static_cast<double>(out.bytes()) * 1e-9;
    return rate;
}

double bus_limit(device::Device& device, double bytes_in, double bytes_out, double seconds, size_t piece) {
    const double packets = static_cast<double>(piece) / std::max({bytes_in, bytes_out, 1.0});
    BusOptions options;
    options.to_device_bytes = static_cast<size_t>(bytes_in * packets);
    options.to_host_bytes = static_cast<size_t>(bytes_out * packets);
    options.seconds = seconds;
    return measure_bus(device, options).pieces_per_second * packets;
}

}  // namespace millrace::lab
