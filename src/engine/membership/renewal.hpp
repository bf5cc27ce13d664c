// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

/// The end of a world whose ranks make a new one, on one of its ranks: all channels of the world fail, and
/// those of worlds that were made of it.
///
/// A channel that fails tells its peers, and a rank that hears it begins the renewal too. So it reaches every
/// rank that has a connection, whatever that rank waits in, by one message for each connection.
class Renewal {
public:
    /// What fails with the world.
    class Part {
    public:
        virtual void renew(const Failure& why) noexcept = 0;

    protected:
        ~Part() = default;
    };

    /// From now on `part` fails when the renewal begins; at once if it has begun. Parts that were added last
    /// fail first.
    void add(Part& part);
    /// Returns once `part` is not in use.
    void remove(Part& part) noexcept {
        const auto lock = std::lock_guard(mutex_);
        std::erase(parts_, &part);
    }
    /// A world was made of these ranks: of some of them, or of all that were left `after` a renewal.
    void add(const std::shared_ptr<Renewal>& made, std::vector<int> ranks, bool after);

    /// This rank has heard of it. Any thread may call it, and waits for nobody else who does.
    void hear(const Failure& why) noexcept;
    /// This rank begins it by its own call. The worlds fail that were made after an earlier one, too.
    void begin(const Failure& why) noexcept;

private:
    struct Made {
        std::weak_ptr<Renewal> renewal;
        std::vector<int> ranks;
    };
    void pass_on(const Failure& why) noexcept;

    std::atomic<bool> begun_ = false;
    std::mutex mutex_;
    std::optional<Failure> why_;
    std::vector<Part*> parts_;
    std::vector<Made> made_;
};

/// A renewal's failure, as a world says it that was made of these ranks.
Failure renewal_in_part(Failure failure, const std::vector<int>& ranks);

}  // namespace rankmesh::detail
