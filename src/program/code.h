/// A function ready to run: flat instructions with jumps.
///
/// Note [Cleanups]
/// `return`, `break` and `continue` out of a `try … finally` or a `with` run what ends it on their way, so
/// that is written once for each way out, as CPython's compiler does. An instruction knows where its
/// exceptions are handled (`handler`); those of a cleanup on the way out are the outer ones'. A handler
/// begins with `catch`, which takes the exception, makes it the one being handled and keeps the one
/// handled so far in a register; `uncatch` gives that back, `rethrow` raises again without a second entry in
/// the traceback, and `unwind` gives back what was handled while another exception is on its way.
///
/// Note [Temporaries]
/// A temporary dies with its last use, as on CPython's stack; a variable lives until it is deleted, bound
/// anew, or its function ends.
#pragma once
#include "program/function.h"

namespace weft::program {

struct FlatInstr {
    Verb verb;
    int32_t sub = 0;
    int32_t out = -1;  ///< the register written; `unpack`: first of `outs` in Code::numbers
    int32_t first = 0, count = 0;  ///< operands
    int32_t attr = -1, names = -1;
    int32_t target = -1;  ///< where a jump goes; `next`: when there are no more
    int32_t offset = -1;
    int32_t handler = -1;  ///< where exceptions go; -1: out of the function
    int32_t first_kill = 0, kills = 0;
    void* place = nullptr;  ///< the host's: it is asked before the instruction runs
};

struct Code {
    std::vector<FlatInstr> instrs;
    std::vector<int32_t> operands, numbers, kills;
    int32_t registers = 0;    ///< with those that flat code adds
    int32_t named = 0;        ///< the first of them have names
    bool comes_back = false;  ///< to its first instruction, as a loop does that is its beginning

    const int32_t* operands_of(const FlatInstr& i) const { return operands.data() + i.first; }
    /// Which registers are read from an instruction on before they are written: one bit each.
    using Bits = std::vector<uint64_t>;
    const Bits& live_at(int32_t pc) const { return live[static_cast<size_t>(pc)]; }
    bool is_live(int32_t pc, int32_t r) const {
        return live_at(pc)[static_cast<size_t>(r / 64)] >> (r % 64) & 1;
    }
    std::vector<Bits> live;
};

/// A new Code of a function.
Code flatten(const Function& function);
/// Finds what is live, and which temporaries die where.
void find_live(Code& code);

}  // namespace weft::program
