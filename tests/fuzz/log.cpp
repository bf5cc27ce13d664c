// SPDX-License-Identifier: Apache-2.0
// A log, or a report of NCCL's RAS: any bytes are read, and explained, or refused in words.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/explain/explain.hpp>

#include "../support/clean.hpp"
#include "explain/read/fields.hpp"
#include "explain/read/log.hpp"
#include "explain/read/ras.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    const auto bytes = std::string(reinterpret_cast<const char*>(data), size);
    const auto expect_clean = [](std::string_view text) {
        if (support::is_clean(text)) return;
        std::fprintf(stderr, "a text is long, or not printable: '%.*s'\n", static_cast<int>(text.size()),
                     text.data());
        std::abort();
    };
    try {
        auto records = std::vector<FlightRecord>{};
        auto lines = std::vector<LoggedLine>{};
        if (bytes.starts_with('{')) {
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
        const auto said = explain(records, {}, {}, lines);
        for (const auto& finding : said.findings) {
            expect_clean(finding.text);
            for (const auto& detail : finding.details) expect_clean(detail);
        }
        for (const auto& note : said.notes) expect_clean(note);
        for (const auto& doubt : said.doubts) expect_clean(doubt);
    } catch (const UsageError& error) {
        expect_clean(error.what());
    }
    return 0;
}
