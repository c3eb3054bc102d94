#include <algorithm>

#include "program/code.h"

namespace weft::program {
namespace {

void set(Code::Bits& bits, int32_t r) {
    bits[static_cast<size_t>(r / 64)] |= uint64_t{1} << (r % 64);
}
void reset(Code::Bits& bits, int32_t r) {
    bits[static_cast<size_t>(r / 64)] &= ~(uint64_t{1} << (r % 64));
}
bool test(const Code::Bits& bits, int32_t r) {
    return bits[static_cast<size_t>(r / 64)] >> (r % 64) & 1;
}
void unite(Code::Bits& to, const Code::Bits& from) {
    for (size_t k = 0; k < to.size(); ++k) to[k] |= from[k];
}

template <class F>
void for_each_out(const Code& code, const FlatInstr& i, F&& f) {
    if (i.verb == Verb::Unpack) {
        for (int32_t k = 0; k < i.target; ++k) f(code.numbers[static_cast<size_t>(i.out + k)]);
        return;
    }
    if (i.out >= 0) f(i.out);
    if (i.verb == Verb::Enter || i.verb == Verb::Catch) f(i.target);
}

bool falls_through(Verb v) {
    return v != Verb::Jump && v != Verb::Return && v != Verb::Rethrow && v != Verb::Unwind &&
           v != Verb::Raise && v != Verb::Reraise && v != Verb::Fail;
}
bool jumps(Verb v) { return v == Verb::Jump || v == Verb::JumpIfFalse || v == Verb::Next; }

}  // namespace

void find_live(Code& code) {
    const size_t n = code.instrs.size(), words = static_cast<size_t>(code.registers + 63) / 64;
    code.live.assign(n + 1, Code::Bits(words, 0));
    auto after = [&](size_t pc) {
        const FlatInstr& i = code.instrs[pc];
        Code::Bits out(words, 0);
        if (falls_through(i.verb)) unite(out, code.live[pc + 1]);
        if (jumps(i.verb)) unite(out, code.live[static_cast<size_t>(i.target)]);
        return out;
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t pc = n; pc-- > 0;) {
            const FlatInstr& i = code.instrs[pc];
            Code::Bits bits = after(pc);
            for_each_out(code, i, [&](int32_t r) { reset(bits, r); });
            if (i.verb == Verb::Next)  // where there are no more, nothing is written
                unite(bits, code.live[static_cast<size_t>(i.target)]);
            // an iterator stays on CPython's stack to the end of its loop, also where it is not asked again
            if (i.verb == Verb::Delete || i.verb == Verb::Clear) set(bits, i.out);
            for (int32_t k = 0; k < i.count; ++k)
                if (const int32_t o = code.operands_of(i)[k]; o >= 0) set(bits, o);
            if (i.handler >= 0) unite(bits, code.live[static_cast<size_t>(i.handler)]);
            if (bits != code.live[pc]) {
                code.live[pc] = std::move(bits);
                changed = true;
            }
        }
    }
    for (size_t pc = 0; pc < n; ++pc) {  // Note [Temporaries]
        FlatInstr& i = code.instrs[pc];
        if (i.verb == Verb::Return || i.verb == Verb::Clear) continue;
        const Code::Bits out = after(pc);
        i.first_kill = static_cast<int32_t>(code.kills.size());
        auto dies = [&](int32_t r) {
            if (r < code.named || test(out, r)) return;
            if (i.handler >= 0 && test(code.live[static_cast<size_t>(i.handler)], r)) return;
            if (std::find(code.kills.begin() + i.first_kill, code.kills.end(), r) ==
                code.kills.end())
                code.kills.push_back(r);
        };
        for (int32_t k = 0; k < i.count; ++k)
            if (const int32_t o = code.operands_of(i)[k]; o >= 0) dies(o);
        if (i.verb != Verb::Delete) for_each_out(code, i, dies);
        i.kills = static_cast<int32_t>(code.kills.size()) - i.first_kill;
    }
}

}  // namespace weft::program
