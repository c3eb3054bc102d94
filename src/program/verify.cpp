/// Reading guide: `kShapes` says what the instruction of each verb has; `region` goes through instructions with the
/// set of temporaries that are written by then.
#include "program/verify.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace weft::program {
namespace {

constexpr int kAny = 255;

/// What an instruction of a verb has.
struct Shape {
    Verb verb;
    int outs, least, most;  ///< results; operands
    int regions = 0;
    int subs = 0;  ///< `sub` is below this; -1: a cell
    bool attr = false, names = false;
};

constexpr Shape kShapes[] = {
    {Verb::Move, 1, 1, 1},
    {Verb::Outer, 1, 1, 1},
    {Verb::Delete, 1, 0, 0},
    {Verb::Global, 1, 0, 0, 0, 0, true},
    {Verb::Cell, 1, 0, 0, 0, -1, true},
    {Verb::Free, 1, 0, 0, 0, -1, true},
    {Verb::SetCell, 0, 1, 1, 0, -1, true},
    {Verb::NewCell, 0, 0, 0, 0, -1, true},
    {Verb::Attr, 1, 1, 1, 0, 0, true},
    {Verb::Lookup, 1, 1, 1, 0, 0, true},
    {Verb::SetAttr, 0, 2, 2, 0, 0, true},
    {Verb::DelAttr, 0, 1, 1, 0, 0, true},
    {Verb::Get, 1, 2, 2},
    {Verb::SetGet, 0, 3, 3},
    {Verb::DelGet, 0, 2, 2},
    {Verb::Slice, 1, 3, 3},
    {Verb::Binary, 1, 2, 2, 0, static_cast<int>(std::size(kBinary))},
    {Verb::Inplace, 1, 2, 2, 0, static_cast<int>(std::size(kBinary))},
    {Verb::Unary, 1, 1, 1, 0, static_cast<int>(std::size(kUnary))},
    {Verb::Compare, 1, 2, 2, 0, static_cast<int>(std::size(kCompare))},
    {Verb::Tuple, 1, 0, kAny},
    {Verb::List, 1, 0, kAny},
    {Verb::Set, 1, 0, kAny},
    {Verb::Dict, 1, 0, kAny},
    {Verb::Extend, 0, 2, 2},
    {Verb::Update, 0, 2, 2},
    {Verb::Merge, 0, 2, 2},
    {Verb::Insert, 0, 3, 3},
    {Verb::Append, 0, 2, 2},
    {Verb::Add, 0, 2, 2},
    {Verb::Put, 0, 3, 3},
    {Verb::ToTuple, 1, 1, 1},
    {Verb::Format, 1, 2, 2, 0, static_cast<int>(std::size(kConvert))},
    {Verb::Join, 1, 0, kAny},
    {Verb::Unpack, kAny, 1, 1},
    {Verb::Call, 1, 1, kAny, 0, 0, false, true},
    {Verb::CallEx, 1, 3, 3},
    {Verb::Method, 1, 1, kAny, 0, 0, true, true},
    {Verb::Super, 1, 2, 2},
    {Verb::Iter, 1, 1, 1},
    {Verb::MakeFunction, 1, 2, 2, 0, kAny},
    {Verb::Import, 1, 0, 0, 0, 0, false, true},
    {Verb::ImportFrom, 1, 1, 1, 0, 0, true},
    {Verb::Raise, 0, 1, 2},
    {Verb::Reraise, 0, 0, 0},
    {Verb::Match, 1, 1, 1},
    {Verb::Return, 0, 1, 1},
    {Verb::Break, 0, 0, 0},
    {Verb::Continue, 0, 0, 0},
    {Verb::Assert, kAny, 1, 1, kAny},
    {Verb::If, 0, 1, 1, 2},
    {Verb::While, 1, 0, 0, 3},
    {Verb::For, 1, 1, 1, 2},
    {Verb::With, 1, 1, 1, 1},
    {Verb::Try, kAny, 0, 0, kAny},
};

/// The temporaries that are written wherever one comes from; all of them where nothing comes.
class Written {
public:
    explicit Written(size_t n) : bits_(n, false) {}
    void add(int32_t r) { bits_[static_cast<size_t>(r)] = true; }
    bool has(int32_t r) const { return !reached_ || bits_[static_cast<size_t>(r)]; }
    bool is_reached() const { return reached_; }
    void stop() { reached_ = false; }
    /// Where two ways meet.
    void meet(const Written& other) {
        if (!other.reached_) return;
        if (!reached_) {
            *this = other;
            return;
        }
        for (size_t k = 0; k < bits_.size(); ++k) bits_[k] = bits_[k] && other.bits_[k];
    }

private:
    std::vector<bool> bits_;
    bool reached_ = true;
};

class Verifier {
public:
    Verifier(const Function& f, const Facts& facts) : f_(f), facts_(facts) {}

