// Stands in for libpcap's D-Bus and RDMA modules in portable programs, and finds no such devices.
struct pcap;
struct pcap_if_list;

namespace {

pcap* not_ours(int* is_ours) {
    *is_ours = 0;
    return nullptr;
}

}  // namespace

extern "C" int dbus_findalldevs(pcap_if_list* /*devices*/, char* /*error*/) { return 0; }
extern "C" pcap* dbus_create(const char* /*device*/, char* /*error*/, int* is_ours) { return not_ours(is_ours); }

extern "C" int rdmasniff_findalldevs(pcap_if_list* /*devices*/, char* /*error*/) { return 0; }
extern "C" pcap* rdmasniff_create(const char* /*device*/, char* /*error*/, int* is_ours) { return not_ours(is_ours); }
