// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/world.hpp>

#include <signal.h>

#include <cstdlib>
#include <utility>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/text.hpp>

#include "engine/access.hpp"
#include "engine/environment.hpp"
#include "engine/join/join.hpp"
#include "engine/record/recorder.hpp"
#include "engine/timeout.hpp"

namespace rankmesh {

using detail::Access;
using detail::cat;

namespace {

bool can_be_caught(int signal) {
    return signal > 0 && signal <= SIGRTMAX && signal != SIGKILL && signal != SIGSTOP;
}

/// `USR1`, `SIGUSR1` or a number; throws UsageError for anything else.
int signal_named(std::string_view text) {
    auto name = text;
    if (name.starts_with("SIG")) name.remove_prefix(3);
    for (const auto& [known, number] : {std::pair{"USR1", SIGUSR1}, std::pair{"USR2", SIGUSR2},
                                        std::pair{"HUP", SIGHUP}, std::pair{"QUIT", SIGQUIT}})
        if (name == known) return number;
    if (const auto number = detail::number_in(name); number && can_be_caught(*number)) return *number;
    throw UsageError(cat("RANKMESH_RECORD_SIGNAL=", detail::in_quotes(text),
                         " is no signal that can be caught; it is USR1, USR2, HUP, QUIT or a number"));
}

}  // namespace

std::chrono::seconds detail::record_pause(const std::string& folder) {
    const auto* given = std::getenv("RANKMESH_RECORD_EVERY");
    if (!given || !*given) return {};
    auto text = std::string_view(given);
    if (text.ends_with('s')) text.remove_suffix(1);
    const auto number = detail::number_in(text);
    if (!number || *number < 1)
        throw UsageError(cat("RANKMESH_RECORD_EVERY=", detail::in_quotes(given),
                             " is not a whole number of seconds, 1 or more, such as 10s"));
    if (folder.empty())
        throw UsageError(
            cat("RANKMESH_RECORD_EVERY=", given, " has no folder to write to; set RANKMESH_RECORD too"));
    return std::chrono::seconds(*number);
}

std::chrono::nanoseconds detail::default_timeout() noexcept {
    const auto* given = std::getenv("RANKMESH_TIMEOUT");
    if (!given) return std::chrono::minutes(30);
    return std::chrono::seconds(std::max(number_in(given).value_or(0), 0));
}

WorldOptions detail::settled(WorldOptions options) {
    if (options.timeout == options.timeout.zero() && default_timeout() == options.timeout)
        throw UsageError(
            cat("RANKMESH_TIMEOUT=", in_quotes(std::getenv("RANKMESH_TIMEOUT")),
                " is not a whole number of seconds, 1 or more; set it to such a number, or unset it"));
    check_timeout(options.timeout);
    if (!options.record) {
        const auto* given = std::getenv("RANKMESH_RECORD");
        options.record = given ? given : "";
    }
    static_cast<void>(record_pause(*options.record));
    if (!options.record_signal) {
        const auto* given = std::getenv("RANKMESH_RECORD_SIGNAL");
        options.record_signal = given && *given ? signal_named(given) : 0;
    } else if (*options.record_signal != 0 && !can_be_caught(*options.record_signal)) {
        throw UsageError(cat("record_signal=", *options.record_signal,
                             " is no signal that can be caught; it is one such as SIGUSR1, or 0 for none"));
    }
    if (!options.checked) {
        const auto* given = std::getenv("RANKMESH_CHECK");
        const auto text = std::string_view(given ? given : "0");
        if (text != "0" && text != "1")
            throw UsageError(cat("RANKMESH_CHECK='", text,
                                 "' is neither 0 nor 1; set it to 1 to compare calls, or unset it"));
        options.checked = text == "1";
    }
    return options;
}

void detail::WorldState::check_listed(const std::vector<int>& ranks, const char* what, const char* call) {
    if (ranks.empty()) throw UsageError(cat(what, " of no ranks was asked for; list at least this one"));
    auto sorted = ranks;
    std::ranges::sort(sorted);
    const auto listed = cat(what, " of the ranks ", ranks_to_string(ranks), " was asked for");
    if (sorted.front() < 0 || sorted.back() >= size())
        throw UsageError(cat(listed, "; the world has ranks 0..", size() - 1));
    if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
        throw UsageError(cat(listed, ", which lists ", *twice, " twice"));
    if (!std::ranges::binary_search(sorted, rank()))
        throw UsageError(
            cat(listed, " by rank ", rank(), ", which is not one of them; only they call ", call));
}

World::World(std::shared_ptr<detail::WorldState> state)
    : state_(std::move(state)), exceptions_(std::uncaught_exceptions()) {
    if (state_ && !state_->recorder()) {
        if (state_->rank() == 0) detail::tell_unused(state_->engine());
        state_->record_in(detail::Recorder::make({.rank = state_->rank(),
                                                  .size = state_->size(),
                                                  .engine = state_->engine(),
                                                  .host = state_->host()},
                                                 *state_->options.record, *state_->options.record_signal),
                          nullptr);
        if (const auto pause = detail::record_pause(*state_->options.record); pause.count() > 0)
            detail::write_records_every(pause);
    }
    if (state_)
        state_->log(cat("of ", state_->size(), " on ", state_->engine(), ", on host ", state_->host(), " as ",
                        state_->local_rank(), " of ", state_->local_size()));
}
World::World(World&& other) noexcept
    : state_(std::move(other.state_)),
      all_(std::move(other.all_)),
      exceptions_(std::min(other.exceptions_, std::uncaught_exceptions())) {}

World& World::operator=(World&& other) noexcept {
    auto taken = std::move(other);
    auto old = std::move(*this);  // leaves as a destroyed world does
    state_ = std::move(taken.state_);
    all_ = std::move(taken.all_);
    exceptions_ = taken.exceptions_;
    return *this;
}

World::~World() {
    if (state_ && !state_->is_foreign() && state_->size() > 1 && std::uncaught_exceptions() > exceptions_)
        state_->leave(
            cat("rank ", state_->rank(), " of ", state_->size(), " left its world by an exception"));
}

int World::rank() const { return Access::checked_state(*this)->rank(); }
int World::size() const { return Access::checked_state(*this)->size(); }
std::string World::engine() const { return Access::checked_state(*this)->engine(); }

Member World::join(const Plan& plan) { return join(plan, std::nullopt); }

Member World::join(const MeshSpec& mesh, const Declaration& options) {
    auto declaration = options;
    declaration.mesh = mesh;
    auto wrong = std::optional<UsageError>{};
    if (options.mesh != Declaration{}.mesh)
        wrong = UsageError(
            cat("the mesh was given twice, as ", to_string(mesh), " and as ", to_string(options.mesh)));
    return join(std::span(&declaration, 1), std::move(wrong));
}

void World::barrier() {
    if (!all_) all_ = join(MeshSpec{{"world", rest}});
    all_->on("world").barrier();
}

void World::write_record(const std::string& path) const {
    Access::checked_state(*this)->recorder()->write_to(path);
}

std::string World::host() const { return Access::checked_state(*this)->host(); }
int World::local_rank() const { return Access::checked_state(*this)->local_rank(); }
int World::local_size() const { return Access::checked_state(*this)->local_size(); }

World World::sub(const std::vector<int>& ranks) {
    auto& world = *Access::checked_state(*this);
    world.check_listed(ranks, "a world", "sub");
    const auto use = detail::WorldState::Use(world, "sub");
    auto made = detail::recording(world, [&] { return world.sub(ranks); });
    made->record_in(world.recorder(), world.roots_of(ranks));
    made->checked_buffers = world.checked_buffers;
    auto sub = World(std::move(made));
    world.log(cat("is rank ", sub.rank(), " of a world of the ranks ", ranks_to_string(ranks)));
    return sub;
}

World World::survivors(std::chrono::nanoseconds grace) {
    auto& world = *Access::checked_state(*this);
    if (grace <= std::chrono::nanoseconds::zero())
        throw UsageError(
            cat("survivors of a grace of ", detail::to_text(grace), " were asked for; it must be positive"));
    const auto use = detail::WorldState::Use(world, "survivors");
    auto rest = World(detail::recording(world, [&] { return world.survivors(grace); }));
    world.recorder()->renew();
    world.log(cat("is rank ", rest.rank(), " of the ", rest.size(), " survivors"));
    return rest;
}

World World::grow(int most, std::chrono::nanoseconds timeout) {
    auto& world = *Access::checked_state(*this);
    const auto use = detail::WorldState::Use(world, "grow");
    auto larger = World(recording(world, [&] { return world.grow(most, timeout); }));
    world.recorder()->renew();
    world.log(cat("is rank ", larger.rank(), " of ", larger.size(), ", which ", larger.size() - world.size(),
                  " entered"));
    return larger;
}

Member World::join(std::span<const Declaration> plan, std::optional<UsageError> wrong) {
    auto& world = *Access::checked_state(*this);
    const auto use = detail::WorldState::Use(world, "join");
    const auto begin = std::chrono::steady_clock::now();
    auto state = std::make_shared<detail::MemberState>(
        detail::MemberState{.world = state_,
                            .joining = {.exchange = world.exchange(),
                                        .key = cat("join ", ++world.joins),
                                        .timeout = world.options.timeout,
                                        .world = state_,
                                        .device = world.device(),
                                        .checked = *world.options.checked}});
    detail::recording(world,
                      [&] { state->mesh_entries = detail::join(plan, std::move(wrong), state->joining); });
    auto member = Member(state, state->mesh_entries.size() == 1 ? 0 : -1, true);
    if (world.options.log) {
        const auto meshes = detail::joined(state->mesh_entries, ", ",
                                           [](const auto& each) { return to_string(each.mesh.mesh); });
        const auto prefix = member.prefix();
        const auto beside = world.device() ? world.device()->report() : std::string{};
        const auto took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin);
        world.log(prefix.substr(1, prefix.size() - 2),
                  cat("joined ", meshes, " as rank ", world.rank(), " of ", world.size(), " on ",
                      world.engine(), ": ", state->joining.connections.size(), " channels in ",
                      std::to_string(took.count()), " ms", beside.empty() ? "" : "; ", beside));
    }
    return member;
}

}  // namespace rankmesh
