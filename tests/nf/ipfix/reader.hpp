// A collector for tests: reads messages of IPFIX by the templates that they bring, and knows nothing of how they were
// written (RFC 7011, section 3).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace millrace::test {

/// A record by the numbers of its information elements. Addresses and names are bytes, all others numbers.
struct IpfixRecord {
    uint16_t set = 0;
    bool is_option = false;
    std::map<uint16_t, std::string> bytes;
    uint64_t number(uint16_t element) const {
        const auto found = bytes.find(element);
        if (found == bytes.end()) throw std::runtime_error("a record has no element " + std::to_string(element));
        uint64_t value = 0;
        for (const char byte : found->second) value = value << 8 | static_cast<uint8_t>(byte);
        return value;
    }
    bool has(uint16_t element) const { return bytes.contains(element); }
    bool is_flow() const { return !is_option; }
    friend auto operator<=>(const IpfixRecord&, const IpfixRecord&) = default;
};

class IpfixReader {
public:
    struct Header {
        uint16_t version, bytes;
        uint32_t seconds, sequence, domain;
    };

    /// Messages one behind the other; each sequence number must be the number of data records before.
    void read(std::span<const uint8_t> all) {
        while (!all.empty()) {
            ASSERT_GE(all.size(), 16u);
            const Header header{be16(all, 0), be16(all, 2), be32(all, 4), be32(all, 8), be32(all, 12)};
            ASSERT_EQ(header.version, 10);
            ASSERT_GE(header.bytes, 16);
            ASSERT_LE(header.bytes, all.size());
            EXPECT_EQ(header.sequence, static_cast<uint32_t>(records.size() + missing)) << "a sequence number";
            headers.push_back(header);
            read_sets(all.subspan(16, header.bytes - 16u));
            all = all.subspan(header.bytes);
        }
    }
    std::vector<IpfixRecord> flows() const {
        std::vector<IpfixRecord> found;
        for (const IpfixRecord& record : records)
            if (record.is_flow()) found.push_back(record);
        return found;
    }

    std::vector<Header> headers;
    std::vector<IpfixRecord> records;
    size_t templates = 0;  ///< that were read, again and again
    uint64_t missing = 0;  ///< records that are known not to have come

private:
    struct Element {
        uint16_t number, bytes;
    };
    struct Template {
        std::vector<Element> elements;
        bool is_option = false;
    };
    static uint16_t be16(std::span<const uint8_t> at, size_t i) {
        return static_cast<uint16_t>(at[i] << 8 | at[i + 1]);
    }
    static uint32_t be32(std::span<const uint8_t> at, size_t i) {
        return uint32_t{be16(at, i)} << 16 | be16(at, i + 2);
    }

    void read_sets(std::span<const uint8_t> rest) {
        while (!rest.empty()) {
            ASSERT_GE(rest.size(), 4u);
            const uint16_t id = be16(rest, 0), bytes = be16(rest, 2);
            ASSERT_GT(bytes, 4);
            ASSERT_LE(bytes, rest.size());
            const auto content = rest.subspan(4, bytes - 4u);
            if (id == 2 || id == 3) read_templates(content, id == 3);
            else read_records(content, id);
            rest = rest.subspan(bytes);
        }
    }
    void read_templates(std::span<const uint8_t> rest, bool is_option) {
        while (!rest.empty()) {
            const size_t head = is_option ? 6 : 4;
            ASSERT_GE(rest.size(), head);
            const uint16_t id = be16(rest, 0), count = be16(rest, 2);
            ASSERT_GE(id, 256);
            if (is_option) {
                ASSERT_GE(be16(rest, 4), 1) << "a scope";
            }
            Template own{{}, is_option};
            ASSERT_GE(rest.size(), head + count * 4u);
            for (size_t i = 0; i < count; ++i) {
                own.elements.push_back({be16(rest, head + 4 * i), be16(rest, head + 4 * i + 2)});
                ASSERT_EQ(own.elements.back().number & 0x8000, 0) << "an enterprise's element";
            }
            ++templates;
            templates_[id] = std::move(own);
            rest = rest.subspan(head + count * 4u);
        }
    }
    void read_records(std::span<const uint8_t> rest, uint16_t id) {
        ASSERT_TRUE(templates_.contains(id)) << "records before their template";
        const Template& own = templates_[id];
        while (!rest.empty()) {
            IpfixRecord record{id, own.is_option, {}};
            for (const Element& element : own.elements) {
                size_t bytes = element.bytes;
                if (bytes == 0xffff) {
                    ASSERT_GE(rest.size(), 1u);
                    bytes = rest[0];
                    ASSERT_LT(bytes, 255u);
                    rest = rest.subspan(1);
                }
                ASSERT_GE(rest.size(), bytes);
                record.bytes[element.number] = std::string(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(bytes));
                rest = rest.subspan(bytes);
            }
            records.push_back(std::move(record));
        }
    }
    std::map<uint16_t, Template> templates_;
};

}  // namespace millrace::test
