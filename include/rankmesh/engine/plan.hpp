// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/mesh_spec.hpp>
#include <rankmesh/engine/device_settings.hpp>

namespace rankmesh {

namespace detail {
template <class...>
inline constexpr bool are_in_braces = false;
}  // namespace detail

/// A set of axes by name, as a plan declares it: `{"dp", "cp"}`. Their order does not matter.
///
/// It is a type of its own so that `.over = {"dp", "cp"}`, one pair of braces short, does not compile.
class Axes {
public:
    Axes(std::initializer_list<std::string_view> names) : names_(names.begin(), names.end()) {}
    template <std::convertible_to<std::string_view> Name, std::convertible_to<std::string_view>... Names>
    explicit Axes(const Name& name, const Names&... names)
        : names_{std::string(std::string_view(name)), std::string(std::string_view(names))...} {}
    template <std::convertible_to<std::string_view>... Names>
    Axes(const Names&...) {
        static_assert(detail::are_in_braces<Names...>,
                      "one pair of braces is missing: write .over = {{\"dp\", \"tp\"}}");
    }
    explicit Axes(std::span<const std::string> names) : names_(names.begin(), names.end()) {}

    const std::vector<std::string>& names() const { return names_; }

    /// The same set with a channel of its own instead of the shared one, found as `on(name)`: for calls that
    /// overlap.
    Axes separate(std::string name) const {
        auto own = *this;
        own.separate_ = std::move(name);
        return own;
    }
    /// The same set with a timeout of its own for its blocking calls.
    Axes within(std::chrono::nanoseconds timeout) const {
        auto own = *this;
        own.timeout_ = timeout;
        return own;
    }
    /// The same set with these settings of its device communicator; groups with equal ranks and equal
    /// settings share one.
    ///
    ///     const auto tp = Axes("tp").tuned({.max_ctas = 8, .high_priority = true, .name = "tp"});
    ///     const auto plan = Plan{{.mesh = {{"dp", rest}, {"tp", 8}}, .over = {tp}}};
    Axes tuned(DeviceSettings settings) const {
        auto own = *this;
        own.settings_ = std::move(settings);
        return own;
    }
    /// The name of its own channel, "" for the shared one.
    const std::string& separate_name() const { return separate_; }
    /// Its own timeout; nothing: the mesh's.
    std::optional<std::chrono::nanoseconds> timeout() const { return timeout_; }
    /// The settings of its device communicator.
    const DeviceSettings& settings() const { return settings_; }

private:
    std::vector<std::string> names_;
    std::string separate_;
    std::optional<std::chrono::nanoseconds> timeout_;
    DeviceSettings settings_;
};

/// Some ranks of each group along axis `of`, by index, negative ones counted from the end: found as `on(as)`.
struct Pick {
    std::string of = {};
    std::vector<int> at = {};
    std::string as = {};
    DeviceSettings tuned = {};  // of its communicators on devices, as `Axes::tuned` says
};

/// One mesh of a plan, and which communicators it gets.
struct Declaration {
    /// What `member[name]` asks for; may stay empty in a plan of one mesh.
    std::string name = {};
    MeshSpec mesh = {{"world", rest}};
    /// Sets of axes that get a communicator besides the single axes; a single axis may be listed to get a
    /// timeout, as in `Axes("pp").within(...)`, or settings, as in `Axes("pp").tuned(...)`.
    std::vector<Axes> over = {};
    std::vector<Pick> picks = {};
    /// The name of the group of this mesh's ranks on one host, used like an axis: `on("node")`, `at("node")`.
    /// Empty: no such group.
    std::string local = {};
    /// The single axes that get a communicator; all of them if unset.
    std::optional<std::vector<std::string>> axes = std::nullopt;
    /// The world rank at each mesh position, for layouts that strides cannot express; empty: as the strides
    /// say.
    std::vector<int> placed = {};
    /// True if ranks of the world may be left out; they get a member with `inside() == false`.
    bool partial = false;
    /// True if nothing is connected at join, but each set at `prepare`.
    bool lazy = false;
    /// The timeout of every blocking call on this mesh; if unset, the world's.
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
};

/// What a program declares before it joins: meshes by name over one world.
using Plan = std::vector<Declaration>;

}  // namespace rankmesh
