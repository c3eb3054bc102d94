/// Which places may trace.
///
/// Note [Credit]
/// A trace costs what dozens of runs gain, and where a place asks for what no call has again (a Module made
/// anew by each, lengths that do not come back), traces are all that it would ever do. So each trace is a
/// debt that runs pay off; where it has grown, the place rests, each time for twice as many visits. What is
/// compiled anew begins without debts. A place that is full of stretches makes no others until one has not run
/// for kStale visits: more lengths than it has room for, in turn, would each find theirs gone. What holds on to
/// Modules that nobody calls any more goes so, too.
#pragma once
#include <cstdint>
#include <vector>

namespace weft::program {

/// Which traces a place may begin (Note [Credit]).
class Credit {
public:
    /// Nothing is ever granted again, until something is compiled anew.
    bool is_over() const { return over_; }
    /// Whether a trace may begin with registers of this signature: they were here lately, or `at_once`, did not lead
    /// nowhere before, and no rest is due. `has_any`: the place has stretches.
    bool grants(uint64_t signature, bool at_once, bool has_any);
    /// Whether it rests at this visit; each visit is asked once.
    bool rests() { return rests_ > 0 && rests_-- > 0; }
    /// Whether debts are so high that a rest begins now.
    bool begins_rest();
    void take() { debt_ += kTraceCost; }
    void pay_off() { debt_ -= debt_ > 0; }
    void note_failure(uint64_t signature, bool has_any);

    static constexpr int kTraceCost = 32;

private:
    bool was_here(uint64_t signature);

    static constexpr int kRecent = 8, kMostTries = 2, kMostFailures = 8, kMostFruitless = 64;
    static constexpr int kMostDebt = 8 * kTraceCost, kFirstRest = 256, kLongestRest = 1 << 20;

    bool over_ = false;
    int debt_ = 0, rests_ = 0;  ///< `rests_`: visits still to come
    int rest_ = kFirstRest;     ///< how long the next one is
    uint64_t recent_[kRecent] = {};
    int next_ = 0;
    std::vector<uint64_t> failed_;  ///< signatures with which traces led nowhere
    int fruitless_ = 0;             ///< how often one of these came again
};

/// One more part of a signature.
inline uint64_t mix(uint64_t hash, uint64_t with) {
    hash ^= with + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
    return hash;
}

}  // namespace weft::program
