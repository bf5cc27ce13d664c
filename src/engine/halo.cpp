// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/halo.hpp>

#include <optional>
#include <utility>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/access.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {
namespace of_halo {

/// A message on an axis is told from the one that crosses it by its direction.
constexpr auto downward = Tag(0);
constexpr auto upward = Tag(1);

struct Neighbors {
    explicit Neighbors(const Communicator& on, Edge edge)
        : lower(shifted(on.rank(), -1, on.size(), edge)), upper(shifted(on.rank(), 1, on.size(), edge)) {}
    int lower;  // -1: none
    int upper;
};

/// The cells of a field from an index on along each dimension.
class Block {
public:
    explicit Block(const Field& field) : field_(field) {
        for (auto [extent, stride] : field.dimensions) ranges_.push_back({0, extent});
    }
    void cut(std::size_t dimension, std::ptrdiff_t first, std::ptrdiff_t count) {
        ranges_[dimension] = {first, count};
    }
    void send(Communicator& on, int to, Tag tag) const {
        const auto at = layout();
        Access::run(on, StridedCall(make_send(buffer(), to, tag), at, at));
    }
    void recv(Communicator& on, int from, Tag tag) const {
        const auto at = layout();
        Access::run(on, StridedCall(make_recv(buffer(), from, tag), at, at));
    }

private:
    struct Range {
        std::ptrdiff_t first;
        std::ptrdiff_t count;
    };
    MemoryLayout layout() const {
        auto made = MemoryLayout(size_of(field_.buffer.dtype) * field_.buffer.unit);
        for (std::size_t i = 0; i < ranges_.size(); ++i)
            add_dimension(made, ranges_[i].count, field_.dimensions[i].stride);
        end_dimensions(made);
        return made;
    }
    AnyBuffer<void> buffer() const {
        auto cells = field_.buffer;
        auto offset = std::ptrdiff_t{0};
        cells.count = cells.unit;
        for (std::size_t i = 0; i < ranges_.size(); ++i) {
            offset += ranges_[i].first * field_.dimensions[i].stride;
            cells.count *= static_cast<std::size_t>(ranges_[i].count);
        }
        cells.data = static_cast<char*>(cells.data) + offset;
        return cells;
    }

    const Field& field_;
    std::vector<Range> ranges_;
};

/// The exchange along one dimension of a field.
class Sides {
public:
    Sides(const Field& field, std::span<const std::string_view> axes, std::size_t dimension,
          const HaloOptions& options)
        : cells_(field),
          dimension_(dimension),
          extent_(field.dimensions[dimension].extent),
          width_(static_cast<std::ptrdiff_t>(options.width)),
          edge_(options.edge) {
        // Ghost cells along other dimensions: with corners, those that earlier axes have filled.
        for (std::size_t i = 0; i < axes.size(); ++i)
            if (i != dimension && !axes[i].empty() && !(options.corners && i < dimension))
                cells_.cut(i, width_, field.dimensions[i].extent - 2 * width_);
    }
    /// Calls the messages inside a batch on the axis.
    void call(Communicator& on) {
        const auto [lower, upper] = Neighbors(on, edge_);
        if (lower >= 0) at(width_).send(on, lower, downward);
        if (upper >= 0) at(extent_ - 2 * width_).send(on, upper, upward);
        if (upper >= 0) at(extent_ - width_).recv(on, upper, downward);
        if (lower >= 0) at(0).recv(on, lower, upward);
    }

private:
    const Block& at(std::ptrdiff_t first) {
        cells_.cut(dimension_, first, width_);
        return cells_;
    }

    Block cells_;
    std::size_t dimension_;
    std::ptrdiff_t extent_;
    std::ptrdiff_t width_;
    Edge edge_;
};

void check(const Field& field, std::span<const std::string_view> axes, const HaloOptions& options) {
    if (options.width == 0) throw UsageError("halo of width 0; ghost cells have one layer or more");
    if (axes.size() > field.dimensions.size())
        throw UsageError(cat("halo over ", axes.size(), " axes of a field of ", field.dimensions.size(),
                             " dimensions; name one axis a dimension, \"\" where none splits it"));
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const auto extent = static_cast<std::size_t>(field.dimensions[i].extent);
        if (!axes[i].empty() && extent / 3 < options.width)
            throw UsageError(cat("halo of width ", options.width, " over '", axes[i], "': dimension ", i,
                                 " of the field has ", extent, " cells; it takes ", 3 * options.width,
                                 " or more, ghost cells on both sides and as many of its own"));
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

/// Calls `exchange` with the communicator of each axis and the sides of the field that it splits.
template <class Exchange>
void over_axes(const Member& me, const Field& field, std::span<const std::string_view> axes,
               const HaloOptions& options, const Exchange& exchange) {
    check(field, axes, options);
    auto found = communicators(me, axes);
    for (std::size_t i = 0; i < axes.size(); ++i) {
        if (!found[i]) continue;
        auto sides = Sides(field, axes, i, options);
        exchange(*found[i], [&] { sides.call(*found[i]); });
    }
}

/// Adds an operation to those that are waited for as one.
void add(Pending& all, Pending&& more, bool is_first) {
    all = is_first ? std::move(more) : Access::both(std::move(all), std::move(more));
}

Pending start(const Member& me, const Field& field, std::span<const std::string_view> axes,
              const HaloOptions& options) {
    auto all = Pending();
    auto is_first = true;
    over_axes(me, field, axes, options, [&](Communicator& on, const auto& messages) {
        add(all, on.start_batch(messages), std::exchange(is_first, false));
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
        const auto [lower, upper] = of_halo::Neighbors(on, edge);
        auto more = on.start_batch([&] {
            if (lower >= 0) Access::run(on, make_send(sent[2 * i], lower, of_halo::downward));
            if (upper >= 0) Access::run(on, make_send(sent[2 * i + 1], upper, of_halo::upward));
            if (upper >= 0) Access::run(on, make_recv(received[2 * i + 1], upper, of_halo::downward));
            if (lower >= 0) Access::run(on, make_recv(received[2 * i], lower, of_halo::upward));
        });
        of_halo::add(all, std::move(more), i == 0);
    }
    return all;
}

}  // namespace rankmesh::detail
