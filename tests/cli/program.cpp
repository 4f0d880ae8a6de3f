#include "cli/program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace millrace::test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (std::string& string : strings) result.push_back(string.data());
    result.push_back(nullptr);
    return result;
}

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
    std::vector<std::string> result;
    for (char** entry = environ; *entry != nullptr; ++entry) result.emplace_back(*entry);
    result.insert(result.end(), more.begin(), more.end());
    return result;
}

/// Its exit status once it has ended; it is ended where it would not by itself.
int wait_for(pid_t process) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    int status = 0;
    while (waitpid(process, &status, WNOHANG) == 0) {
        if (std::chrono::steady_clock::now() > until) {
            ADD_FAILURE() << "the program does not end";
            kill(process, SIGKILL);
            waitpid(process, &status, 0);
            break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Ended run_program(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
    const char* const named = std::getenv("MILLRACE_PROGRAM");
    std::vector<std::string> words = {named != nullptr ? named : MILLRACE_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment = environment_with(surroundings.environment);
    const TestFolder folder;
    const std::string out = surroundings.standard_output.empty() ? folder.path("out") : surroundings.standard_output,
                      err = folder.path("err");
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_addopen(&files, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
    pid_t process = 0;
    const int error = posix_spawn(&process, words[0].c_str(), &files, nullptr, pointers(words).data(),
                                  pointers(environment).data());
    posix_spawn_file_actions_destroy(&files);
    Ended ended;
    if (error != 0) {
        ADD_FAILURE() << words[0] << " can't be started";
        return ended;
    }
    ended.status = wait_for(process);
    if (surroundings.standard_output.empty()) ended.out = text_of_file(out);
    ended.err = text_of_file(err);
    return ended;
}

std::string text_of_file(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

}  // namespace millrace::test
