// The doctor looks at NICs, the GPU, and the libraries in use.
#include <dlfcn.h>
#include <hs/hs.h>
#include <intel-ipsec-mb.h>
#include <pcap/pcap.h>
#include <rte_build_config.h>
#include <rte_version.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "millrace/base/cuda_libraries.hpp"
#include "millrace/doctor/parts.hpp"
#include "millrace/io/offload_notes.hpp"
#include "millrace/io/xdp/kernel_functions.hpp"

namespace millrace::doctor {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const std::string& folder) {
    std::vector<fs::path> result;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) result.push_back(entry.path());
    std::sort(result.begin(), result.end());
    return result;
}

/// Drivers that hand a PCI device to user space.
bool is_user_space_driver(const std::string& driver) {
    return driver == "vfio-pci" || driver == "uio_pci_generic" || driver == "igb_uio";
}

void examine_nics(Findings& findings) {
    constexpr const char* kNetworkClass = "0x02";
    size_t nics = 0;
    for (const fs::path& device : entries("/sys/bus/pci/devices")) {
        if (!first_line(device / "class").starts_with(kNetworkClass)) continue;
        ++nics;
        const std::string driver = link_name(device / "driver");
        std::string text = first_line(device / "vendor") + ":" + first_line(device / "device") + ", driver " +
                           (driver.empty() ? "none" : driver);
        for (const fs::path& interface : entries(device / "net"))
            text += ", interface " + interface.filename().string();
        if (const std::string node = first_line(device / "numa_node"); !node.empty() && node != "-1")
            text += ", NUMA node " + node;
        const std::string address = device.filename();
        // mlx drivers share the device with the kernel; all others give it away.
        if (is_user_space_driver(driver) || driver == "mlx5_core" || driver == "mlx4_core")
            ok(findings, "network", address, text + "; use it as dpdk: " + address);
        else
            note(findings, "network", address,
                 text + "; for dpdk: bind it to vfio-pci (dpdk-devbind.py -b vfio-pci " + address + ")");
    }
    if (nics == 0)
        absent(findings, "network", "PCI NICs", "none",
               "no ports at wire speed; captures, rings, tap, af_packet and af_xdp work", "a NIC with a DPDK driver");
    std::string interfaces;
    for (const fs::path& interface : entries("/sys/class/net"))
        interfaces += (interfaces.empty() ? "" : ", ") + interface.filename().string() + " (" +
                      first_line(interface / "operstate") + ")";
    note(findings, "network", "interfaces", interfaces.empty() ? "none" : interfaces);
    for (const fs::path& interface : entries("/sys/class/net")) {
        const std::string name = interface.filename();
        if (const auto offloads = io::offloads_of("af_packet", name); name != "lo" && !offloads.empty())
            note(findings, "network", "offloads of " + name,
                 io::offload_summary(offloads) + "; 'millrace check' says what a port there does about them");
    }
}

void examine_xdp(Findings& findings) {
    // Without the right to it the kernel says so, and has it.
    const int socket = ::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    const bool has_xdp = socket >= 0 || errno != EAFNOSUPPORT;
    if (socket >= 0) close(socket);
    if (!has_xdp) absent(findings, "network", "AF_XDP", "no", "no af_xdp ports", "a kernel with CONFIG_XDP_SOCKETS");
    else
        ok(findings, "network", "AF_XDP",
           io::kernel_function(io::kVlanTagFunction) != 0 ? "yes"
                                                          : "yes, but the kernel does not tell it of VLAN tags that "
                                                            "cards and senders keep beside frames (Linux 6.8)");
}

#ifdef MILLRACE_LINKED_DRIVERS
/// A portable program looks for no others.
void examine_drivers(Findings& findings) {
    ok(findings, "network", "DPDK drivers", "within the program: " MILLRACE_LINKED_DRIVERS);
}
#else
void examine_drivers(Findings& findings) {
    std::string names;
    size_t count = 0;
    for (const fs::path& file : entries(RTE_EAL_PMD_PATH)) {
        const std::string name = file.filename();
        constexpr std::string_view kPrefix = "librte_net_", kSuffix = ".so";
        if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
        ++count;
        names += (names.empty() ? "" : " ") +
                 name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    }
    if (count != 0) ok(findings, "network", "DPDK drivers", std::to_string(count) + ": " + names);
    else
        missing(findings, "network", "DPDK drivers", "none in " RTE_EAL_PMD_PATH, "no dpdk and tap ports",
                "install DPDK's driver packages");
}
#endif

