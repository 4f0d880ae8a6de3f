#include "millrace/nf/prefixes/linear_routes.hpp"

#include <algorithm>

namespace millrace::nf::prefixes {
namespace {

/// Longer prefixes first; so the order of equal ones is no matter.
template <unsigned Bytes, class Linear, class Make>
std::vector<Linear> sorted_routes(const Rib<Bytes>& rib, Make&& make) {
    std::vector<typename Rib<Bytes>::Route> routes;
    routes.reserve(rib.size());
    rib.for_each([&](const auto& route) { routes.push_back(route); });
    std::sort(routes.begin(), routes.end(), [](const auto& a, const auto& b) {
        return a.length != b.length ? a.length > b.length : a.address < b.address;
    });
    std::vector<Linear> linear;
    linear.reserve(routes.size());
    for (const auto& route : routes) linear.push_back(make(route));
    return linear;
}

/// The upper bits of a word, as many of them as a prefix of `length` bits has; none or all beyond.
uint32_t mask_of(int length) { return length <= 0 ? 0 : length >= 32 ? ~0u : ~0u << (32 - length); }

}  // namespace

std::vector<LinearIpv4> linear_routes(const Rib<4>& rib) {
    return sorted_routes<4, LinearIpv4>(rib, [](const auto& route) {
        return LinearIpv4{load_be32(route.address.data()), mask_of(route.length), route.value};
    });
}

std::vector<LinearIpv6> linear_routes(const Rib<16>& rib) {
    return sorted_routes<16, LinearIpv6>(rib, [](const auto& route) {
        LinearIpv6 linear{};
        for (unsigned word = 0; word < 4; ++word) {
            linear.address[word] = load_be32(route.address.data() + 4 * word);
            linear.mask[word] = mask_of(route.length - 32 * static_cast<int>(word));
        }
        linear.target = route.value;
        return linear;
    });
}

}  // namespace millrace::nf::prefixes
