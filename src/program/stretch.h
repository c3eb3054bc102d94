/// Stretches: parts of programs that run as plans.
///
/// Note [Stretches]
/// A *place* is an instruction from which a program may go on by plan: its first one, and each one after an
/// instruction that ended a stretch. The second time a place is met with registers of one signature, the
/// machine runs on from there with a host (python/program_trace.h, native/trace.h) for which tensors have a
/// layout alone: calls of ops become steps of a segment, what is asked beside the registers becomes guards,
/// calls of programs are followed, and nothing is changed. It goes on until the function returns or something
/// cannot be told from layouts and guards: a value that is read, a write, a function of Python's. What was done
/// up to there, at the last instruction of the place's own function, is a stretch: what it asks of the
/// registers, guards, a plan, and what the registers hold at its end. From then on, where its conditions hold,
/// the plan runs instead.
///
/// A stretch changes nothing but registers and the generator of random numbers, which is put back where it does
/// not come to its end. So it can be left at any time for the instructions themselves: they
/// are run where the plan raises (an index out of range), and then raise what they raise in their place.
///
/// Loops are followed round only over what Modules, globals and constants hold, or up to kMostTurns times over
/// what the stretch itself has counted; loops over values and lengths end a stretch, and their body is one of its own:
/// from what was read at the head up to what is read there the next time.
///
/// What is here is the same for all hosts; what values are, and what is asked of them, is a host's.
///
/// Note [Varying]
/// A number among the registers that once differed is not asked again, nor an attribute or a global that gave
/// another number or tensor twice (a counter, a state that each call replaces): stretches end before what reads
/// them, and the next one begins with what was read. So that what is only read and written again in the end asks
/// nothing, a stretch ends behind the last instruction that called an op.
#pragma once
#include "ops/call.h"
#include "program/code.h"
#include "program/credit.h"
#include "program/gradient.h"

namespace weft::program {

/// Why a trace ends; nothing is wrong.
struct Refused {
    const char* why;
};

/// Whether stretches may run in the mode that is on: what others there are, they would not see.
bool stretches_may_run();

/// What stretches of all hosts are. `Held` is an owned value.
template <class Held>
struct StretchOf {
    /// How a value at the end is made.
    struct Recipe {
        enum class Kind : uint8_t {
            Source,    ///< what was there at the start
            Output,    ///< result `number` of the plan
            Captured,  ///< `object`
            Copy,      ///< of the tensor `object`, which the trace made
            Tuple,
            List,
            Dict,
            Set,
            Slice,
            View,      ///< of a dict, as `object`
            Record,    ///< of the class `object`
            Method,    ///< of `object`, bound to its one part
            Iterator,  ///< of `object`, which was made by iter(), at item `number`
        } kind;
        int32_t number = 0;
        Held object{};
        std::vector<int32_t> parts{};  ///< recipes before this one
    };

    uint32_t refs = 0;
    uint32_t mode = 0;
    DType dtype{};  ///< the default one
    Ref<DifferentiablePlan> plan;
    int32_t steps = 0;
    bool draws = false;          ///< random numbers
    int64_t gain = 0;            ///< what a run is worth, in instructions (Note [Gains])
    int64_t runs = 0, left = 0;  ///< how often it ran; how often the instructions did
    uint64_t last = 0;           ///< the visit of its place in which it ran last
    // The end.
    int32_t pc = -1;  ///< -1: the function returns recipe `returned`
    int32_t returned = -1;
    std::vector<Recipe> recipes;
    std::vector<std::pair<int32_t, int32_t>> writes;  ///< register, recipe
    std::vector<int32_t> clears;                      ///< temporaries that nothing needs any more

    /// Whether it is worth a run: not where backward is mostly recorded itself, as for gradients of gradients
    /// (Note [Compiled nodes]); now and then it is tried again.
    bool pays() const { return !(mode & kGradMode) || plan->rules_run() * kTried <= runs + left; }
    static constexpr int64_t kTried = 64;

