#include "watch/stop.h"

#include "watch/log.h"

namespace weft::watch {

bool Stop::answer(Question question, int64_t key, const Event& event) {
    auto [at, is_new] = known_[question].try_emplace(key, false);
    if (!is_new) return at->second;
    const bool fits_it = fits(question, event);  // may forget
    return known_[question][key] = fits_it;
}

bool Stop::is_at(const Event& event) {
    if (backward >= 0 && backward != event.backward) return false;
    const int64_t name =
        event.op ? reinterpret_cast<int64_t>(event.op) | event.in_place : int64_t{event.name};
    return (!asks[kOp] || answer(kOp, name, event)) &&
           (!asks[kLine] || answer(kLine, event.site, event)) &&
           (!asks[kModule] || answer(kModule, event.module, event));
}

namespace {

bool fits_shape(DimSpan sizes, const std::vector<int64_t>& wanted, int64_t rest) {
    const auto n = static_cast<int64_t>(sizes.size()), m = static_cast<int64_t>(wanted.size());
    if (rest < 0 ? n != m : n < m) return false;
    for (int64_t i = 0; i < m; ++i) {
        const int64_t from = rest < 0 || i < rest ? i : n - (m - i);
        if (wanted[static_cast<size_t>(i)] >= 0 &&
            wanted[static_cast<size_t>(i)] != sizes[static_cast<size_t>(from)])
            return false;
    }
    return true;
}

}  // namespace

bool Stop::wants(const Tensor& result, bool written, std::span<const Before> operands) const {
    if (asks_shape && !fits_shape(result.shape(), shape, rest)) return false;
    if (!written && (nan || inf || !std::isnan(norm_above))) return false;
    if (nan || inf) {
        Extremes found = extremes_of(result);
        found.nan &= nan;
        found.inf &= inf;  // operands are looked at for what is asked for alone
        for (size_t i = 0; i < operands.size() && (found.nan || found.inf); ++i) {
            if (!operands[i].made && !found.inf) continue;
            const Before& operand = operands[i];
            const Extremes before = operand.had ? *operand.had : extremes_of(*operand.tensor);
            found.nan &= !(before.nan && operands[i].made);
            found.inf &= !before.inf;
        }
        if (!found.nan && !found.inf) return false;
    }
    return std::isnan(norm_above) || norm_of(result) > norm_above;
}

void Stop::forget() {
    for (auto& answers : known_) answers.clear();
    last = -1;
}

}  // namespace weft::watch
