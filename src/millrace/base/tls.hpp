// TLS (RFC 8446, RFC 5246) over sockets that never wait, by OpenSSL. A build without OpenSSL has none.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace {

/// Who one is, and whom one trusts, each as text in PEM.
struct TlsFiles {
    std::string certificate;  ///< one's own, with those that stand between it and a root
    std::string key;          ///< its private key, without a password
    std::string authorities;  ///< whose certificates are trusted
    std::string name;  ///< that the other side's certificate must be for, as a DNS name or an IP address; empty: any
    friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

/// What all connections of one side share. TLS 1.2 or 1.3; the other side must show a certificate that holds.
class TlsContext {
public:
    /// Throws std::runtime_error, which says what is wrong with which text.
    explicit TlsContext(TlsFiles files);
    ~TlsContext();
    TlsContext(const TlsContext&) = delete;
    TlsContext& operator=(const TlsContext&) = delete;

    static bool is_built_in();
    const TlsFiles& files() const { return files_; }

private:
    friend class TlsStream;
    struct Library;
    TlsFiles files_;
    std::unique_ptr<Library> library_;
};

/// One connection on a socket, which must outlive it. Used by one thread.
class TlsStream {
public:
    enum class Side { client, server };
    TlsStream(const TlsContext& context, int socket, Side side);
    ~TlsStream();
    TlsStream(const TlsStream&) = delete;
    TlsStream& operator=(const TlsStream&) = delete;

    enum class Progress { done, waits, over };
    /// Goes on with the handshake.
    Progress shake_hands();
    /// What came of it: how many bytes; 0: it is over; -1: it waits for the socket.
    ssize_t receive(std::span<uint8_t> buffer);
    /// The same for what is sent, but -2 when it is over.
    ssize_t send(std::span<const uint8_t> bytes);
    /// What waits, waits for room to send.
    bool waits_to_send() const { return waits_to_send_; }
    /// Something has come that `receive` has not handed out yet, which no one sees who watches the socket.
    bool has_more() const;
    /// Why it is over, where it is not the other side's end.
    const std::string& trouble() const { return trouble_; }

private:
    Progress judge(int result);

    struct Library;
    std::unique_ptr<Library> library_;
    bool waits_to_send_ = false;
    std::string trouble_;
};

}  // namespace millrace
