// millrace verify: says whether the PTX of a domain, or the device half of a network function, may run beside others,
// and fences it.
#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>

#include "millrace/base/files/file.hpp"
#include "millrace/base/files/output_file.hpp"
#include "millrace/base/text/shown_line.hpp"
#include "millrace/cli/commands.hpp"
#include "millrace/cli/nf/named_function.hpp"
#include "millrace/cli/process/output_files.hpp"
#include "millrace/cli/text/table.hpp"
#include "millrace/device/cuda/compile/compiler.hpp"
#include "millrace/device/cuda/compile/nf_source.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/isolation/ptx/writer.hpp"
#include "millrace/isolation/report.hpp"

namespace millrace::cli {
namespace {

struct VerifyArguments {
    std::string file, function, ptx, rewrite, isolation = "fenced", architecture = "sm_90";
    std::string window = fmt::format("0x{:x}", isolation::RewriteOptions().window);
    uint32_t guard = isolation::RewriteOptions().guard_bytes, budget = isolation::RewriteOptions().budget;
    std::optional<uint32_t> shared;  ///< none: what the function declares
    bool json = false;
};

/// An address of 64 bits, decimal or 0x…; nothing when it is none.
std::optional<uint64_t> parse_address(std::string_view text) {
    const bool hexadecimal = text.starts_with("0x");
    if (hexadecimal) text.remove_prefix(2);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

CLI::Validator window_check() {
    return {[](std::string& text) {
                const auto address = parse_address(text);
                const bool good = address && *address != 0 && *address % isolation::kWindowBytes == 0;
                return good ? std::string() : "'" + text + "' is no address of a window: a multiple of 0x100000000";
            },
            ""};
}

CLI::Validator guard_check() {
    return {[](std::string& text) {
                const auto bytes = parse_address(text);
                const bool good = bytes && *bytes % 16 == 0 && *bytes <= uint64_t{1} << 30;
                return good ? std::string() : "'" + text + "' is no guard: a multiple of 16, at most 1 GiB";
            },
            ""};
}

std::string share(size_t added, size_t of) {
    return of == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * static_cast<double>(added) / static_cast<double>(of));
}

void print_table(const std::vector<isolation::FunctionReport>& functions) {
    Table table({"function", "instructions", "loops", "pointers", "variables", "proven", "fence", "bounds", "budget",
                 "clearing", "added"});
    for (const isolation::FunctionReport& f : functions)
        table.add({f.name, grouped(f.instructions), grouped(f.loops), grouped(f.window_accesses),
                   grouped(f.object_accesses), grouped(f.proven_accesses), grouped(f.for_window),
                   grouped(f.for_objects), grouped(f.for_budget), grouped(f.for_clearing),
                   share(f.added(), f.instructions)});
    std::cout << table.text();
}

/// What is verified.
struct Domain {
    std::string name, text;
    uint32_t shared_bytes = 0;
};

Domain domain_of(const VerifyArguments& arguments) {
    if (arguments.function.empty()) {
        show_lines_of(arguments.file);
        return {arguments.file, read_file(arguments.file, {}, isolation::ptx::Limits().text_bytes),
                arguments.shared.value_or(0)};
    }
    const nf::Type& type = named_function(arguments.function);
    // Several lanes wait for each other, which a domain's must not.
    constexpr unsigned kLanes = 1;
    const std::string text = device::cuda::Compiler().compile_ptx(device::cuda::fenced_unit(type, kLanes),
                                                                  arguments.architecture);
    if (!arguments.ptx.empty()) {
        write_file(arguments.ptx, text);
        show_lines_of(arguments.ptx);
    }
    return {arguments.ptx.empty() ? type.name + ".ptx" : arguments.ptx, text,
            arguments.shared.value_or(type.block_bytes)};
}

int verify(const VerifyArguments& arguments) {
    namespace ptx = isolation::ptx;
    note_outputs({{"--rewrite", arguments.rewrite}, {"--ptx", arguments.ptx}});
    const Domain domain = domain_of(arguments);
    const ptx::Module module = ptx::read(domain.text, domain.name);
    isolation::Bounds bounds;
    bounds.shared_bytes = domain.shared_bytes;
    const isolation::Verdict verdict = isolation::verify(module, bounds);
    nlohmann::json report = isolation::refusals_json(verdict);
    if (!verdict.sound()) {
        if (!arguments.json) throw ConfigError(verdict.refusals);
        std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
        return kBadConfiguration;
    }
    isolation::RewriteOptions options;
    options.isolation = *isolation::isolation_named(arguments.isolation);
    options.window = *parse_address(arguments.window);
    options.guard_bytes = arguments.guard;
    options.budget = arguments.budget;
    options.shared_bytes = domain.shared_bytes;
    const isolation::Rewritten rewritten = isolation::rewrite(module, verdict, options);
    if (!arguments.rewrite.empty()) {
        const std::string text = ptx::write(rewritten.module);
        if (arguments.rewrite == "-") std::cout << text;
        else write_file(arguments.rewrite, text);
    }
    if (arguments.json) {
        report["isolation"] = arguments.isolation;
        report["functions"] = isolation::functions_json(rewritten.functions);
        std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    } else if (arguments.rewrite != "-") {
        std::cout << fmt::format("{}: sound; {} function{}, {}\n", domain.name, rewritten.functions.size(),
                                 rewritten.functions.size() == 1 ? "" : "s", arguments.isolation);
        print_table(rewritten.functions);
    }
    return kOk;
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand(
        "verify", "Say whether GPU code may run beside that of others, and fence it; needs no GPU");
    const auto arguments = std::make_shared<VerifyArguments>();
    auto* const file = command->add_option("file", arguments->file, "PTX of all functions of a domain")
                           ->type_name("FILE.ptx");
    auto* const function = command
                               ->add_option("--function", arguments->function,
                                            "Compile the device half of this network function, and verify that: a "
                                            "name of 'millrace nf list', or a plugin's file")
                               ->excludes(file)
                               ->type_name("FUNCTION");
    command->add_option("--architecture", arguments->architecture, "Of the GPU that it is compiled for")
        ->needs(function)
        ->check(architecture_check())
        ->type_name("sm_NN")
        ->capture_default_str();
    command->add_option("--ptx", arguments->ptx, "Write what it was compiled to; refusals name its lines")
        ->needs(function)
        ->type_name("OUT.ptx");
    command->add_option("--isolation", arguments->isolation, "How accesses by pointers are kept in the window")
        ->check(CLI::IsMember({"none", "checked", "fenced"}))
        ->capture_default_str();
    command->add_option("--window", arguments->window, "Where the domain's 4 GiB of memory begin")
        ->check(window_check())
        ->type_name("ADDRESS")
        ->capture_default_str();
    command->add_option("--guard", arguments->guard, "Bytes on each side of the window that may be touched, too")
        ->check(guard_check())
        ->type_name("BYTES")
        ->capture_default_str();
    command->add_option("--budget", arguments->budget, "Instructions that a call may run before it is left")
        ->check(CLI::Range(1u, 0x7fffffffu))
        ->type_name("COUNT")
        ->capture_default_str();
    command
        ->add_option("--shared", arguments->shared,
                     "Bytes of the block's memory that the domain has; unless given, what "
                     "--function declares, or none")
        ->check(CLI::Range(0u, 228u << 10))
        ->type_name("BYTES");
    command->add_option("--rewrite", arguments->rewrite, "Write the fenced PTX to this file; '-' prints it")
        ->type_name("OUT.ptx");
    command->add_flag("--json", arguments->json, "Print the findings as JSON");
    command->footer("Exit status: 0 when it may run, 2 when it is refused or is no PTX that is understood.");
    command->callback([arguments, &status] {
        if (arguments->file.empty() && arguments->function.empty()) throw CLI::RequiredError("FILE.ptx or --function");
        if (arguments->json && arguments->rewrite == "-")
            throw CLI::ValidationError("--json", "goes to standard output, as does --rewrite -");
        status = verify(*arguments);
    });
}

}  // namespace millrace::cli
