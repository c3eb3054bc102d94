/// What a flush did, for weft.explain: collected only while somebody asks.
#pragma once
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/site.h"

namespace weft::deferred {

using Sites = std::vector<std::pair<Site, int64_t>>;  ///< lines, and how often

struct BatchReport {
    std::string op;
    int64_t calls = 0, rows = 0;
    int64_t aliased = 0, packed = 0,
            pieces = 0;  ///< operands taken as they lie; gathered; from pieces
    std::string why;     ///< why the calls stayed single; empty: they did not
    std::string apart;   ///< what keeps them from the first batch of the same line
    Sites lines;         ///< of the calls
    double run_s = 0;
};

struct FlushReport {
    Sites causes;          ///< lines that read a value
    Sites draws, changes;  ///< lines where examples waited for their turn to do so
    std::string reason;    ///< "values that are read", "the end", "the budget", ...
    int64_t calls = 0;
    bool plan_known = false;
    double plan_s = 0, pack_s = 0, run_s = 0;
    std::vector<BatchReport> batches;
};

inline void add_site(Sites& sites, const Site& site) {
    for (auto& [known, count] : sites)
        if (known.code() == site.code() && known.offset() == site.offset()) {
            ++count;
            return;
        }
    sites.emplace_back(site.copy(), 1);
}

}  // namespace weft::deferred
