/// From regions to jumps. Reading guide: `Flattener::region` goes through instructions, those with regions
/// have a function each; `leave` writes what ends a try or with on a way out (Note [Cleanups]).
#include <utility>

#include "base/error.h"
#include "program/code.h"

namespace weft::program {
namespace {

class Flattener {
public:
    explicit Flattener(const Function& function) : function_(function) {
        code_.registers = next_ = static_cast<int32_t>(function.registers.size());
        for (const std::string& name : function.registers) code_.named += !name.empty();
    }

    Code run() {
        most_ = 1000 + 50 * count(function_.body);
        region(function_.body);
        return std::move(code_);
    }

private:
    static size_t count(const Region& instructions) {
        size_t n = instructions.size();
        for (const Instruction& i : instructions)
            for (const Region& r : i.regions) n += count(r);
        return n;
    }

    /// What is around an instruction that a way out has to end.
    struct Around {
        enum class Kind : uint8_t { Loop, Finally, Handled, With } kind = Kind::Loop;
        const Region* last = nullptr;  ///< Finally
        int32_t reg = -1;              ///< Handled: what was handled before; With: __exit__
        int32_t handler = -1;          ///< where exceptions of what ends it go
        int32_t offset = -1;
        int32_t continue_to = -1;  ///< Loop
        int32_t iterator = -1;
        std::vector<int32_t> breaks;  ///< Loop: jumps to its end
    };
    using Kind = Around::Kind;

    // ---- emission

    int32_t here() const { return static_cast<int32_t>(code_.instrs.size()); }
    FlatInstr& at(int32_t pc) { return code_.instrs[static_cast<size_t>(pc)]; }

    int32_t emit(Verb verb, std::initializer_list<int32_t> operands = {}, int32_t out = -1,
                 int32_t offset = -1) {
        return emit_span(verb, operands.begin(), operands.size(), out, offset);
    }
    int32_t emit_span(Verb verb, const int32_t* operands, size_t count, int32_t out,
                      int32_t offset) {
        // nested ways out repeat what ends them, again and again
        WEFT_EXPECT(code_.instrs.size() < most_ &&
                        code_.instrs.size() * (function_.registers.size() / 64 + 1) < kMostWords,
                    Value, "program", "functions of a usual size", function_.name);
        FlatInstr i;
        i.verb = verb;
        i.out = out;
        i.first = static_cast<int32_t>(code_.operands.size());
        i.count = static_cast<int32_t>(count);
        i.offset = offset;
        i.handler = handler_;
        code_.operands.insert(code_.operands.end(), operands, operands + count);
        code_.instrs.push_back(i);
        return here() - 1;
    }
    void jump_to(int32_t target) { at(emit(Verb::Jump)).target = target; }
    void lands_here(int32_t jump) { at(jump).target = here(); }

    /// A register of flat code's own, given back by setting `next_` to what it was.
    int32_t take() {
        code_.registers = std::max(code_.registers, next_ + 1);
        return next_++;
    }

    // ---- instructions

    void region(const Region& instructions) {
        for (const Instruction& i : instructions) instruction(i);
    }

    void instruction(const Instruction& i) {
        switch (i.verb) {
            case Verb::If:
                return branch(i);
            case Verb::While:
                return loop_while(i);
            case Verb::For:
                return loop_for(i);
            case Verb::With:
                return with(i);
            case Verb::Try:
                return attempt(i);
            case Verb::Assert:
                return assertion(i);
            case Verb::Break:
            case Verb::Continue:
                return leave_loop(i.verb == Verb::Break);
            case Verb::Return:
                return leave_function(i);
            default:
                return plain(i);
        }
    }

    void plain(const Instruction& i) {
        const int32_t out = i.outs.empty() ? -1 : i.outs[0];
        const int32_t pc = emit_span(i.verb, i.operands.data(), i.operands.size(), out, i.offset);
        FlatInstr& flat = at(pc);
        flat.sub = i.sub;
        flat.attr = i.attr;
        flat.names = i.names;
        if (i.verb == Verb::Method) flat.target = i.numbers[0];
        if (i.verb != Verb::Unpack) return;
        flat.out = static_cast<int32_t>(code_.numbers.size());
        flat.target = static_cast<int32_t>(i.outs.size());
        flat.sub = i.numbers.empty() ? -1 : i.numbers[0];
        flat.names = i.numbers.empty() ? -1 : i.numbers[1];
        code_.numbers.insert(code_.numbers.end(), i.outs.begin(), i.outs.end());
    }

