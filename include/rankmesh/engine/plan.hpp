// SPDX-License-Identifier: Apache-2.0
// Plan, what a program declares before it joins: meshes and the communicators that it wants.
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

/// A set of axes by name, as a plan declares it: `{"dp", "cp"}`. The order does not matter.
///
/// Axes is a separate type because `.over = {"dp", "cp"}`, which lacks a pair of braces, must not compile.
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

    /// Returns the same set with a separate channel, found as `on(name)`, so that calls can overlap.
    Axes separate(std::string name) const {
        auto own = *this;
        own.separate_ = std::move(name);
        return own;
    }
    /// Returns the same set with its own timeout for blocking calls.
    Axes within(std::chrono::nanoseconds timeout) const {
        auto own = *this;
        own.timeout_ = timeout;
        return own;
    }
    /// Returns the same set with settings for its device communicator. Groups with equal ranks and settings
    /// share one.
    ///
    ///     const auto tp = Axes("tp").tuned({.max_ctas = 8, .high_priority = true, .name = "tp"});
    ///     const auto plan = Plan{{.mesh = {{"dp", rest}, {"tp", 8}}, .over = {tp}}};
    Axes tuned(DeviceSettings settings) const {
        auto own = *this;
        own.settings_ = std::move(settings);
        return own;
    }
    /// Returns the name of the separate channel; "" for the shared channel.
    const std::string& separate_name() const { return separate_; }
    /// Returns the set's own timeout; nullopt: the timeout of the mesh.
    std::optional<std::chrono::nanoseconds> timeout() const { return timeout_; }
    /// Returns the settings of the device communicator.
    const DeviceSettings& settings() const { return settings_; }

private:
    std::vector<std::string> names_;
    std::string separate_;
    std::optional<std::chrono::nanoseconds> timeout_;
    DeviceSettings settings_;
};

/// Some ranks of each group along axis `of`, by index; negative indices count from the end. Found as
/// `on(as)`.
struct Pick {
    std::string of = {};
    std::vector<int> at = {};
    std::string as = {};
    DeviceSettings tuned = {};  // settings of device communicators, see `Axes::tuned`
};

/// One mesh of a plan, and the communicators that it gets.
struct Declaration {
    /// The name for `member[name]`; may be empty in a plan of one mesh.
    std::string name = {};
    MeshSpec mesh = {{"world", rest}};
    /// Sets of axes that get a communicator, in addition to the single axes. List a single axis to set its
    /// timeout, `Axes("pp").within(...)`, or its settings, `Axes("pp").tuned(...)`.
    std::vector<Axes> over = {};
    std::vector<Pick> picks = {};
    /// The name of the group of this mesh's ranks on one host; used like an axis: `on("node")`, `at("node")`.
    /// Empty: no such group.
    std::string local = {};
    /// The single axes that get a communicator; unset: all axes.
    std::optional<std::vector<std::string>> axes = std::nullopt;
    /// The world rank at each position of the mesh, for layouts that strides cannot express; empty: from the
    /// strides.
    std::vector<int> placed = {};
    /// True if the mesh may omit ranks of the world. These ranks get a member with `inside() == false`.
    bool partial = false;
    /// True: join connects nothing; `prepare` connects each set.
    bool lazy = false;
    /// The timeout of every blocking call on this mesh; unset: the timeout of the world.
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
};

/// The declaration of a program: named meshes over one world.
using Plan = std::vector<Declaration>;

}  // namespace rankmesh
