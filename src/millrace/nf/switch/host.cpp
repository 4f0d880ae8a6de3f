#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "millrace/base/descriptor.hpp"
#include "millrace/base/files/file.hpp"
#include "millrace/base/files/file_ledger.hpp"
#include "millrace/base/files/output_file.hpp"
#include "millrace/nf/changeable.hpp"
#include "millrace/nf/classify/bit_vector/vector_store.hpp"
#include "millrace/nf/names_ports.hpp"
#include "millrace/nf/switch/text/change_file.hpp"
#include "millrace/nf/switch/control/control.hpp"
#include "millrace/nf/switch/flows/flow_search.hpp"
#include "millrace/nf/switch/text/match_field.hpp"
#include "millrace/nf/switch/control/show.hpp"
#include "millrace/nf/switch/options.hpp"
#include "millrace/nf/switch/pipeline.hpp"
#include "millrace/nf/switch/text/words.hpp"
#include "millrace/nf/variant.hpp"

namespace millrace::nf::flow_switch {
namespace {

/// Calls of `next` without a change after which the tables are made anew, too; one more for so many flows.
constexpr uint64_t kQuietLooks = 500, kFlowsOfQuietLook = 100;

class SwitchHost : public NetworkFunction,
                   public Varied,
                   public Changeable,
                   public Controllable,
                   public PuntTaker,
                   public NamesPorts {
public:
    SwitchHost(const Config& options, const Environment& environment) : ports_(read_ports(options, environment.ports)) {
        options.only({"flows", "file", "groups", "meters", "ports", "engine", "max-table", "max-flows", "dump",
                      "changes", "controller", "datapath-id", "pipeline", "tls"});
        search_.engine = engine_of(options);
        search_.searcher = environment.on_device ? classify::Searcher::gpu : classify::Searcher::core;
        if (const auto limit = options.find("max-table")) search_.max_bytes = limit->size();
        if (const auto most = options.find("max-flows"))
            room_ = max_flows_ = static_cast<size_t>(most->integer(1, Flow::kMaxFlows));
        if (const auto dump = options.find("dump")) dump_file_ = output_path(*dump, environment.output_folder);
        if (const auto changes = options.find("changes")) {
            changes_.path = changes->path();
            // It may come later; what is there and is no file would never be read.
            std::error_code error;
            if (std::filesystem::exists(changes_.path, error))
                const Descriptor is_file(open_file(changes_.path, changes->where()));
        }
        address_ = read_address(options, environment);
        FlowSet set = load_flow_set(options, ports_, max_flows_);
        files_ = set.files;
        if (!changes_.path.empty()) files_.push_back(changes_.path);
        plain_ = changes_.path.empty() && address_.controllers.empty();
        search_.pipeline = chooses_pipeline(options, set, !plain_);
        std::vector<NumberedFlow> flows;
        auto* previous = dynamic_cast<SwitchHost*>(environment.previous);
        if (previous != nullptr) {
            previous->adopt();
            // What controllers have made may need it.
            search_.pipeline |= previous->search_.pipeline;
            control_ = previous->control_;
            around_ = control_->keep_controlled(set, search_.pipeline);
            for (Flow& flow : set.flows)
                flows.push_back({static_cast<uint32_t>(flows.size()), std::make_shared<const Flow>(std::move(flow))});
        } else {
            control_ = std::make_shared<Control>(ports_, std::move(set), max_flows_, room_, search_.pipeline);
            control_->set_address(address_);
            adopted_ = true;
            Control::Wanted wanted = control_->wanted();
            flows = std::move(wanted.flows);
            around_ = std::move(wanted);
        }
        try {
            flows_ = std::make_shared<const FlowSearch>(std::move(flows), named(), search_);
            finish();
        } catch (const classify::TablesTooLarge& error) {
            options.fail(error.what(), "allow more with 'max-table: 4Gi', take another 'engine', or use fewer flows");
        }
    }

    /// The generation behind `previous`, as things stand now: with what has changed since, or with all tables made anew
    /// where that is due or wanted. Throws TablesTooLarge.
    SwitchHost(const SwitchHost& previous, bool whole)
        : ports_(previous.ports_), search_(previous.search_), max_flows_(previous.max_flows_), room_(previous.room_),
          dump_file_(previous.dump_file_), changes_(previous.changes_), address_(previous.address_),
          plain_(previous.plain_), control_(previous.control_), adopted_(true), files_(previous.files_) {
        if (!whole) {
            if (auto changed = control_->changed(previous.around_.position)) {
                const std::vector<NumberedFlow> changes = std::move(changed->flows);
                around_ = std::move(*changed);
                flows_ = FlowSearch::changed(*previous.flows_, changes, named(), search_);
            }
        }
        if (flows_ == nullptr) {
            Control::Wanted wanted = control_->wanted(whole);
            std::vector<NumberedFlow> flows = std::move(wanted.flows);
            around_ = std::move(wanted);
            flows_ = std::make_shared<const FlowSearch>(std::move(flows), named(), search_, previous.flows_.get());
        } else if (around_.flow_version == previous.around_.flow_version) {
            quiet_looks_ = previous.quiet_looks_;
        }
        finish();
    }

    std::shared_ptr<NetworkFunction> next() override {
        adopt();
        at_work();
        changes_.read_on([this](std::string_view line) { change(line); });
        if (around_.meters != nullptr) control_->refill_meters();
        const auto [version, flow_version] = control_->versions();
        // Flows that have not changed for a while are arranged anew with those that had before, even while meters tick.
        const bool settled = flow_version == around_.flow_version && !flows_->is_settled() &&
                             ++quiet_looks_ >= kQuietLooks + flows_->size() / kFlowsOfQuietLook;
        if (version == around_.version && !settled) return nullptr;
        try {
            return std::make_shared<SwitchHost>(*this, settled);
        } catch (const classify::TablesTooLarge& error) {
            spdlog::warn("switch: {}; the flows stay as they were", error.what());
            std::tie(around_.version, around_.position) = control_->give_up(flows_->flows(), around_.groups->groups());
            quiet_looks_ = 0;
            return nullptr;
        }
    }

    void at_work() override {
        control_->at_work(around_.version, around_.counters, Control::Clock::now(), around_.position);
    }

    std::shared_ptr<Control> control() const override { return control_; }

    const Control::Address& wanted_address() const override { return address_; }

    PuntTaker* punt_taker() override { return control_->listening() ? this : nullptr; }

    bool needs_punt_port(uint32_t outcome) const override {
        const auto punts = [](const Action& action) { return action.kind == ActionKind::controller; };
        const auto any = [&](const auto& actions) { return std::any_of(actions.begin(), actions.end(), punts); };
        const auto in_group = [&](const Group& group) {
            return std::any_of(group.buckets.begin(), group.buckets.end(),
                               [&](const auto& bucket) { return any(bucket.actions); });
        };
        if (!address_.controllers.empty()) return false;
        if (outcome != Switch::kController) return true;
        bool punted = false;
        for_each_flow([&](const Flow& flow) { punted = punted || any(flow.actions); });
        const std::vector<Group>& groups = around_.groups->groups();
        return punted || std::any_of(groups.begin(), groups.end(), in_group);
    }

    bool take(rte_mbuf* packet, const Decision& decision) override {
        const Flow* const flow = punting_flow(decision);
        PuntedPacket punted{packet, ~uint64_t{0}, decision.outcome, 0, 0};
        if (flow != nullptr) {
            punted.cookie = flow->cookie;
            punted.table = flow->table();
            punted.table_miss = flow->is_table_miss() ? 1 : 0;
        }
        return control_->punts().put(punted);
    }

    Fields reads(Fields of_type) const override { return plain_ ? used_.reads : of_type; }
    Fields writes(Fields of_type) const override { return plain_ ? used_.writes : of_type; }

    std::string_view variant() const override { return search_.pipeline ? "pipeline" : ""; }

    const Image& image() const override { return image_; }

    std::string explain(const Decision& decision) const override {
        const Flow* const flow = flow_of(decision.detail);
        if (flow == nullptr) return decision.outcome == Switch::kMiss ? "no flow" : std::string{};
        if (flow->file == Flow::kFromController)
            return fmt::format("flow {} (controller) {}", decision.detail + 1, text_of(*flow, ports_));
        return fmt::format("flow {} ({}:{}) {}", decision.detail + 1,
                           std::filesystem::path(files_[flow->file]).filename().string(), flow->line, flow->text);
    }

    std::vector<Statistic> statistics() const override {
        uint64_t flows = 0, packets = 0, bytes = 0, used = 0;
        for_each_flow([&](const Flow& flow) {
            const Counters::Counts counts = counted(flow);
            ++flows;
            packets += counts.packets;
            bytes += counts.bytes;
            used += counts.packets > 0;
        });
        return {{"flows", flows, "flows loaded"},
                {"groups", around_.groups->groups().size(), "groups loaded"},
                {"used-flows", used, "of the flows, those that matched a packet"},
                {"flow-packets", packets, "packets that matched one of these flows"},
                {"flow-bytes", bytes, "bytes of their frames, as they came in"},
                {"changes", control_->changed_flows(), "flows added, changed and removed while at work"},
                {"refused-changes", changes_.refused, "lines of changes that were wrong"},
                {"packet-ins", control_->traffic().packet_ins, "packets that went to a controller"},
                {"lost-packet-ins", control_->traffic().lost_packet_ins,
                 "packets for a controller, while there was none or it did not read"},
                {"packet-outs", control_->traffic().packet_outs,
                 "packets that a controller sent: each by its ports, or through the chain"},
                {"lost-packet-outs", control_->traffic().lost_packet_outs,
                 "packets that a controller sent, and that were too long or too many"},
                {"table-bytes", table_bytes(), "memory of the search tables"}};
    }

    std::optional<ShownTable> show(std::string_view topic, size_t most) const override {
        return topic == "flows" ? std::optional(show_flows(*control_, most)) : std::nullopt;
    }

    std::string summary() const override {
        return fmt::format("{} flows, {} groups, {} KiB of tables; searched by {}", flows_->size(),
                           around_.groups->groups().size(), table_bytes() >> 10, flows_->choice_text());
    }

    /// As `ovs-ofctl dump-flows` lists them.
    void flush() override {
        if (dump_file_.empty()) return;
        WholeFile out(dump_file_);
        for_each_flow([&](const Flow& flow) {
            const auto [packets, bytes] = counted(flow);
            out.stream() << fmt::format("n_packets={}, n_bytes={}, {}\n", packets, bytes,
                                        flow.file == Flow::kFromController ? text_of(flow, ports_) : flow.text);
        });
        out.finish();
    }

private:
    /// Makes these the control's flows, once the generation is there.
    void adopt() {
        if (std::exchange(adopted_, true)) return;
        around_.position = control_->adopt(ports_, {flow_list(), around_.groups->groups(), {}, {}}, around_.version)
                               .value_or(0);
        control_->set_address(address_);
        control_->set_max_flows(max_flows_);
    }

    /// One line of changes. Throws WordMistake.
    void change(std::string_view line) {
        FlowChange change = parse_change(line, ports_);
        change.flow.line = changes_.lines;
        change.flow.file = static_cast<uint32_t>(files_.size() - 1);
        try {
            control_->change(std::move(change));
        } catch (const Refusal& refusal) {
            if (refusal == Refusal::no_pipeline)
                throw classify::WordMistake{0, "this needs more than one table's worth of OpenFlow 1.0",
                                            "leave 'pipeline: never' out"};
            throw classify::WordMistake{0,
                                        refusal == Refusal::no_group   ? "there is no such group"
                                        : refusal == Refusal::no_meter ? "there is no such meter"
                                                                       : "there are too many flows",
                                        {}};
        }
    }

    /// The flow that sent a packet to the controller. A device tells the lower 16 bits of its number only: with more
    /// flows than that it is the first of those that may be meant.
    const Flow* punting_flow(const Decision& decision) const {
        const auto punts = [](const Action& action) {
            return action.kind == ActionKind::controller || action.kind == ActionKind::group;
        };
        for (uint64_t number = decision.detail; number < flows_->numbers(); number += uint64_t{1} << 16) {
            const Flow* const flow = flow_of(static_cast<uint32_t>(number));
            if (flow == nullptr) continue;
            if (decision.outcome == Switch::kTtlExpired ||
                std::any_of(flow->actions.begin(), flow->actions.end(), punts))
                return flow;
        }
        return nullptr;
    }

    Named named() const { return {around_.groups.get(), around_.meters.get()}; }

    /// Makes the tables of what there is.
    void finish() {
        if (plain_) used_ = fields_used(flow_list(), around_.groups->groups());
        auto& tables = image_.start<Switch::Tables>();
        flows_->attach(image_, tables);
        around_.groups->attach(image_, tables);
        if (search_.pipeline && around_.misses != nullptr) image_.attach(tables.misses, around_.misses);
        if (around_.meters != nullptr) around_.meters->attach(image_, tables);
        image_.attach_state(tables.counters, around_.counters, "counters", around_.counters_in_use);
    }

    /// The flow with a number; null when there is none.
    const Flow* flow_of(uint32_t number) const { return flows_->find(number); }
    template <class F>
    void for_each_flow(F&& f) const {
        for (const NumberedFlow& flow : flows_->flows()) f(*flow.flow);
    }
    std::vector<Flow> flow_list() const {
        std::vector<Flow> list;
        for_each_flow([&](const Flow& flow) { list.push_back(flow); });
        return list;
    }

    Counters::Counts counted(const Flow& flow) const {
        const Counters::Counts counts = Counters::at(*around_.counters, flow.life.counter);
        const Flow::Life& life = flow.life;
        return {counts.packets - std::min(counts.packets, life.first_packets),
                counts.bytes - std::min(counts.bytes, life.first_bytes)};
    }
    uint64_t table_bytes() const { return flows_->bytes(); }

    PortNumbers ports_;
    SearchOptions search_;
    size_t max_flows_ = Flow::kMaxFlows;
    size_t room_ = 0;  // flows for whose counters room is made at the start
    std::string dump_file_;
    ChangeFile changes_;
    Control::Address address_;
    bool plain_ = false;  // nobody changes the flows
    FieldsUsed used_;     // then: by these flows
    std::shared_ptr<Control> control_;
    bool adopted_ = false;            // the control knows of these flows
    std::vector<std::string> files_;  // by Flow::file
    std::shared_ptr<const FlowSearch> flows_;
    Control::Around around_;
    uint64_t quiet_looks_ = 0;
    Image image_;
};

Declaration declaration() {
    return {
        .name = "switch",
        .summary = "forwards packets by OpenFlow flows: matches on headers, changes them, sends by ports",
        .outcomes = {{"forward", Disposition::next, "a flow sends it by a port or several"},
                     {"drop", Disposition::drop, "a flow drops it, or sends it only where it came in"},
                     {"controller", Disposition::punt, "a flow sends it to the controller"},
                     {"miss", Disposition::drop, "no flow matches"},
                     {"ttl-expired", Disposition::drop, "a flow decrements the TTL or hop limit, which has run out"},
                     {"no-room", Disposition::drop,
                      "a flow pushes a tag, and the packet has no room for it or four already"},
                     {"malformed", Disposition::drop, "its headers do not hold, and the chain let it pass"},
                     {"metered", Disposition::drop, "a meter has had more than its rate"},
                     {"two-versions", Disposition::drop,
                      "flows send it and then change it, or by several ports beyond the first 13"}},
        .device_header = "millrace/nf/switch/device.hpp",
        .device_struct = "millrace::nf::flow_switch::Switch",
        .head_growth = 8,
    };
}

Declaration pipeline_declaration() {
    Declaration made = declaration();
    made.name = "switch:pipeline";
    made.device_header = "millrace/nf/switch/pipeline.hpp";
    made.device_struct = "millrace::nf::flow_switch::Pipeline";
    made.head_growth = Pipeline::kMaxGrowth;
    return made;
}

const Register<Switch, SwitchHost> registration{declaration()};
const Register<Pipeline, SwitchHost> pipeline_registration{pipeline_declaration()};

}  // namespace
}  // namespace millrace::nf::flow_switch
