// What a switch's options say of certificates, and what is wrong with them.
#include <sys/stat.h>

#include "millrace/nf/switch/control/controller_address.hpp"
#include "nf/switch/scratch.hpp"

namespace millrace {
namespace {

using namespace millrace::test;

std::string refused(const std::string& options) { return refusal_of(options).message; }

TEST(SwitchTls, IsRefusedWhereSomethingIsMissing) {
    const std::string pem = scratch_file("some.pem", "no certificate\n"), key = scratch_file("some.key", "no key\n");
    ::chmod(key.c_str(), 0600);
    const auto with = [&](const std::string& certificate, const std::string& key_file, const std::string& more = "") {
        return "{controller: 'ssl:host', tls: {certificate: " + certificate + ", key: " + key_file +
               ", authorities: " + pem + more + "}}";
    };
    EXPECT_EQ(refused("{controller: 'ssl:host'}"), "'ssl:host' is by TLS, and nothing says by which certificates");
    EXPECT_EQ(refused("{controller: ['tcp:host', 'pssl:']}"),
              "'pssl:' is by TLS, and nothing says by which certificates");
    EXPECT_NE(refused("{controller: 'ssl:host', tls: {certificate: " + pem + "}}").find("key"), std::string::npos);
    EXPECT_NE(refused(with(scratch() / "absent", key)).find("absent"), std::string::npos);
    EXPECT_TRUE(refused(with(pem, key)).starts_with("the certificate is none in PEM"));
    EXPECT_NE(refused(with(pem, key, ", password: x")).find("password"), std::string::npos);
    for (const mode_t mode : {0640, 0604, 0620, 0666}) {
        ::chmod(key.c_str(), mode);
        EXPECT_NE(refused(with(pem, key)).find("holds keys and is open to others than its owner"), std::string::npos)
            << std::oct << mode;
    }
}

}  // namespace
}  // namespace millrace
