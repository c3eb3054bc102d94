/// Where stretches begin, and which are made.
///
/// Note [Varying]
/// A number among the registers that once differed is not asked again, nor an attribute or a global that gave
/// another number or tensor twice (a counter, a state that each call replaces): stretches end before what reads
/// them, and the next one begins with what was read. So that what is only read and written again in the end asks
/// nothing, a stretch ends behind the last instruction that called an op.
///
/// Note [Credit]
/// A trace costs what dozens of runs gain, and where a place asks for what no call has again (a Module made
/// anew by each, lengths that do not come back), traces are all that it would ever do. So each trace is a
/// debt that runs pay off; where it has grown, the place rests, each time for twice as many visits. What is
/// compiled anew begins without debts. A place that is full of stretches makes no others until one has not run
/// for kStale visits: more lengths than it has room for, in turn, would each find theirs gone. What holds on to
/// Modules that nobody calls any more goes so, too.
#pragma once
#include "python/program_stretch.h"

namespace weft::python {

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

/// Where stretches begin, and those that do.
class Place {
public:
    explicit Place(int32_t pc) : pc_(pc) {}
    program::Onward visit(Frame* frame, PyObject*& result);
    /// Drops the stretches that were made while `reach` was what ran.
    void forget(uint64_t reach);
    /// What they hold, for the collector.
    int traverse(uint64_t reach, visitproc visit, void* arg) const;
    /// For explain: a dict with what begins here, how often it ran, and why it ends where it does.
    Object describe(const Program& program) const;

    static inline bool enabled = true;

private:
    program::Onward trace(Frame* frame, PyObject*& result);
    /// Whether a stretch asks for what varies.
    bool varies(const Stretch& stretch, const Stretch::Differs& differs);
    uint64_t signature_of(const Frame* frame) const;
    bool add_places(Frame* frame) const;
    program::Onward take_up(Frame* frame, Ref<Stretch> made, PyObject*& result);
    void begin_anew();
    template <class F>
    void drop(F&& is_gone);

    static constexpr size_t kMostStretches = 256, kMostVarying = 64;
    static constexpr uint64_t kStale = 1024;

    const int32_t pc_;
    Credit credit_;
    bool sizes_vary_ = false;  ///< in defer mode: then nothing is kept whole
    uint64_t newest_ = 0;      ///< number of the newest Reach that was here
    uint64_t visits_ = 0;
    int32_t ended_ = -1;         ///< before which instruction the last trace ended
    const char* why_ = nullptr;  ///< and why
    std::vector<Ref<Stretch>> stretches_;
    size_t at_ = 0;  ///< the one that ran last
    std::vector<LiveSource> varying_;
    std::vector<VaryingRead> varying_reads_;
};

/// Makes a place of an instruction; false if it is one.
bool add_place(Program& program, int32_t pc);

}  // namespace weft::python
