// Kernels kept on disk are code: nobody else may have put them there.
#include "millrace/device/cuda/compile/kernel_store.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "millrace/base/files/file.hpp"
#include "millrace/base/files/output_file.hpp"
#include "millrace/nf/crypto/sha1.hpp"
#include "support/test_folder.hpp"

namespace millrace::device::cuda {
namespace {
namespace fs = std::filesystem;

std::string sha1(const std::string& bytes) {
    crypto::Sha1 state;
    crypto::hash_finish(state, reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<uint32_t>(bytes.size()), 0);
    char text[41];
    for (int i = 0; i < 5; ++i) snprintf(text + 8 * i, 9, "%08x", state.h[i]);
    return text;
}

class KernelsOnDisk : public testing::Test {
protected:
    KernelsOnDisk() {
        source_.chain = {"broken.cu", "this is no C++"};
        source_.cubins = {{}};
        name_ = fingerprint(source_, "sm_90") + "-0.cubin";
        KernelStore({.folder = folder_});  // makes it
        keep(name_, "machine code");
    }

    void keep(const std::string& name, const std::string& cubin) {
        write_file(path(name), sha1(name + "\n" + cubin) + cubin, Readers::owner);
    }
    std::string path(const std::string& name) const { return folder_ + "/" + name; }
    /// The cubin from disk; empty when it would have been compiled, which this source can't be.
    std::string taken() {
        try {
            return KernelStore({.folder = folder_}).cubins({&source_}, "sm_90").front().front();
        } catch (const std::exception&) {
            return {};
        }
    }

    test::TestFolder files_;
    const std::string parent_ = files_.path(), folder_ = files_.path("cache");
    std::string name_;
    ChainSource source_;
};

TEST_F(KernelsOnDisk, AreTheirUsersAlone) {
    EXPECT_EQ(fs::status(folder_).permissions(), fs::perms(0700));
    EXPECT_EQ(taken(), "machine code");
    fs::permissions(path(name_), fs::perms(0602));
    EXPECT_EQ(taken(), "");
    fs::permissions(path(name_), fs::perms(0600));
    EXPECT_EQ(taken(), "machine code");
    for (const std::string& open : {folder_, parent_}) {
        const fs::perms mode = fs::status(open).permissions();
        fs::permissions(open, fs::perms(0777));
        EXPECT_EQ(taken(), "") << open;
        fs::permissions(open, mode);
    }
    if (geteuid() != 0) GTEST_SKIP() << "the rest needs root, who can give files away";
    for (const std::string& foreign : {path(name_), folder_, parent_}) {
        ASSERT_EQ(chown(foreign.c_str(), 65534, 0), 0);
        EXPECT_EQ(taken(), "") << foreign;
        ASSERT_EQ(chown(foreign.c_str(), 0, 0), 0);
    }
    EXPECT_EQ(taken(), "machine code");
}

TEST_F(KernelsOnDisk, AreWholeUnchangedAndUnderTheirOwnName) {
    const std::string whole = read_file(path(name_));
    for (const std::string& bytes : {whole.substr(0, whole.size() - 1), whole + "x", whole.substr(0, 40), std::string(),
                                     whole.substr(0, 40) + "Machine code"}) {
        write_file(path(name_), bytes, Readers::owner);
        EXPECT_EQ(taken(), "") << bytes;
    }
    keep("another.cubin", "machine code");
    fs::rename(path("another.cubin"), path(name_));
    EXPECT_EQ(taken(), "");
    fs::remove(path(name_));
    mkfifo(path(name_).c_str(), 0600);
    EXPECT_EQ(taken(), "");
}

}  // namespace
}  // namespace millrace::device::cuda
