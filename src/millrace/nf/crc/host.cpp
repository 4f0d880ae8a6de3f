#include <fmt/format.h>

#include "millrace/nf/crc/device.hpp"
#include "millrace/nf/crc/libraries.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::nf::crc {
namespace {

class CrcHalf : public CpuHalf {
public:
    CrcHalf(const Crc::Tables& tables, CrcFunction crc) : tables_(tables), crc_(crc) {}

    void process(std::span<Packet* const> packets, Decision* decisions) override {
        for (size_t i = 0; i < packets.size(); ++i) decisions[i] = Crc::decide(*packets[i], tables_, Lanes<1>{}, crc_);
    }

private:
    const Crc::Tables& tables_;
    const CrcFunction crc_;
};

class CrcHost : public NetworkFunction {
public:
    CrcHost(const Config& options, const Environment&) {
        options.only({"mode", "polynomial", "strip"});
        const bool set = options.at("mode").choice({"set", "check"}) == 0;
        if (const auto value = options.find("polynomial"))
            polynomial_ = static_cast<Polynomial>(
                value->choice({std::begin(kPolynomialNames), std::end(kPolynomialNames)}));
        const auto strip = options.find("strip");
        if (set && strip) strip->fail("'strip' goes with 'mode: check'", "leave it out: what is set stays");

        Crc::Tables& tables = image_.start<Crc::Tables>();
        tables.set = set ? 1 : 0;
        tables.strip = !set && (!strip || strip->boolean()) ? 1 : 0;
        tables.crc.polynomial = reflected(polynomial_);
        image_.attach(tables.crc.steps, make_steps(tables.crc.polynomial));
        image_.attach(tables.crc.powers, make_powers(tables.crc.polynomial));
    }

    const Image& image() const override { return image_; }
    Growth growth(const Growth& of_type) const override { return own().set != 0 ? of_type : Growth{}; }
    Fields writes(Fields of_type) const override { return own().set + own().strip != 0 ? of_type : field::none; }
    std::unique_ptr<CpuHalf> make_cpu_half() override {
        return std::make_unique<CrcHalf>(own(), libraries().front().of[static_cast<size_t>(polynomial_)]);
    }
    std::string summary() const override {
        const char* const does = own().set != 0 ? "sets" : own().strip != 0 ? "checks and takes off" : "checks";
        return fmt::format("{} the {} CRC-32; on the CPU by {}", does,
                           kPolynomialNames[static_cast<size_t>(polynomial_)], libraries().front().name);
    }

private:
    const Crc::Tables& own() const { return *static_cast<const Crc::Tables*>(image_.tables()); }

    Polynomial polynomial_ = Polynomial::ethernet;
    Image image_;
};

const Register<Crc, CrcHost> registration{{
    .name = "crc",
    .summary = "sets or checks a CRC-32 in the last four bytes of the frame",
    .outcomes = {{"set", Disposition::next, "the CRC was put behind the frame's last byte"},
                 {"valid", Disposition::next, "the last four bytes are the CRC of those before"},
                 {"bad-crc", Disposition::drop, "the last four bytes are not the CRC of those before"},
                 {"too-short", Disposition::drop, "headers or what they speak of reach into the last four bytes"},
                 {"no-room", Disposition::drop, "the packet buffer has no room for four bytes more"}},
    .device_header = "millrace/nf/crc/device.hpp",
    .device_struct = "millrace::nf::crc::Crc",
    .tail_growth = kCrcBytes,
    .has_cpu_half = true,
    .shareable = true,
}};

}  // namespace
}  // namespace millrace::nf::crc
