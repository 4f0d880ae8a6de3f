// Functions of a chain that stand apart on a device that they share.
#include "lab/sessions.hpp"
#include "support/devices.hpp"

namespace millrace::lab {
namespace {

TEST_F(Sessions, MeasureFunctionsThatStandApart) {
    Session session(options());
    for (const std::string& device : test::offload_devices()) {
        MILLRACE_NEEDS_DEVICE(device);
        for (const schedule::Sharing sharing : schedule::kSharings)
            for (const bool batches : {false, true}) {
                SCOPED_TRACE(device + " " + name_of(sharing));
                Point one = point("firewall+ipsec", device);
                // No time is too long for a device that is simulated.
                one.apart = Apart{sharing, 5e6, 1, batches};
                const Result result = session.measure(one);
                EXPECT_EQ(result.mistake(), "");
                EXPECT_GT(result.check.equal, 30u);
                EXPECT_EQ(result.check.different, 0u) << "as of the chain in one piece";
                EXPECT_EQ(result.counts.retried_on_cpu, 0u);
                ASSERT_EQ(result.apart.parts.size(), 2u);
                EXPECT_GT(result.apart.rate, 0);
                const bool parted = sharing == schedule::Sharing::spatial || sharing == schedule::Sharing::fair;
                for (const ApartPart& part : result.apart.parts) {
                    EXPECT_EQ(part.sms > 0, parted);
                    EXPECT_LE(part.sms, session.devices(device).front()->partitions().sms);
                    EXPECT_GE(part.batch, 1u);
                }
            }
    }
    Point hasty = point("firewall+ipsec", test::offload_devices().front());
    hasty.apart = Apart{schedule::Sharing::spatial, 0.001};
    EXPECT_THROW(session.measure(hasty), NoPlan);
}

}  // namespace
}  // namespace millrace::lab
