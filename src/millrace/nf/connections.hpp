// Network functions that find out of which connection a packet is, and those that decide by it.
#pragma once

namespace millrace::nf {

/// A NetworkFunction derives from it, too, when it tells functions behind it in the chain of which kind of connection
/// packets are (Packet::set_connection). A chain begins with packets that are untracked.
class TracksConnections {
public:
    virtual ~TracksConnections() = default;
};

/// A NetworkFunction derives from it, too, when it may look at Packet::connection(). A chain must track connections
/// before it.
class ReadsConnections {
public:
    virtual ~ReadsConnections() = default;
    /// Whether it does with these tables.
    virtual bool reads_connections() const = 0;
};

}  // namespace millrace::nf
