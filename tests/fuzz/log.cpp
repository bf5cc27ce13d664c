// SPDX-License-Identifier: Apache-2.0
// A log, or a report of NCCL's RAS: any bytes are read, and explained, or refused in words.
#include <cstdint>
#include <sstream>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "explain/read/fields.hpp"
#include "explain/read/log.hpp"
#include "explain/read/ras.hpp"
#include "explained.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    const auto bytes = std::string(reinterpret_cast<const char*>(data), size);
    try {
        auto records = std::vector<FlightRecord>{};
        auto lines = std::vector<LoggedLine>{};
        if (bytes.starts_with('{') && !of_log::collected_line(bytes.substr(0, bytes.find('\n')))) {
            records = of_ras::read_report(of_record::parsed(bytes), "ras.json", lines);
        } else {
            auto stream = std::istringstream(bytes);
            auto reader = of_log::LogReader();
            reader.read(stream, "job.log");
            records = reader.records();
            lines = reader.lines();
        }
        constexpr auto few = 4096;  // what is said of a world takes as long as it has ranks
        for (const auto& record : records)
            if (record.least_world_size > few || record.world_size.value_or(0) > few) return 0;
        fuzz::expect_clean(explain(records, {}, {}, lines));
    } catch (const UsageError& error) {
        fuzz::expect_clean(error.what());
    }
    return 0;
}