    void branch(const Instruction& i) {
        const int32_t no = emit(Verb::JumpIfFalse, {i.operands[0]}, -1, i.offset);
        region(i.regions[0]);
        if (i.regions[1].empty()) return lands_here(no);
        const int32_t end = emit(Verb::Jump);
        lands_here(no);
        region(i.regions[1]);
        lands_here(end);
    }

    void assertion(const Instruction& i) {
        const int32_t no = emit(Verb::JumpIfFalse, {i.operands[0]}, -1, i.offset);
        const int32_t end = emit(Verb::Jump);
        lands_here(no);
        if (i.regions.empty()) {
            emit(Verb::Fail, {}, -1, i.offset);
        } else {
            region(i.regions[0]);
            emit(Verb::Fail, {i.outs[0]}, -1, i.offset);
        }
        lands_here(end);
    }

    void loop_while(const Instruction& i) {
        const int32_t head = here();
        region(i.regions[0]);
        const int32_t no = emit(Verb::JumpIfFalse, {i.outs[0]}, -1, i.offset);
        body_of_loop(i.regions[1], head, -1, [&] {
            lands_here(no);
            region(i.regions[2]);
        });
    }

    void loop_for(const Instruction& i) {
        const int32_t iterator = take();
        emit(Verb::Iter, {i.operands[0]}, iterator, i.offset);
        const int32_t head = emit(Verb::Next, {iterator}, i.outs[0], i.offset);
        body_of_loop(i.regions[0], head, iterator, [&] {
            lands_here(head);
            emit(Verb::Clear, {}, iterator);
            region(i.regions[1]);
        });
        next_ = iterator;
    }

    template <class F>
    void body_of_loop(const Region& body, int32_t head, int32_t iterator, F&& otherwise) {
        Around loop;
        loop.kind = Kind::Loop;
        loop.continue_to = head;
        loop.iterator = iterator;
        around_.push_back(std::move(loop));
        region(body);
        jump_to(head);
        loop = std::move(around_.back());
        around_.pop_back();
        otherwise();
        for (int32_t jump : loop.breaks) lands_here(jump);
    }

    void with(const Instruction& i) {
        const int32_t before = next_, outer = handler_;
        const int32_t exit = take();
        at(emit(Verb::Enter, {i.operands[0]}, i.outs[0], i.offset)).target = exit;
        const Guarded guarded = guard([&] {
            Around around;
            around.kind = Kind::With;
            around.reg = exit;
            around.handler = outer;
            around.offset = i.offset;
            around_.push_back(std::move(around));
            region(i.regions[0]);
            around_.pop_back();
        });
        emit(Verb::Exit, {exit}, -1, i.offset);
        const int32_t end = emit(Verb::Jump);
        caught(guarded, [&](const Caught& c) {
            const int32_t kept = take();
            emit(Verb::ExitError, {exit, c.error}, kept, i.offset);
            const int32_t no = emit(Verb::JumpIfFalse, {kept}, -1, i.offset);
            handler_ = outer;
            emit(Verb::Uncatch, {c.before});
            c.ends->push_back(emit(Verb::Jump));
            lands_here(no);
            emit(Verb::Uncatch, {c.before});
            emit(Verb::Rethrow, {c.error});
        });
        lands_here(end);
        next_ = before;
    }

    void attempt(const Instruction& i) {
        const int32_t before = next_, outer = handler_;
        const Region& last = i.regions[2];
        auto all = [&] {
            const Guarded body = guard([&] { region(i.regions[0]); }, i.regions.size() > 3);
            region(i.regions[1]);
            if (i.regions.size() == 3) return;
            const int32_t end = emit(Verb::Jump);
            caught(body, [&](const Caught& c) { handlers(i, c); });
            lands_here(end);
        };
        if (last.empty()) {
            all();
        } else {
            const Guarded guarded = guard([&] {
                Around around;
                around.kind = Kind::Finally;
                around.last = &last;
                around.handler = outer;
                around_.push_back(std::move(around));
                all();
                around_.pop_back();
            });
            region(last);
            const int32_t end = emit(Verb::Jump);
            caught(guarded, [&](const Caught& c) {
                handled(c, [&] { region(last); });
                emit(Verb::Uncatch, {c.before});
                emit(Verb::Rethrow, {c.error});
            });
            lands_here(end);
        }
        next_ = before;
    }

    /// What a region whose exceptions are caught left behind.
    struct Guarded {
        int32_t outer;
        int32_t first_register;
        int32_t mark;
        int32_t begin;
    };
    struct Caught {
        int32_t error, before;
        std::vector<int32_t>* ends;
    };

    /// Marks instructions with a handler that `caught` writes.
    template <class F>
    Guarded guard(F&& body, bool is = true) {
        Guarded g{handler_, next_, 0, here()};
        if (!is) {
            body();
            return g;
        }
        handler_ = g.mark = --marks_;
        body();
        handler_ = g.outer;
        return g;
    }

