// Options that select what the others look at.
#include <algorithm>
#include <cctype>

#include "millrace/nf/nids/rules/rule_builder.hpp"

namespace millrace::nf::nids {
namespace {

struct NamedBuffer {
    std::string_view name;
    Buffer buffer;
    bool modifier = false;
};

constexpr NamedBuffer kBuffers[] = {
    {"pkt_data", Buffer::payload},
    {"raw_data", Buffer::payload},
    {"http_method", Buffer::http_method, true},
    {"http.method", Buffer::http_method},
    {"http_uri", Buffer::http_uri, true},
    {"http_raw_uri", Buffer::http_uri, true},
    {"http.uri", Buffer::http_uri},
    {"http.uri.raw", Buffer::http_uri},
    {"http_header", Buffer::http_header, true},
    {"http_raw_header", Buffer::http_header, true},
    {"http.header", Buffer::http_header},
    {"http.header.raw", Buffer::http_header},
    {"http.request_header", Buffer::http_header},
    {"http_cookie", Buffer::http_cookie, true},
    {"http_raw_cookie", Buffer::http_cookie, true},
    {"http.cookie", Buffer::http_cookie},
    {"http_user_agent", Buffer::http_user_agent, true},
    {"http.user_agent", Buffer::http_user_agent},
    {"http_host", Buffer::http_host, true},
    {"http.host", Buffer::http_host},
    {"http_raw_host", Buffer::http_host_raw, true},
    {"http.host.raw", Buffer::http_host_raw},
    {"http_client_body", Buffer::http_request_body, true},
    {"http.request_body", Buffer::http_request_body},
    {"http_server_body", Buffer::http_response_body, true},
    {"http.response_body", Buffer::http_response_body},
    {"http_stat_code", Buffer::http_stat_code, true},
    {"http.stat_code", Buffer::http_stat_code},
    {"http_stat_msg", Buffer::http_stat_msg, true},
    {"http.stat_msg", Buffer::http_stat_msg},
    {"http_request_line", Buffer::http_request_line},
    {"http.request_line", Buffer::http_request_line},
    {"http_response_line", Buffer::http_response_line},
    {"http.response_line", Buffer::http_response_line},
    {"http_protocol", Buffer::http_protocol},
    {"http.protocol", Buffer::http_protocol},
    {"http_start", Buffer::http_start},
    {"http.start", Buffer::http_start},
    {"http_header_names", Buffer::http_header_names},
    {"http.header_names", Buffer::http_header_names},
    {"http_referer", Buffer::http_referer},
    {"http.referer", Buffer::http_referer},
    {"http_content_type", Buffer::http_content_type},
    {"http.content_type", Buffer::http_content_type},
    {"http_content_len", Buffer::http_content_len},
    {"http.content_len", Buffer::http_content_len},
    {"http_accept", Buffer::http_accept},
    {"http.accept", Buffer::http_accept},
    {"http_accept_lang", Buffer::http_accept_lang},
    {"http.accept_lang", Buffer::http_accept_lang},
    {"http_accept_enc", Buffer::http_accept_enc},
    {"http.accept_enc", Buffer::http_accept_enc},
    {"http_connection", Buffer::http_connection},
    {"http.connection", Buffer::http_connection},
    {"http.location", Buffer::http_location},
    {"http.server", Buffer::http_server},
    {"file_data", Buffer::file_data},
    {"file.data", Buffer::file_data},
    {"tls_sni", Buffer::tls_sni},
    {"tls.sni", Buffer::tls_sni},
    {"dns_query", Buffer::dns_query},
    {"dns.query", Buffer::dns_query},
    {"dns.query.name", Buffer::dns_query},
};

/// Snort 3: `http_header:field user-agent;`
constexpr std::pair<std::string_view, Buffer> kHeaderFields[] = {{"user-agent", Buffer::http_user_agent},
                                                                 {"host", Buffer::http_host_raw},
                                                                 {"cookie", Buffer::http_cookie},
                                                                 {"referer", Buffer::http_referer},
                                                                 {"content-type", Buffer::http_content_type},
                                                                 {"content-length", Buffer::http_content_len},
                                                                 {"accept", Buffer::http_accept},
                                                                 {"accept-language", Buffer::http_accept_lang},
                                                                 {"accept-encoding", Buffer::http_accept_enc},
                                                                 {"connection", Buffer::http_connection},
                                                                 {"location", Buffer::http_location},
                                                                 {"server", Buffer::http_server}};

void select(RuleBuilder& builder, Buffer buffer, const Option& option) {
    builder.buffer = buffer;
    builder.dot_prefix = false;
    if (!option.has_value || option.value.empty()) return;
    const auto words = split_words(option.value, option.value_at);
    std::string field(words.size() == 2 ? words[1].text : std::string_view{});
    std::transform(field.begin(), field.end(), field.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (buffer == Buffer::http_header && words[0].text == "field")
        for (const auto& [name, of_field] : kHeaderFields)
            if (name == field) return void(builder.buffer = of_field);
    builder.rule.refuse("keyword " + std::string(option.keyword) + " with a value", std::string(option.value));
}

}  // namespace

std::optional<BufferName> find_buffer(std::string_view name) {
    const auto found = std::find_if(std::begin(kBuffers), std::end(kBuffers),
                                    [&](const NamedBuffer& b) { return b.name == name; });
    if (found == std::end(kBuffers)) return std::nullopt;
    return BufferName{found->buffer, found->modifier};
}

bool read_buffer_option(RuleBuilder& builder, const Option& option) {
    if (option.keyword == "dotprefix") {
        builder.dot_prefix = true;
        return true;
    }
    const auto named = find_buffer(option.keyword);
    if (!named) return false;
    if (named->modifier && !builder.snort3) {
        builder.modified(option).buffer = named->buffer;
    } else {
        select(builder, named->buffer, option);
    }
    return true;
}

}  // namespace millrace::nf::nids
