// Hyperscan as an engine (Wang et al., "Hyperscan: a fast multi-pattern regex matcher
// for modern CPUs", NSDI 2019).
#include <fmt/format.h>
#include <hs/hs.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>

#include "millrace/nf/nids/pattern/cpu/engines.hpp"

namespace millrace::nf::nids::pattern {
namespace {

/// A regular expression that matches the bytes and nothing else, at most kHyperscanLongest of them. Hyperscan's
/// functions for literals would take the bytes themselves, but since 5.4.1 none that begin with a zero
/// (github.com/intel/hyperscan/issues/388), which contents of rules often do.
std::string expression_of(const std::string& bytes) {
    std::string expression;
    for (const char c : bytes) expression += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    return expression;
}

/// Each pattern is told of once, but for single bytes where there are many of them: to compile so many that are told of
/// once takes Hyperscan a time that grows with their square, ten seconds for all there are.
std::vector<unsigned> flags_of(const PatternSet& set, const std::vector<unsigned>& ids) {
    constexpr std::ptrdiff_t kMany = 16;
    const auto is_byte = [&](unsigned id) { return set.patterns()[id].size() == 1; };
    const bool many = std::ranges::count_if(ids, is_byte) > kMany;
    std::vector<unsigned> flags;
    for (const unsigned id : ids)
        flags.push_back(HS_FLAG_CASELESS | (many && is_byte(id) ? 0u : unsigned{HS_FLAG_SINGLEMATCH}));
    return flags;
}

/// A compiled database, shared by the workers of one set. Hyperscan gets each distinct pattern once.
class Database {
public:
    explicit Database(const PatternSet& set) : next_equal_(set.size(), kNoPattern) {
        std::map<std::string, uint32_t> latest;
        std::vector<std::string> expressions;
        std::vector<unsigned> ids;
        for (uint32_t id = 0; id < set.size(); ++id) {
            const std::string& pattern = set.patterns()[id];
            std::string key = pattern;
            for (char& c : key) c = static_cast<char>(fold(static_cast<uint8_t>(c)));
            const auto [place, is_new] = latest.try_emplace(std::move(key), id);
            if (!is_new) {
                next_equal_[place->second] = id;
                place->second = id;
                continue;
            }
            expressions.push_back(expression_of(pattern));
            ids.push_back(id);
        }
        std::vector<const char*> texts;
        for (const std::string& expression : expressions) texts.push_back(expression.c_str());
        const std::vector<unsigned> flags = flags_of(set, ids);
        hs_compile_error_t* error = nullptr;
        if (hs_compile_multi(texts.data(), flags.data(), ids.data(), static_cast<unsigned>(ids.size()), HS_MODE_BLOCK,
                             nullptr, &database_, &error) != HS_SUCCESS) {
            const std::string message = error == nullptr ? "no reason given" : error->message;
            hs_free_compile_error(error);
            throw std::runtime_error("Hyperscan cannot compile the patterns: " + message);
        }
    }
    ~Database() { hs_free_database(database_); }
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    const hs_database_t* get() const { return database_; }
    /// The next id whose pattern equals that of `id`, or kNoPattern.
    uint32_t next_equal(uint32_t id) const { return next_equal_[id]; }

private:
    hs_database_t* database_ = nullptr;
    std::vector<uint32_t> next_equal_;
};

/// The database of a set: made for the first worker that asks, kept while any worker has it.
std::shared_ptr<const Database> database_for(const std::shared_ptr<const PatternSet>& set) {
    static std::mutex mutex;
    static std::map<std::weak_ptr<const PatternSet>, std::weak_ptr<const Database>, std::owner_less<>> known;
    const std::lock_guard lock(mutex);
    std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
    if (const auto found = known.find(set); found != known.end())
        if (auto database = found->second.lock()) return database;
    auto database = std::make_shared<const Database>(*set);
    known.insert_or_assign(set, database);
    return database;
}

class HyperscanMatcher : public Matcher {
public:
    explicit HyperscanMatcher(std::shared_ptr<const PatternSet> set) : found_(set->size()) {
        if (set->size() == 0) return;
        database_ = database_for(set);
        if (hs_alloc_scratch(database_->get(), &scratch_) != HS_SUCCESS)
            throw std::runtime_error("Hyperscan has no memory for its scratch space");
    }
    ~HyperscanMatcher() override { hs_free_scratch(scratch_); }

    void scan(std::span<const Payload> payloads, PatternHits& hits) override {
        hits.reset(payloads.size());
        if (database_ == nullptr) return;
        for (size_t i = 0; i < payloads.size(); ++i) {
            if (payloads[i].bytes == 0) continue;
            hs_scan(database_->get(), reinterpret_cast<const char*>(payloads[i].data), payloads[i].bytes, 0, scratch_,
                    &HyperscanMatcher::on_match, this);
            if (found_.empty()) continue;
            found_.sort();
            hits.set(i, found_.list());
            found_.clear();
        }
    }
    std::string_view name() const override { return "hyperscan"; }

private:
    static int on_match(unsigned id, unsigned long long, unsigned long long, unsigned, void* context) {
        auto& self = *static_cast<HyperscanMatcher*>(context);
        for (uint32_t equal = id; equal != kNoPattern; equal = self.database_->next_equal(equal))
            if (!self.found_.insert(equal)) break;
        return 0;
    }

    std::shared_ptr<const Database> database_;
    hs_scratch_t* scratch_ = nullptr;
    NumberSet found_;
};

}  // namespace

std::unique_ptr<Matcher> make_hyperscan_matcher(std::shared_ptr<const PatternSet> set) {
    if (hs_valid_platform() != HS_SUCCESS) throw std::runtime_error("Hyperscan needs a CPU with SSSE3");
    return std::make_unique<HyperscanMatcher>(std::move(set));
}

}  // namespace millrace::nf::nids::pattern
