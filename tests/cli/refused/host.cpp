#include "refused/device.hpp"

#include "millrace/nf/nf.hpp"

namespace refused {
namespace {

class Host : public millrace::nf::NetworkFunction {
public:
    Host(const millrace::Config&, const millrace::nf::Environment&) { image_.start<Refused::Tables>(); }
    const millrace::nf::Image& image() const override { return image_; }

private:
    millrace::nf::Image image_;
};

const millrace::nf::Register<Refused, Host> registration{{
    .name = "refused",
    .summary = "compiles for no GPU",
    .outcomes = {{"done", millrace::nf::Disposition::next, ""}},
    .device_header = "refused/device.hpp",
    .device_struct = "refused::Refused",
}};

}  // namespace
}  // namespace refused
