// The host half: reads the options, and works on the CPU around the device half.
#include <unordered_map>
#include <unordered_set>

#include "customer_marks/device.hpp"
#include "millrace/nf/cpu_stages.hpp"
#include "millrace/nf/nf.hpp"

namespace customer_marks {
namespace {

class CustomerMarksHost : public nf::NetworkFunction, public nf::BeforeDevice, public nf::AfterDevice {
public:
    CustomerMarksHost(const Config& options, const nf::Environment&) {
        options.only({"customers", "guests"});
        for (const auto& [prefix, mark] : options.at("customers").entries()) {
            customers_[prefix_of(prefix)] = static_cast<uint32_t>(marks_.size());
            marks_.push_back(static_cast<uint8_t>(mark.integer(0, 63)));
        }
        most_guests_ = static_cast<size_t>(options.integer_or("guests", 0, 0, 1'000'000));
        image_.attach_some(image_.start<CustomerMarks::Tables>().marks, marks_);
    }
    const nf::Image& image() const override { return image_; }

    /// A table that may be of any size and kind says which customer's it is.
    void before(std::span<const Packet* const> packets, uint32_t* arguments) override {
        for (size_t i = 0; i < packets.size(); ++i) {
            const auto found = packets[i]->layers().is_ipv4() ? customers_.find(packets[i]->ipv4_src() >> 8)
                                                              : customers_.end();
            arguments[i] = found != customers_.end() ? found->second : kNobody;
        }
    }
    /// The first strangers become guests. Packets come in order.
    void after(std::span<Packet* const> packets, Decision* decisions) override {
        for (size_t i = 0; i < packets.size(); ++i) {
            if (decisions[i].outcome != CustomerMarks::kStranger) continue;
            const uint32_t source = packets[i]->ipv4_src();
            if (guests_.size() < most_guests_) guests_.insert(source);
            if (guests_.contains(source)) decisions[i].outcome = CustomerMarks::kGuest;
            else ++strangers_;
        }
    }
    std::vector<nf::Statistic> statistics() const override {
        return {{"guests", guests_.size(), "sources that are no customer's and may send"},
                {"strangers", strangers_, "packets of others"}};
    }

private:
    static constexpr uint32_t kNobody = 0xffffffff;
    static uint32_t prefix_of(const Config& text) {
        const Prefix prefix = text.prefix();
        if (prefix.ipv6 || prefix.length != 24) text.fail("this is no IPv4 prefix of 24 bits", "10.0.1.0/24, say");
        return prefix.ipv4() >> 8;
    }

    std::unordered_map<uint32_t, uint32_t> customers_;  // numbers, by prefix
    std::vector<uint8_t> marks_;
    std::unordered_set<uint32_t> guests_;
    size_t most_guests_ = 0;
    uint64_t strangers_ = 0;
    nf::Image image_;
};

const nf::Register<CustomerMarks, CustomerMarksHost> registration{{
    .name = "customer-marks",
    .summary = "marks packets by whose customer sent them",
    .outcomes = {{"marked", nf::Disposition::next, "a customer sent it"},
                 {"guest", nf::Disposition::next, "one of the first others sent it"},
                 {"stranger", nf::Disposition::drop, "somebody else sent it"},
                 {"not-ipv4", nf::Disposition::next, "it is not IPv4"}},
    .device_header = "customer_marks/device.hpp",
    .device_struct = "customer_marks::CustomerMarks",
}};

}  // namespace
}  // namespace customer_marks
