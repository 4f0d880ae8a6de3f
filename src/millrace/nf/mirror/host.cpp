#include "millrace/nf/mirror/device.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::nf::mirror {
namespace {

class MirrorHost : public NetworkFunction {
public:
    MirrorHost(const Config& options, const Environment&) {
        options.only({});
        image_.start<Mirror::Tables>();
    }
    const Image& image() const override { return image_; }
    bool takes_uncut() const override { return true; }

private:
    Image image_;
};

const Register<Mirror, MirrorHost> registration{{
    .name = "mirror",
    .summary = "swaps the source and destination MAC addresses",
    .outcomes = {{"forward", Disposition::next, "the addresses were swapped"}},
    .device_header = "millrace/nf/mirror/device.hpp",
    .device_struct = "millrace::nf::mirror::Mirror",
    .shareable = true,
}};

}  // namespace
}  // namespace millrace::nf::mirror