    /// Takes the traced `segment`. False: it has fewer steps than `fewest` that compute, so there is nothing to gain.
    bool take(Ref<Segment> segment, int32_t fewest) {
        for (const Step& step : segment->steps) steps += !step.op->view;
        if (steps < fewest) return false;
        draws = segment->draws();
        plan = Ref<DifferentiablePlan>(new DifferentiablePlan(std::move(segment), {}));
        return true;
    }
    /// Ends before the instruction at `at`. `had(r)`: whether a register held something at the start; `stays(r)`:
    /// it holds that at the end; `has(r)`: something; `recipe(r)`: how what it holds is made.
    template <class Had, class Has, class Stays, class Make>
    void end_at(const Code& code, int32_t at, Had had, Has has, Stays stays, Make recipe) {
        pc = at;
        for (int32_t r = 0; r < code.registers; ++r) {
            if (!code.is_live(pc, r)) {
                if (r >= code.named) clears.push_back(r);
            } else if (!has(r)) {
                if (had(r)) clears.push_back(r);
            } else if (!stays(r)) {
                writes.emplace_back(r, recipe(r));
            }
        }
    }
};

/// What a run of such a segment is worth, in instructions of some 230 of the processor, by count: what the calls, views too,
/// cost eagerly and in a plan, with their backward where they are recorded; what the run itself costs; and the
/// traffic of values that stay in the cache.
int64_t gain_of(const Segment& segment);

/// Runs a plan for a stretch. False: a call of it raised; random numbers that it drew are drawn again.
bool run_plan(DifferentiablePlan& plan, bool draws, const Tensor* inputs, Tensor* outputs);

/// The stretches of a place.
template <class Stretch>
class StretchesOf {
public:
    Credit credit;
    uint64_t visits = 0;

    bool empty() const { return all_.empty(); }
    bool is_full() const { return all_.size() >= Stretch::kMost; }
    const std::vector<Ref<Stretch>>& all() const { return all_; }

    enum class Look : uint8_t { Ran, Passed, Gone };
    /// Looks at one after the other, the one that ran last first, then as they were made (so come layers, and
    /// lengths), until one ran; which are gone is dropped. `look` is given each.
    template <class F>
    bool any_runs(F&& look) {
        for (size_t tried = 0; tried < all_.size(); ++tried, ++at_) {
            if (at_ >= all_.size()) at_ = 0;
            const Ref<Stretch> s = all_[at_];
            const Look seen = look(*s);
            if (seen == Look::Ran) return true;
            if (seen != Look::Gone) continue;
            all_.erase(all_.begin() + static_cast<ptrdiff_t>(at_));
            --at_, --tried;
        }
        return false;
    }
    void add(Ref<Stretch> made) {
        made->last = visits;
        at_ = all_.size();
        all_.push_back(std::move(made));
    }
    template <class F>
    void drop(F&& is_gone) {
        std::vector<Ref<Stretch>> kept, gone;  // what they hold may run code when it goes
        for (Ref<Stretch>& s : all_) (is_gone(*s) ? gone : kept).push_back(std::move(s));
        all_ = std::move(kept);
    }
    /// Those that have not run for long.
    void drop_stale() {
        const auto is_stale = [&](const Stretch& s) { return visits - s.last > kStale; };
        for (const Ref<Stretch>& s : all_)
            if (is_stale(*s)) return drop(is_stale);
    }
    /// Whether a rest is on, or begins now, with what did not pay dropped (Note [Credit]).
    bool rests() {
        if (credit.rests()) return true;
        if (!credit.begins_rest()) return false;
        drop([](const Stretch& s) { return s.runs < Credit::kTraceCost / 8; });
        return true;
    }

private:
    static constexpr uint64_t kStale = 1024;
    std::vector<Ref<Stretch>> all_;
    size_t at_ = 0;  ///< the one that ran last
};

/// The instruction that ended a trace is run as it is; what comes after it may be a stretch. `add(pc)` makes a place
/// and is false for what is one. False: all are known.
template <class Add>
bool add_places_after(const Code& code, int32_t ended, Add&& add) {
    const FlatInstr& i = code.instrs[static_cast<size_t>(ended)];
    bool is_new = false;
    if (i.verb == Verb::Jump || i.verb == Verb::JumpIfFalse || i.verb == Verb::Next)
        is_new |= add(i.target);
    if (i.verb != Verb::Jump && i.verb != Verb::Return &&
        static_cast<size_t>(ended) + 1 < code.instrs.size())
        is_new |= add(ended + 1);
    return is_new;
}

}  // namespace weft::program
