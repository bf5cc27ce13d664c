// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/halo.hpp>

#include <algorithm>
#include <optional>

#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/access.hpp"
#include "engine/memory_layout.hpp"
#include "engine/packed.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {
namespace of_halo {

/// A message on an axis is told from the one that crosses it by its direction.
constexpr auto downward = Tag(0);
constexpr auto upward = Tag(1);

struct Neighbors {
    explicit Neighbors(const Communicator& on, Edge edge)
        : lower(shifted(on.rank(), -1, on.size(), edge)), upper(shifted(on.rank(), 1, on.size(), edge)) {}

    /// Calls `send(side, to, tag)` and `recv(side, from, tag)`, whose side 0 is the lower one, in the order
    /// of tags, so that a batch is not sorted.
    template <class Send, class Recv>
    void call(const Send& send, const Recv& recv) const {
        if (lower >= 0) send(0, lower, downward);
        if (upper >= 0) recv(1, upper, downward);
        if (upper >= 0) send(1, upper, upward);
        if (lower >= 0) recv(0, lower, upward);
    }

private:
    int lower;  // -1: none
    int upper;
};

/// The cells on both sides of a field along one dimension. All four faces have one layout.
class Sides {
public:
    Sides(const Field& field, std::span<const std::string_view> axes, std::size_t dimension,
          const HaloOptions& options)
        : cells_(field.buffer),
          layout_(size_of(field.buffer.dtype) * field.buffer.unit),
          extent_(field.dimensions[dimension].extent),
          width_(static_cast<std::ptrdiff_t>(options.width)),
          stride_(field.dimensions[dimension].stride),
          edge_(options.edge) {
        cells_.count = cells_.unit;
        for (std::size_t i = 0; i < field.dimensions.size(); ++i) {
            auto [count, stride] = field.dimensions[i];
            if (i == dimension) {
                count = width_;
            } else if (i < axes.size() && !axes[i].empty() && !(options.corners && i < dimension)) {
                // Without ghost cells; with corners, with those that earlier axes have filled.
                count -= 2 * width_;
                cells_.data = static_cast<char*>(cells_.data) + width_ * stride;
            }
            cells_.count *= static_cast<std::size_t>(count);
            add_dimension(layout_, count, stride);
        }
        end_dimensions(layout_);
    }

    /// True if this rank is its own neighbor, and the cells are copied where they are.
    bool are_local(const CommunicatorState& on) const {
        return on.size == 1 && on.space == Space::host && cells_.space == Space::host;
    }
    void copy(const CommunicatorState& on) const {
        const auto use = Channel::Use(*on.channel, *on.label);
        if (edge_ == Edge::open) return;
        check_strided(receive(1, 0, downward), on);
        copy(own(0).data, ghosts(1).data);
        copy(own(1).data, ghosts(0).data);
    }
    /// Calls the messages inside a batch on the axis.
    void call(Communicator& on) const {
        Neighbors(on, edge_).call(
            [&](int side, int to, Tag tag) {
                Access::run(on, StridedCall(make_send(own(side), to, tag), layout_, layout_));
            },
            [&](int side, int from, Tag tag) { Access::run(on, receive(side, from, tag)); });
    }

private:
    AnyBuffer<void> own(int side) const { return from(side == 0 ? width_ : extent_ - 2 * width_); }
    AnyBuffer<void> ghosts(int side) const { return from(side == 0 ? 0 : extent_ - width_); }
    AnyBuffer<void> from(std::ptrdiff_t index) const {
        auto cells = cells_;
        cells.data = static_cast<char*>(cells.data) + index * stride_;
        return cells;
    }
    StridedCall receive(int side, int from, Tag tag) const {
        return {make_recv(ghosts(side), from, tag), layout_, layout_};
    }
    void copy(const void* from, void* to) const {
        detail::copy(layout_, cells_.count * size_of(cells_.dtype), static_cast<const char*>(from),
                     static_cast<char*>(to));
    }