    void run() {
        size_t named = 0;
        while (named < f_.registers.size() && !f_.registers[named].empty()) ++named;
        expect(std::all_of(f_.registers.begin() + static_cast<std::ptrdiff_t>(named),
                           f_.registers.end(), [](const std::string& n) { return n.empty(); }),
               "temporaries after all named registers");
        named_ = static_cast<int32_t>(named);
        expect(f_.params >= 0 && f_.params <= named_, "parameters among the named registers");
        expect(f_.own_cells >= 0 && static_cast<size_t>(f_.own_cells) <= f_.cells.size(),
               "own cells among the cells");
        Written written(f_.registers.size());
        region(f_.body, written);
        expect(!written.is_reached(), "return or raise at the end of every way through");
    }

private:
    void expect(bool holds, std::string_view what) const {
        if (holds) return;
        std::string got = f_.name;
        if (at_) got += std::string(": ") + std::string(kVerbNames[static_cast<size_t>(at_->verb)]);
        if (at_ && at_->offset >= 0) got += " @" + std::to_string(at_->offset);
        WEFT_EXPECT(false, Runtime, "program", what, got);
    }

    void region(const Region& instructions, Written& written) {
        for (const Instruction& i : instructions) {
            const Instruction* outer = std::exchange(at_, &i);
            instruction(i, written);
            at_ = outer;
        }
    }

    void instruction(const Instruction& i, Written& written) {
        shape(i);
        for (int32_t o : i.operands) read(o, written);
        switch (i.verb) {
            case Verb::If:
                return branch(i, written);
            case Verb::While:
                return loop_while(i, written);
            case Verb::For:
                return loop_for(i, written);
            case Verb::With:
                written.add(i.outs[0]);
                return guarded(i, written);
            case Verb::Try:
                return attempt(i, written);
            case Verb::Assert: {
                Written failed = written;
                if (i.regions.empty()) return;
                region(i.regions[0], failed);
                return read(i.outs[0], failed);
            }
            case Verb::Break:
            case Verb::Continue:
                expect(!loops_.empty(), "a loop around break and continue");
                if (i.verb == Verb::Break) loops_.back().meet(written);
                return written.stop();
            case Verb::Return:
            case Verb::Raise:
            case Verb::Reraise:
                return written.stop();
            default:
                for (int32_t r : i.outs) written.add(r);
        }
    }

    void read(int32_t operand, const Written& written) const {
        if (operand < 0) return expect(~operand < f_.consts, "a constant that is there");
        expect(operand < static_cast<int32_t>(f_.registers.size()), "a register that is there");
        expect(operand < named_ || written.has(operand), "a temporary that is written before");
    }

    void shape(const Instruction& i) const {
        const Shape* s = std::find_if(std::begin(kShapes), std::end(kShapes),
                                      [&](const Shape& one) { return one.verb == i.verb; });
        expect(s != std::end(kShapes), "a verb of functions");
        const auto operands = static_cast<int>(i.operands.size());
        expect(operands >= s->least && (s->most == kAny || operands <= s->most),
               "as many operands as the verb has");
        expect(s->outs == kAny || static_cast<int>(i.outs.size()) == s->outs,
               "as many results as the verb has");
        for (int32_t r : i.outs)
            expect(r >= 0 && r < static_cast<int32_t>(f_.registers.size()),
                   "results in registers that are there");
        expect(s->regions == kAny || static_cast<int>(i.regions.size()) == s->regions,
               "as many regions as the verb has");
        const int subs = s->subs < 0 ? static_cast<int>(f_.cells.size()) : std::max(s->subs, 1);
        expect(i.sub >= 0 && (s->subs == kAny || i.sub < subs),
               "an operator or cell that is there");
        expect(s->attr ? i.attr >= 0 && i.attr < f_.attrs : i.attr == -1,
               "a name where the verb has one");
        expect(s->names ? i.names >= -1 && i.names < f_.attrs : i.names == -1,
               "names of arguments where the verb has them");
        expect(i.verb != Verb::Import || i.names >= 0, "what is imported");
        if (i.verb == Verb::Dict) expect(operands % 2 == 0, "keys and values in pairs");
        if (i.verb == Verb::Delete) expect(i.outs[0] < named_, "a variable to delete");
        if (i.verb == Verb::Assert)
            expect(i.regions.size() < 2 && i.outs.size() == i.regions.size(),
                   "one result for one region");
        if (i.verb == Verb::Try) {
            const size_t handlers = i.outs.size();
            expect(i.numbers.size() == handlers && i.regions.size() == 3 + 2 * handlers,
                   "two regions, a result and a name for each handler");
            for (int32_t r : i.numbers)
                expect(r >= -1 && r < static_cast<int32_t>(f_.registers.size()),
                       "names of exceptions in registers that are there");
        } else if (i.verb == Verb::Unpack && !i.numbers.empty()) {
            expect(i.numbers.size() == 2 && i.numbers[0] >= 0 && i.numbers[1] >= 0 &&
                       static_cast<size_t>(i.numbers[0] + i.numbers[1]) + 1 == i.outs.size(),
                   "results before and after the star");
        } else if (i.verb == Verb::Method) {
            expect(i.numbers.size() == 1, "where the method is looked up");
        } else {
            expect(i.numbers.empty(), "numbers where the verb has them");
        }
    }

