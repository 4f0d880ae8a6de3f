#include "millrace/base/cuda_libraries.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "millrace/base/files/ownership.hpp"
#include "support/test_folder.hpp"

namespace millrace {
namespace {
namespace fs = std::filesystem;

constexpr uid_t kStranger = 65534;

class CudaLibraries : public testing::Test {
protected:
    CudaLibraries() : before_(fs::current_path()) {
        fs::current_path(folder_);
        if (const char* own = std::getenv("MILLRACE_CUDA")) environment_ = own;
        unsetenv("MILLRACE_CUDA");
    }
    ~CudaLibraries() override {
        fs::current_path(before_);
        if (!environment_.empty()) setenv("MILLRACE_CUDA", environment_.c_str(), 1);
    }

    /// Puts a library into a folder below the current one; returns that folder's whole name.
    std::string plant(const std::string& folder) {
        fs::create_directories(folder);
        std::ofstream(folder + "/libnvrtc.so.13") << "not really";
        return fs::canonical(folder).string();
    }
    static bool is_searched(const std::string& folder) {
        for (const std::string& searched : cuda_library_folders().folders)
            if (searched == folder + "/") return true;
        return false;
    }

    fs::path before_;
    test::TestFolder files_;
    const std::string folder_ = files_.path();
    std::string environment_;
};

TEST_F(CudaLibraries, AreNeverSoughtBelowTheCurrentFolder) {
    for (const char* package : {"cu13/lib", "cuda_nvrtc/lib", "nvjitlink/lib"})
        plant(".venv/lib/python3.11/site-packages/nvidia/" + std::string(package));
    plant(".");
    for (const std::string& folder : cuda_library_folders().folders) {
        EXPECT_TRUE(folder.empty() || folder.starts_with("/")) << folder;
        EXPECT_EQ(folder.find(folder_), std::string::npos) << folder;
    }
}

TEST_F(CudaLibraries, AreSoughtFirstWhereTheEnvironmentSays) {
    setenv("MILLRACE_CUDA", plant("own").c_str(), 1);
    EXPECT_EQ(cuda_library_folders().folders.front(), folder_ + "/own/");
    EXPECT_TRUE(cuda_library_folders().refused.empty());
    setenv("MILLRACE_CUDA", "/no/such/folder", 1);
    EXPECT_EQ(cuda_library_folders().folders.front(), "");
    setenv("MILLRACE_CUDA", "", 1);
    EXPECT_EQ(cuda_library_folders().folders.front(), "");
}

TEST_F(CudaLibraries, AreTakenByRootOnlyFromWhereRootAloneCanPutThem) {
    if (geteuid() != 0) GTEST_SKIP() << "asks what root does";
    const std::string folder = plant("opt/vendor/lib"), library = folder + "/libnvrtc.so.13";
    setenv("MILLRACE_CUDA", folder.c_str(), 1);
    EXPECT_TRUE(is_searched(folder));
    // A library, its folder, or any folder above that is another user's, or that others may write.
    for (const std::string& changed : {library, folder, folder_ + "/opt/vendor", folder_ + "/opt"}) {
        ASSERT_EQ(chown(changed.c_str(), kStranger, 0), 0);
        EXPECT_FALSE(is_searched(folder)) << changed;
        ASSERT_EQ(cuda_library_folders().refused.size(), 1u);
        EXPECT_NE(cuda_library_folders().refused[0].find(": " + changed + " belongs to user 65534"), std::string::npos)
            << cuda_library_folders().refused[0];
        ASSERT_EQ(chown(changed.c_str(), 0, 0), 0);
        const fs::perms mode = fs::status(changed).permissions();
        fs::permissions(changed, fs::perms::others_write, fs::perm_options::add);
        EXPECT_FALSE(is_searched(folder)) << changed;
        fs::permissions(changed, mode);
        EXPECT_TRUE(is_searched(folder)) << changed;
    }
    // A link is worth what it leads to, however it got there.
    fs::create_symlink("opt/vendor/lib", "link");
    setenv("MILLRACE_CUDA", "link", 1);
    EXPECT_TRUE(is_searched(folder));
    ASSERT_EQ(chown("opt", kStranger, 0), 0);
    EXPECT_FALSE(is_searched(folder));
}

TEST(Ownership, NamesWhoElseCanChangeAFile) {
    struct stat status{};
    status.st_uid = 1000;
    status.st_gid = 1000;
    status.st_mode = S_IFREG | 0644;
    EXPECT_EQ(who_else_can_change(status, "f", 1000), "");
    EXPECT_EQ(who_else_can_change(status, "f", 0), "f belongs to user 1000");
    EXPECT_EQ(who_else_can_change(status, "f", 1001), "f belongs to user 1000");
    status.st_mode = S_IFREG | 0664;
    EXPECT_EQ(who_else_can_change(status, "f", 1000), "");  // the user's own group
    status.st_gid = 100;
    EXPECT_EQ(who_else_can_change(status, "f", 1000), "f can be written by group 100");
    status.st_gid = 0;
    EXPECT_EQ(who_else_can_change(status, "f", 1000), "");
    status.st_mode = S_IFDIR | 0757;
    EXPECT_EQ(who_else_can_change(status, "f", 1000), "f can be written by everybody");
    status.st_mode = S_IFDIR | S_ISVTX | 0777;
    EXPECT_EQ(who_else_can_change(status, "f", 1000), "");
    EXPECT_EQ(who_else_can_change("/no/such/place", 0), "/no/such/place: No such file or directory");
}

}  // namespace
}  // namespace millrace
