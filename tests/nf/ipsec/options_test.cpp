// Mistakes in the options are named with their place, and never with a key.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "millrace/base/text/shown_line.hpp"
#include "nf/ipsec/gateway.hpp"

namespace millrace::test {
namespace {

const std::string kKey = "0123456789abcdef0123456789abcdef", kAuth = "fedcba98765432100123456789abcdef01234567";

std::string sa(const std::string& change = {}, const std::string& name = "t") {
    std::map<std::string, std::string> fields = {
        {"direction", "out"},      {"spi", "0x1000"}, {"local", "192.0.2.1"}, {"remote", "192.0.2.2"},
        {"cipher", "aes-128-cbc"}, {"key", kKey},     {"auth-key", kAuth}};
    const Config changes = Config::parse("{" + change + "}");
    for (const auto& [key, value] : changes.entries()) {
        if (value.is_null()) fields.erase(key.text());
        else fields[key.text()] = value.is_scalar() ? value.text() : "[x]";
    }
    std::string text = "{name: " + name;
    for (const auto& [key, value] : fields) text += ", " + key + ": " + value;
    return text + "}";
}

/// A folder of its own for one test.
struct Folder {
    Folder() : path(testing::TempDir() + "ipsec-" + std::to_string(getpid())) {
        std::filesystem::create_directories(path);
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
        const std::string file = path + "/" + name;
        std::ofstream(file) << text;
        chmod(file.c_str(), mode);
        return file;
    }
    std::string path;
};

/// What the NF says of the options in a file, and what it warned of.
std::string complaint_of(const std::string& file, std::vector<std::string>* warnings = nullptr) {
    nf::Environment environment{.node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts};
    show_lines_of(file);  // as of a file that the command line names
    try {
        NfRunner runner("ipsec", Config::load(file), environment);
        for (const Diagnostic& warning : environment.warn.take_warnings())
            if (warnings != nullptr) warnings->push_back(warning.render());
    } catch (const ConfigError& error) {
        return error.what();
    }
    return {};
}

bool holds_key(const std::string& text) {
    // Any eight digits in a row of a key would be too many.
    for (const std::string& key : {kKey, kAuth})
        for (size_t i = 0; i + 8 <= key.size(); ++i)
            if (text.find(key.substr(i, 8)) != std::string::npos) return true;
    return false;
}

TEST(IpsecOptions, NamesEveryMistakeWithItsLineAndWithoutItsKey) {
    struct Mistake {
        std::string text, message, hint;
    };
    const std::string out = sa();
    const std::vector<Mistake> mistakes = {
        {"sas: [" + sa("spi: 255") + "]", "out of range", "256"},
        {"sas: [" + sa("cipher: aes-128-cbs") + "]", "is not one of", "aes-128-cbc"},
        {"sas: [" + sa("key: " + kKey.substr(2)) + "]", "'key' of SA 't' has 30", "32"},
        {"sas: [" + sa("key: " + kKey + "00112233445566778899aabbccddeeff") + "]", "has 64 hexadecimal digits", "32"},
        {"sas: [" + sa("cipher: aes-256-cbc") + "]", "has 32 hexadecimal digits", "aes-256-cbc wants 64"},
        {"sas: [" + sa("auth: hmac-sha256-128") + "]", "'auth-key' of SA 't' has 40", "64"},
        {"sas: [" + sa("auth: hmac-md5") + "]", "is not one of", "hmac-sha256-128"},
        {"sas: [" + sa("icv: 12") + "]", "only AES-GCM", "take 'icv' out"},
        {"sas: [" + sa("cipher: aes-128-gcm, nonce: 00112233") + "]", "does not use", "take it out"},
        {"sas: [" + sa("cipher: aes-128-gcm, auth-key: ") + "]", "has no 'nonce'", "8 hexadecimal"},
        {"sas: [" + sa("cipher: aes-128-gcm, nonce: 00112233, auth-key: , auth: none") + "]", "by itself", "icv"},
        {"sas: [" + sa("cipher: aes-128-gcm, nonce: 00112233, auth-key: , icv: 14") + "]", "is not one of", "12"},
        {"sas: [" + sa("auth: none, auth-key: , esn: true") + "]", "upper half", "take 'esn' out"},
        {"sas: [" + sa("direction: in, esn: true, replay-window: 0") + "]", "by the anti-replay window", "3.4.3"},
        {"sas: [" + sa("mode: tunel") + "]", "is not one of", "did you mean 'tunnel'?"},
        {"sas: [" + sa("direction: in, mode: transport, remote: ") + "]", "between two addresses", "remote"},
        {"sas: [" + sa("mode: transport, encapsulation: udp") + "]", "tunnel mode only", "NAT"},
        {"sas: [" + sa("remote-port: 4500") + "]", "only ESP in UDP has ports", "encapsulation: udp"},
        {"sas: [" + sa("remote-port: 0, encapsulation: udp") + "]", "out of range", "65535"},
        {"sas: [" + sa("mode: transport") +
             "]\npolicies: [{src: 192.0.2.1, dst: 192.0.2.0/24, action: protect, sa: t}]",
         "is of transport mode", "mode: tunnel"},
        {"sas: [" + sa("mode: transport") + "]\npolicies: [{action: protect, sa: t}]", "is of transport mode", ""},
        {"sas: [" + sa("cipher: aes-128-ctr, nonce: 00112233") + ", " +
             sa("cipher: aes-128-gcm, nonce: 00112233, auth-key: , spi: 0x2000", "u") + "]",
         "same key and nonce", "RFC 3686"},
        {"sas: [" + out + "]\npolicies: [{action: protect, sa: []}]", "an SA is missing here", "several"},
        {"sas: [" + out + "]\npolicies: [{action: protect, sa: [t, tt]}]", "no SA 'tt'", "did you mean 't'?"},
        {"udp-port: 70000", "out of range", "65535"},
        {"sas: [" + sa("key: " + kKey.substr(1)) + "]", "odd number", ""},
        {"sas: [" + sa("key: " + kKey.substr(2) + "zz") + "]", "not a hexadecimal digit", ""},
        {"sas: [" + sa("key: [1]") + "]", "hexadecimal digits of 'key'", ""},
        {"sas: [" + sa("key: ") + "]", "has no 'key'", "32"},
        {"sas: [" + sa("auth-key: " + kAuth.substr(8)) + "]", "'auth-key' of SA 't' has 32", "40"},
        {"sas: [" + sa("auth-key: ") + "]", "has no 'auth-key'", "40"},
        {"sas: [" + sa("cipher: aes-128-ctr") + "]", "has no 'nonce'", "8 hexadecimal"},
        {"sas: [" + sa("nonce: 00112233") + "]", "does not use", "take it out"},
        {"sas: [" + sa("cipher: aes-128-ctr, nonce: 00112233, auth: none, auth-key: ") + "]", "forged", "RFC 3686"},
        {"sas: [" + sa("auth: none") + "]", "does not use", ""},
        {"sas: [" + sa("cipher: 'null', key: , auth: none, auth-key: ") + "]", "protects nothing", ""},
        {"sas: [" + sa("local: '2001:db8::1'") + "]", "not of the same IP version", ""},
        {"sas: [" + sa("local: 192.0.2.0/24") + "]", "not a single address", ""},
        {"sas: [" + sa("remote: ") + "]", "no 'remote'", ""},
        {"sas: [" + sa("replay-window: 64") + "]", "unknown field 'replay-window'", ""},
        {"sas: [" + sa("direction: in, replay-window: 2000") + "]", "out of range", "1024"},
        {"sas: [" + sa("direction: in, auth: none, auth-key: , replay-window: 64") + "]", "without authentication",
         "replay-window: 0"},
        {"sas: [" + sa("chipher: x") + "]", "unknown field 'chipher'", "did you mean 'cipher'?"},
        {"sas: [" + out + ", " + sa("spi: 0x1001") + "]", "two SAs are named 't'", ""},
        {"sas: [" + out + ", " + sa("", "u") + "]", "is that of SA 't'", "SPI of its own"},
        {"sas: [" + sa("cipher: aes-128-ctr, nonce: 00112233") + ", " +
             sa("cipher: aes-128-ctr, nonce: 00112233, spi: 0x2000", "u") + "]",
         "same key and nonce", "RFC 3686"},
        {"sas: [" + out + "]\npolicies: [{action: protect, sa: tt}]", "no SA 'tt'", "did you mean 't'?"},
        {"sas: [" + sa("direction: in") + "]\npolicies: [{action: protect, sa: t}]", "is an inbound one", ""},
        {"sas: [" + out + "]\npolicies: [{action: protect}]", "'sa' is missing", ""},
        {"policies: [{action: bypass, sa: t}]", "only 'protect'", ""},
        {"policies: [{action: encrypt}]", "is not one of", ""},
        {"policies: [{src: 10.0.0.0/8, dst: '2001:db8::/32', action: bypass}]", "not of the same IP version", ""},
        {"policies:\n  - {src: 10.0.0.0/8, action: bypass}\n  - {src: 10.1.0.0/16, protocol: tcp, action: discard}",
         "no packet gets to this policy", "narrower one first"},
        {"mtu: 40", "carries no IP", "0 switches"},
        {"keys: missing.yaml", "No such file", ""},
    };
    const Folder folder;
    for (const Mistake& mistake : mistakes) {
        SCOPED_TRACE(mistake.text);
        const std::string said = complaint_of(folder.write("chain.yaml", mistake.text));
        EXPECT_NE(said.find(mistake.message), std::string::npos) << said;
        EXPECT_NE(said.find(mistake.hint), std::string::npos) << said;
        EXPECT_NE(said.find("chain.yaml:"), std::string::npos) << said;
        EXPECT_FALSE(holds_key(said)) << said;
    }
}

TEST(IpsecOptions, NamesMistakesInLifetimes) {
    const Folder folder;
    const auto said_of = [&](const std::string& lifetime) {
        std::string text = sa();
        text.insert(text.size() - 1, ", " + lifetime);
        return complaint_of(folder.write("chain.yaml", "sas: [" + text + "]"));
    };
    EXPECT_EQ(said_of("lifetime: {packets: 100, time: 3600s}, soft-lifetime: {time: 30s}"), "");
    EXPECT_NE(said_of("lifetime: {}").find("without an end"), std::string::npos);
    EXPECT_NE(said_of("lifetime: {packet: 5}").find("did you mean 'packets'?"), std::string::npos);
    EXPECT_NE(said_of("lifetime: {packets: 0}").find("out of range"), std::string::npos);
    EXPECT_NE(said_of("lifetime: {packets: 5}, soft-lifetime: {packets: 6}").find("ends first"), std::string::npos);
    EXPECT_NE(said_of("lifetime: {time: 5s}, soft-lifetime: {time: 6s}").find("ends first"), std::string::npos);
    EXPECT_FALSE(holds_key(said_of("lifetime: {packets: 0}")));
}

TEST(IpsecOptions, ShowsNoKeyEvenWhenTheYamlAroundItIsBroken) {
    const Folder folder;
    const std::string said = complaint_of(folder.write("chain.yaml", "sas: [" + sa() + "\npolicies: ]: {"));
    EXPECT_NE(said.find("not YAML"), std::string::npos);
    EXPECT_FALSE(holds_key(said)) << said;
    const std::string keys = folder.write("keys.yaml", "t: {key: " + kKey + ", : ]");
    const std::string other = complaint_of(folder.write("chain.yaml", "keys: keys.yaml"));
    EXPECT_NE(other.find("keys.yaml"), std::string::npos) << other;
    EXPECT_FALSE(holds_key(other)) << other;
}

TEST(IpsecOptions, TakesKeysFromAFileThatOnlyItsOwnerMayRead) {
    const Folder folder;
    const std::string chain = folder.write("chain.yaml", "keys: keys.yaml\nsas: [" + sa("key: , auth-key: ") + "]\n");
    const std::string text = "t: {key: " + kKey + ", auth-key: " + kAuth + "}\n";
    folder.write("keys.yaml", text, 0600);
    EXPECT_EQ(complaint_of(chain), "");
    for (const mode_t mode : {0640u, 0604u, 0660u, 0644u}) {
        folder.write("keys.yaml", text, mode);
        const std::string said = complaint_of(chain);
        EXPECT_NE(said.find("open to others"), std::string::npos) << said;
        EXPECT_NE(said.find("chmod 600"), std::string::npos) << said;
    }
    folder.write("keys.yaml", text + "stranger: {key: " + kKey + "}\n", 0600);
    EXPECT_NE(complaint_of(chain).find("keys.yaml:2:1"), std::string::npos) << complaint_of(chain);
    EXPECT_NE(complaint_of(chain).find("'stra…'"), std::string::npos) << "not more of a file that only some may read";
    EXPECT_FALSE(holds_key(complaint_of(chain)));
    folder.write("keys.yaml", text, 0600);
    const std::string twice = complaint_of(
        folder.write("chain.yaml", "keys: keys.yaml\nsas: [" + sa("auth-key: ") + "]\n"));
    EXPECT_NE(twice.find("stands here and in the file of keys"), std::string::npos) << twice;
    EXPECT_FALSE(holds_key(twice)) << twice;
}

TEST(IpsecOptions, WarnsOfWhatWorksButDeservesALook) {
    const Folder folder;
    std::vector<std::string> warnings;
    EXPECT_EQ(complaint_of(folder.write("chain.yaml", "sas: [" + sa() + "]", 0600), &warnings), "");
    EXPECT_TRUE(warnings.empty());
    EXPECT_EQ(complaint_of(folder.write("chain.yaml", "sas: [" + sa() + "]", 0644), &warnings), "");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("everyone on this machine may read"), std::string::npos);
    EXPECT_EQ(complaint_of(folder.write("chain.yaml", "sas: [" + sa("direction: in") + "]", 0600), &warnings), "");
    ASSERT_EQ(warnings.size(), 2u);
    EXPECT_NE(warnings[1].find("any two addresses"), std::string::npos);
    EXPECT_EQ(complaint_of(folder.write("chain.yaml", "sas: [" + sa("key: '" + std::string(32, '0') + "'") + "]", 0600),
                           &warnings),
              "");
    ASSERT_EQ(warnings.size(), 3u);
    EXPECT_NE(warnings[2].find("one byte repeated"), std::string::npos);
    for (const std::string& warning : warnings) EXPECT_FALSE(holds_key(warning)) << warning;
}

TEST(IpsecOptions, SaysWhatWasLoadedAndCountsPerSa) {
    NfRunner near("ipsec", near_end({}));
    near.run(std::vector<Frame>(3, clear_frame(5)), {8});
    EXPECT_EQ(near.nf().summary().find("1 outbound and 0 inbound SAs, 2 policies"), 0u) << near.nf().summary();
    const auto statistics = near.nf().statistics();
    ASSERT_EQ(statistics.size(), 1u);
    EXPECT_EQ(statistics[0].name, "sa-east-sequence");
    EXPECT_EQ(statistics[0].value, 3u);
}

}  // namespace
}  // namespace millrace::test