    AnyBuffer<void> cells_;
    MemoryLayout layout_;
    std::ptrdiff_t extent_;
    std::ptrdiff_t width_;
    std::ptrdiff_t stride_;
    Edge edge_;
};

void check(const Field& field, std::span<const std::string_view> axes, const HaloOptions& options) {
    if (options.width == 0) throw UsageError("halo of width 0; ghost cells have one layer or more");
    if (axes.size() > field.dimensions.size())
        throw UsageError(cat("halo over ", axes.size(), " axes of a field of ", field.dimensions.size(),
                             " dimensions; name one axis a dimension, \"\" where none splits it"));
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (!axes[i].empty() && std::ranges::count(axes, axes[i]) > 1)
            throw UsageError(cat("halo over '", axes[i],
                                 "' twice; name another axis for each dimension, \"\" where none splits it"));
        const auto extent = static_cast<std::size_t>(field.dimensions[i].extent);
        if (!axes[i].empty() && extent / 3 < options.width)
            throw UsageError(cat("halo of width ", options.width, " over '", axes[i], "': dimension ", i,
                                 " of the field has ", extent, " cells; it takes ", 3 * options.width,
                                 " or more: ", options.width, " ghost on each side, and ", options.width,
                                 " of its own"));
    }
}

/// The communicators of axes, all found before one is used.
std::vector<std::optional<Communicator>> communicators(const Member& me,
                                                       std::span<const std::string_view> axes) {
    auto found = std::vector<std::optional<Communicator>>(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i)
        if (!axes[i].empty()) found[i] = me.on(axes[i]);
    return found;
}

/// Calls `exchange` with the communicator of each axis that has other ranks, and a function that calls the
/// messages of the sides along it. Where an axis has no other ranks the cells are copied.
template <class Exchange>
void over_axes(const Member& me, const Field& field, std::span<const std::string_view> axes,
               const HaloOptions& options, const Exchange& exchange) {
    check(field, axes, options);
    auto found = communicators(me, axes);
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (!found[i]) continue;
        auto& on = *found[i];
        const auto sides = Sides(field, axes, i, options);
        if (const auto& state = Access::state(on); sides.are_local(state))
            sides.copy(state);
        else
            exchange(on, [&] { sides.call(on); });
    }
}

/// Adds an operation to those that are waited for as one.
void add(Pending& all, Pending&& more, bool is_first) {
    all = is_first ? std::move(more) : Access::in_order(std::move(all), std::move(more));
}

Pending start(const Member& me, const Field& field, std::span<const std::string_view> axes,
              const HaloOptions& options) {
    auto all = Pending();
    auto is_first = true;
    over_axes(me, field, axes, options, [&](Communicator& on, const auto& messages) {
        add(all, on.start().batch(messages), std::exchange(is_first, false));
    });
    return all;
}

}  // namespace of_halo

void run_halo(const Member& me, const Field& field, std::span<const std::string_view> axes,
              const HaloOptions& options) {
    if (!options.corners) return of_halo::start(me, field, axes, options).wait();
    of_halo::over_axes(me, field, axes, options,
                       [](Communicator& on, const auto& messages) { on.batch(messages); });
}

Pending start_halo(const Member& me, const Field& field, std::span<const std::string_view> axes,
                   const HaloOptions& options) {
    if (options.corners)
        throw UsageError(
            "a started halo with corners, which are exchanged axis after axis; call halo, or start it "
            "without "
            "corners");
    return of_halo::start(me, field, axes, options);
}

Pending start_neighbors(const Member& me, std::span<const std::string_view> axes, const ConstBuffers& ins,
                        const Buffers& outs, Edge edge) {
    const auto& sent = ListAccess::pieces(ins);
    const auto& received = ListAccess::pieces(outs);
    if (sent.size() != 2 * axes.size() || received.size() != 2 * axes.size())
        throw UsageError(cat("neighbor_all_to_all over ", axes.size(), " axes was given ", sent.size(),
                             " buffers in and ", received.size(), " out; it takes two an axis, ",
                             2 * axes.size(), " in and ", 2 * axes.size(), " out"));
    auto all = Pending();
    auto found = of_halo::communicators(me, axes);
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (!found[i]) continue;
        auto& on = *found[i];
        auto more = on.start().batch([&] {
            of_halo::Neighbors(on, edge).call(
                [&, at = &sent[2 * i]](int side, int to, Tag tag) {
                    Access::run(on, make_send(at[side], to, tag));
                },
                [&, at = &received[2 * i]](int side, int from, Tag tag) {
                    Access::run(on, make_recv(at[side], from, tag));
                });
        });
        of_halo::add(all, std::move(more), i == 0);
    }
    return all;
}

}  // namespace rankmesh::detail