    /// The handler: takes the exception and runs `body`; an exception in it first gives back what was handled.
    template <class F>
    void caught(const Guarded& g, F&& body) {
        const int32_t entry = here();
        for (int32_t pc = g.begin; pc < entry; ++pc)
            if (at(pc).handler == g.mark) at(pc).handler = entry;
        const int32_t before = take(), error = take();
        FlatInstr& c = at(emit(Verb::Catch, {}, error));
        c.target = before;
        c.sub = g.first_register;  // registers of flat code from here on are empty
        std::vector<int32_t> ends;
        const int32_t inner = handler_ = --marks_;
        body(Caught{error, before, &ends});
        handler_ = g.outer;
        const int32_t unwinds = here();
        bool any = false;
        for (int32_t pc = entry; pc < unwinds; ++pc)
            if (at(pc).handler == inner) {
                at(pc).handler = unwinds;
                any = true;
            }
        if (any) emit(Verb::Unwind, {before});
        for (int32_t jump : ends) lands_here(jump);
    }

    /// Runs `body` where the exception is being handled.
    template <class F>
    void handled(const Caught& c, F&& body) {
        Around around;
        around.kind = Kind::Handled;
        around.reg = c.before;
        around_.push_back(std::move(around));
        body();
        around_.pop_back();
    }

    void handlers(const Instruction& i, const Caught& c) {
        for (size_t k = 0; k < i.numbers.size(); ++k) {
            region(i.regions[3 + 2 * k]);
            const int32_t no = emit(Verb::JumpIfFalse, {i.outs[k]}, -1, i.offset);
            if (i.numbers[k] >= 0) emit(Verb::Move, {c.error}, i.numbers[k]);
            handled(c, [&] { region(i.regions[4 + 2 * k]); });
            emit(Verb::Uncatch, {c.before});
            c.ends->push_back(emit(Verb::Jump));
            lands_here(no);
        }
        emit(Verb::Uncatch, {c.before});
        emit(Verb::Rethrow, {c.error});
    }

    // ---- ways out

    /// Ends what is around, from the inside to number `down_to`.
    void leave(size_t down_to) {
        std::vector<Around> kept;
        const int32_t handler = handler_;
        while (around_.size() > down_to) {
            kept.push_back(std::move(around_.back()));
            around_.pop_back();
            const Around& a = kept.back();
            if (a.kind == Kind::Loop) {
                if (a.iterator >= 0) emit(Verb::Clear, {}, a.iterator);
                continue;
            }
            if (a.kind == Kind::Handled) {
                emit(Verb::Uncatch, {a.reg});
                continue;
            }
            handler_ = a.handler;
            if (a.kind == Kind::With) emit(Verb::Exit, {a.reg}, -1, a.offset);
            else region(*a.last);
        }
        for (; !kept.empty(); kept.pop_back()) around_.push_back(std::move(kept.back()));
        handler_ = handler;
    }

    void leave_function(const Instruction& i) {
        bool ends = false;
        for (const Around& a : around_) ends |= a.kind != Kind::Loop;
        int32_t value = i.operands[0];
        if (ends && value >= 0) {  // what ends a try may bind the variable anew
            const int32_t kept = take();
            emit(Verb::Move, {value}, kept);
            value = kept;
            leave(0);
            emit(Verb::Return, {value}, -1, i.offset);
            next_ = kept;
            return;
        }
        if (ends) leave(0);
        emit(Verb::Return, {value}, -1, i.offset);
    }

    void leave_loop(bool ends) {
        size_t loop = around_.size();
        while (around_[loop - 1].kind != Kind::Loop) --loop;
        leave(loop);
        if (!ends) return jump_to(around_[loop - 1].continue_to);
        if (around_[loop - 1].iterator >= 0) emit(Verb::Clear, {}, around_[loop - 1].iterator);
        const int32_t jump = emit(Verb::Jump);
        around_[loop - 1].breaks.push_back(jump);
    }

    static constexpr size_t kMostWords = size_t{1} << 24;  ///< of Code::live
    size_t most_ = 0;                                      ///< instructions
    const Function& function_;
    Code code_;
    std::vector<Around> around_;
    int32_t next_;
    int32_t handler_ = -1;
    int32_t marks_ = -1;  ///< handlers that are not written yet count down from -2
};

}  // namespace

Code flatten(const Function& function) {
    Code code = Flattener(function).run();
    for (const FlatInstr& i : code.instrs) code.comes_back |= i.target == 0 && i.verb == Verb::Jump;
    find_live(code);
    return code;
}

}  // namespace weft::program
