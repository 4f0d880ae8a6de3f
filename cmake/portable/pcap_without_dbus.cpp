// Stands in for libpcap's D-Bus module in portable programs, and finds no such device.
struct pcap;
struct pcap_if_list;

extern "C" int dbus_findalldevs(pcap_if_list* /*devices*/, char* /*error*/) { return 0; }

extern "C" pcap* dbus_create(const char* /*device*/, char* /*error*/, int* is_ours) {
    *is_ours = 0;
    return nullptr;
}