    // ---- regions

    void branch(const Instruction& i, Written& written) {
        Written otherwise = written;
        region(i.regions[0], written);
        region(i.regions[1], otherwise);
        written.meet(otherwise);
    }

    /// A loop's body; what is written where it is left by `break`.
    Written body_of_loop(const Region& body, Written written) {
        Written breaks(f_.registers.size());
        breaks.stop();
        loops_.push_back(breaks);
        region(body, written);
        breaks = loops_.back();
        loops_.pop_back();
        return breaks;
    }

    /// Whether the last that a region writes to a register is True.
    bool is_always_true(const Region& instructions, int32_t reg) const {
        bool is = false;
        for (const Instruction& i : instructions) {
            if (!writes(i, reg)) continue;
            const int32_t from = i.verb == Verb::Move ? i.operands[0] : 0;
            is = from < 0 && static_cast<size_t>(~from) < facts_.is_true.size() &&
                 facts_.is_true[static_cast<size_t>(~from)];
        }
        return is;
    }
    static bool writes(const Instruction& i, int32_t reg) {
        auto has = [&](const std::vector<int32_t>& all) {
            return std::ranges::count(all, reg) > 0;
        };
        return has(i.outs) || (i.verb == Verb::Try && has(i.numbers)) ||
               std::ranges::any_of(i.regions, [&](const Region& inside) {
                   return std::ranges::any_of(inside,
                                              [&](const auto& one) { return writes(one, reg); });
               });
    }

    void loop_while(const Instruction& i, Written& written) {
        region(i.regions[0], written);
        read(i.outs[0], written);
        const Written breaks = body_of_loop(i.regions[1], written);
        if (is_always_true(i.regions[0], i.outs[0])) written.stop();
        region(i.regions[2], written);
        written.meet(breaks);
    }

    void loop_for(const Instruction& i, Written& written) {
        Written body = written;
        body.add(i.outs[0]);
        const Written breaks = body_of_loop(i.regions[0], body);
        region(i.regions[1], written);
        written.meet(breaks);
    }

    /// `with`: its exceptions may end in it, if who runs it has such.
    void guarded(const Instruction& i, Written& written) {
        const Written before = written;
        region(i.regions[0], written);
        if (!facts_.scopes_pass) written.meet(before);
    }

    void attempt(const Instruction& i, Written& written) {
        const Written before = written;
        region(i.regions[0], written);
        region(i.regions[1], written);
        Written matching = before;
        for (size_t k = 0; k < i.outs.size(); ++k) {
            region(i.regions[3 + 2 * k], matching);
            read(i.outs[k], matching);
            Written handler = matching;
            if (i.numbers[k] >= 0) handler.add(i.numbers[k]);
            region(i.regions[4 + 2 * k], handler);
            written.meet(handler);
        }
        // what is in it is looked at twice, and what is in the last region of that, four times
        expect(++last_depth_ <= 8 || i.regions[2].empty(), "try in finally less deep");
        Written anyhow = before;  // where the last region may begin
        region(i.regions[2], anyhow);
        if (written.is_reached()) region(i.regions[2], written);
        --last_depth_;
    }

    const Function& f_;
    const Facts& facts_;
    int32_t named_ = 0;
    const Instruction* at_ = nullptr;
    std::vector<Written> loops_;
    int last_depth_ = 0;
};

}  // namespace

void verify(const Function& function, const Facts& facts) { Verifier(function, facts).run(); }

}  // namespace weft::program