/// A library loaded for the time of a look.
class Library {
public:
    explicit Library(const std::vector<std::string>& names) {
        for (const std::string& name : names)
            if (handle_ == nullptr && (handle_ = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) != nullptr) name_ = name;
    }
    // It stays loaded: GPU drivers do not survive being unloaded.
    bool there() const { return handle_ != nullptr; }
    const std::string& name() const { return name_; }
    template <class Function>
    Function* find(const char* symbol) const {
        return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_, symbol));
    }

private:
    void* handle_ = nullptr;
    std::string name_;
};

/// Whether a GPU that chains could run on is in the machine, whatever drives it.
bool gpu_there() {
    for (const fs::path& device : entries("/sys/bus/pci/devices"))
        if (first_line(device / "vendor") == "0x10de" && first_line(device / "class").starts_with("0x03")) return true;
    return false;
}

/// Without a GPU nothing of the kind is needed.
void lacks(Findings& findings, const std::string& name, const std::string& value, const std::string& cost,
           const std::string& remedy) {
    if (gpu_there()) missing(findings, "gpu", name, value, cost, remedy);
    else absent(findings, "gpu", name, value, cost, remedy);
}

void examine_cuda(Findings& findings) {
    const Library cuda({"libcuda.so.1"});
    const std::string remedy = "install the GPU vendor's driver; 'sim' runs the same path without one";
    if (!cuda.there()) return lacks(findings, "driver", "no libcuda.so.1", "chains run on the CPU only", remedy);
    auto* init = cuda.find<int(unsigned)>("cuInit");
    auto* version_of = cuda.find<int(int*)>("cuDriverGetVersion");
    auto* count_of = cuda.find<int(int*)>("cuDeviceGetCount");
    auto* name_of = cuda.find<int(char*, int, int)>("cuDeviceGetName");
    int count = 0, version = 0;
    if (init == nullptr || count_of == nullptr || name_of == nullptr || init(0) != 0 || count_of(&count) != 0 ||
        count == 0)
        return lacks(findings, "driver", "libcuda.so.1 finds no GPU", "chains run on the CPU only", remedy);
    if (version_of != nullptr && version_of(&version) == 0)
        ok(findings, "gpu", "driver",
           "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10));
    for (int i = 0; i < count; ++i) {
        char name[128] = "";
        if (name_of(name, sizeof name, i) == 0) ok(findings, "gpu", "cuda:" + std::to_string(i), name);
    }
}

}  // namespace

void examine_network(Findings& findings) {
    examine_nics(findings);
    examine_xdp(findings);
    examine_drivers(findings);
}

void examine_gpu(Findings& findings) {
    examine_cuda(findings);
    std::vector<std::string> names;
    const CudaFolders places = cuda_library_folders();
    for (const std::string& folder : places.folders)
        for (const char* name : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"}) names.push_back(folder + name);
    const Library nvrtc(names);
    int major = 0, minor = 0;
    if (auto* version_of = nvrtc.find<int(int*, int*)>("nvrtcVersion");
        version_of != nullptr && version_of(&major, &minor) == 0)
        ok(findings, "gpu", "NVRTC", nvrtc.name() + ", " + std::to_string(major) + "." + std::to_string(minor));
    else
        lacks(findings, "NVRTC", places.refused.empty() ? "not found" : "not found; " + places.refused.front(),
              "kernels cannot be compiled on this machine",
              "install the CUDA toolkit, or the wheels nvidia-cuda-nvrtc and nvidia-nvjitlink and name their folder in "
              "MILLRACE_CUDA");
    const Library nvml({"libnvidia-ml.so.1"});
    if (nvml.there()) ok(findings, "gpu", "NVML", nvml.name());
    else absent(findings, "gpu", "NVML", "not found", "no power and temperature figures", "comes with the GPU driver");
}

void examine_libraries(Findings& findings) {
    ok(findings, "libraries", "DPDK", rte_version());
    ok(findings, "libraries", "libpcap", pcap_lib_version());
    if (hs_valid_platform() == HS_SUCCESS) ok(findings, "libraries", "Hyperscan", hs_version());
    else
        missing(findings, "libraries", "Hyperscan", std::string(hs_version()) + ", does not run here",
                "no pattern matching on the CPU", "a CPU with SSSE3");
    ok(findings, "libraries", "intel-ipsec-mb", imb_get_version_str());
}

}  // namespace millrace::doctor
