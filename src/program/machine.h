/// Runs flat code. What values are, and all that is done with them but moving them and testing them, is the
/// host's (for Python: python/program_host.h).
///
/// A host has: `Raw`, a pointer to a value, owned where it lies in a register, null where there is none;
///   hold, drop                        a reference more, one less
///   Raw constant(frame, k)            constant number k, borrowed
///   Raw evaluate(frame, instr, args)  what an instruction gives, new; null: an error is raised
///   Frame* call(frame, instr, args, result)  the frame of a program to run, or null and the result
///   bool unpack(frame, instr, value)  writes the registers
///   int truth(value)                  -1: an error is raised
///   Raw next(iterator, done)
///   bool enter(frame, instr, manager) writes out and target
///   catch_error, handle, raise        of exceptions: Note [Cleanups] in code.h
///   note(frame, pc)                   one more entry of the traceback
///   unbound(frame, register)          raises what reading it raises
///   leave(frame, result)              the frame's last moment; free(frame) follows but for the first
///   finished(frame)                   after each instruction but a jump, with the next one's pc
///   bool waits(frame, instr, args)    whether to stop before an instruction, which may go on later
///   bool pause(frame)                 now and then on the way back in a loop; false: an error is raised
///   Onward at_place(frame, result)    Note [Stretches]
/// and `Frame`, derived from FrameOf<Raw>.
#pragma once
#include <utility>

#include "program/code.h"

namespace weft::program {

template <class Raw>
struct FrameOf {
    const Code* code;
    Raw* registers;
    FrameOf* caller = nullptr;
    int32_t pc = 0;
    int32_t out = -1;  ///< the register of the caller that gets the result
};

/// What a place decides: go on here; or elsewhere in the same frame; or the frame is done, without a result if an error
/// is raised that has an entry for it; an error is raised.
enum class Onward : uint8_t { Here, Jump, Return, Failed };

template <class Host>
class Machine {
public:
    using Raw = typename Host::Raw;
    using Frame = typename Host::Frame;

    explicit Machine(Host& host) : host_(host) {}

    /// Runs `base` and the frames of the calls it makes; the result, new, or null with an error raised. The
    /// base frame is left, but not freed.
    Raw run(Frame* base) {
        Frame* at = base;
        return go_on(base, at, false);
    }

    /// Goes on in `at`, which is `base` or what calls from there have come to; `fails`: with the error that is
    /// raised. The same, and `at` is null; or null without an error: it has stopped before an instruction
    /// of `at`, for which the host `waits`.
    Raw go_on(Frame* base, Frame*& at, bool fails) {
        Frame* frame = std::exchange(at, nullptr);
        if (fails) {
            host_.note(frame, frame->pc);
            if (!unwind(frame, base)) return Raw{};
        }
        for (;;) {
            const Code& code = *frame->code;
            const FlatInstr& i = code.instrs[static_cast<size_t>(frame->pc)];
            Raw* const regs = frame->registers;
            if (i.place) [[unlikely]] {
                Raw result{};
                const int32_t from = frame->pc;
                const Onward onward = host_.at_place(frame, result);
                if (onward == Onward::Jump) {  // a stretch may have gone round a loop
                    if (frame->pc <= from && !host_.pause(frame)) goto failed;
                    continue;
                }
                if (onward == Onward::Failed) goto failed;
                if (onward == Onward::Return) {
                    const bool raised = !result;
                    if (!finish(frame, base, result)) return result;
                    if (raised) goto failed;
                    continue;
                }
            }
            switch (i.verb) {
                case Verb::Move:
                case Verb::Outer: {
                    Raw value = read(frame, code.operands_of(i)[0]);
                    if (!value) goto failed;
                    Host::hold(value);
                    put(regs, i.out, value);
                    break;
                }
                case Verb::Clear:
                    put(regs, i.out, Raw{});
                    break;
                case Verb::Delete:
                    if (!regs[i.out]) {
                        host_.unbound(frame, i.out);
                        goto failed;
                    }
                    put(regs, i.out, Raw{});
                    break;
                case Verb::Jump:
                    if (i.target <= frame->pc && !host_.pause(frame)) goto failed;
                    frame->pc = i.target;
                    continue;
                case Verb::JumpIfFalse: {
                    Raw value = read(frame, code.operands_of(i)[0]);
                    if (!value) goto failed;
                    if (host_.waits(frame, i, &value)) {
                        at = frame;
                        return Raw{};
                    }
                    const int truth = host_.truth(value);
                    if (truth < 0) goto failed;
                    kill(code, i, regs);
                    frame->pc = truth ? frame->pc + 1 : i.target;
                    host_.finished(frame);
                    continue;
                }
                case Verb::Next: {
                    bool done = false;
                    Raw value = host_.next(regs[code.operands_of(i)[0]], done);
                    if (done) {
                        frame->pc = i.target;
                        host_.finished(frame);
                        continue;
                    }
                    if (!value) goto failed;
                    put(regs, i.out, value);
                    break;
                }
                case Verb::Return: {
                    Raw value = read(frame, code.operands_of(i)[0]);
                    if (!value) goto failed;
                    Host::hold(value);
                    if (!finish(frame, base, value)) return value;
                    continue;
                }
                case Verb::Unpack: {
                    Raw value = read(frame, code.operands_of(i)[0]);
                    if (!value || !host_.unpack(frame, i, value)) goto failed;
                    break;
                }
                case Verb::Enter: {
                    Raw value = read(frame, code.operands_of(i)[0]);
                    if (!value || !host_.enter(frame, i, value)) goto failed;
                    break;
                }
                case Verb::Catch: {
                    Raw error{}, before{};
                    host_.catch_error(error, before);
                    for (int32_t r = i.sub; r < code.registers; ++r) put(regs, r, Raw{});
                    put(regs, i.out, error);
                    put(regs, i.target, before);
                    break;
                }
                case Verb::Uncatch:
                    host_.handle(regs[code.operands_of(i)[0]]);
                    break;
                case Verb::Rethrow:
                    host_.raise(regs[code.operands_of(i)[0]]);
                    goto unwinding;
                case Verb::Unwind:
                    host_.handle(regs[code.operands_of(i)[0]]);
                    goto unwinding;
                case Verb::Call:
                case Verb::Method:
                case Verb::CallEx: {
                    Arguments args(i.count);
                    if (!gather(frame, i, args.data)) goto failed;
                    if (host_.waits(frame, i, args.data)) {
                        at = frame;
                        return Raw{};
                    }
                    Raw result{};
                    if (Frame* inner = host_.call(frame, i, args.data, result)) {
                        inner->out = i.out;
                        kill(code, i, regs);
                        frame = inner;
                        continue;
                    }
                    if (!result) goto failed;
                    put(regs, i.out, result);
                    break;
                }
                default: {
                    Arguments args(i.count);
                    if (!gather(frame, i, args.data)) goto failed;
                    if (host_.waits(frame, i, args.data)) {
                        at = frame;
                        return Raw{};
                    }
                    Raw result = host_.evaluate(frame, i, args.data);
                    if (!result) goto failed;
                    if (i.out >= 0) put(regs, i.out, result);
                    else Host::drop(result);
                }
            }
            kill(code, i, regs);
            ++frame->pc;
            host_.finished(frame);
            continue;
        failed:
            host_.note(frame, frame->pc);
        unwinding:
            if (!unwind(frame, base)) return Raw{};
        }
    }

private:
    /// To where the error is handled; false: nowhere.
    bool unwind(Frame*& frame, Frame* base) {
        for (;;) {
            const FlatInstr& at = frame->code->instrs[static_cast<size_t>(frame->pc)];
            if (at.handler >= 0) {
                frame->pc = at.handler;
                return true;
            }
            Raw none{};
            if (!finish(frame, base, none)) return false;
            host_.note(frame, frame->pc);
        }
    }
    Raw read(Frame* frame, int32_t operand) {
        if (operand < 0) return host_.constant(frame, ~operand);
        Raw value = frame->registers[operand];
        if (!value) [[unlikely]]
            host_.unbound(frame, operand);
        return value;
    }
    /// Room for operands; for a few without an allocation, and never cleared.
    struct Arguments {
        explicit Arguments(int32_t count)
            : data(count <= kFew ? few : new Raw[static_cast<size_t>(count)]) {}
        ~Arguments() {
            if (data != few) delete[] data;
        }
        Arguments(const Arguments&) = delete;
        static constexpr int32_t kFew = 12;
        Raw few[kFew];
        Raw* const data;
    };
    bool gather(Frame* frame, const FlatInstr& i, Raw* args) {
        const int32_t* operands = frame->code->operands_of(i);
        for (int32_t k = 0; k < i.count; ++k)
            if (!(args[k] = read(frame, operands[k]))) return false;
        return true;
    }
    static void put(Raw* regs, int32_t r, Raw value) {
        Raw old = regs[r];
        regs[r] = value;
        if (old) Host::drop(old);
    }
    static void kill(const Code& code, const FlatInstr& i, Raw* regs) {
        const int32_t* kills = code.kills.data() + i.first_kill;
        for (int32_t k = 0; k < i.kills; ++k) put(regs, kills[k], Raw{});
    }
    /// Leaves a frame; true: its caller goes on (with an error raised if there is no result).
    bool finish(Frame*& frame, Frame* base, Raw& result) {
        host_.leave(frame, result);
        if (frame == base) return false;
        Frame* caller = static_cast<Frame*>(frame->caller);
        const int32_t out = frame->out;
        host_.free(frame);
        frame = caller;
        if (result) {
            put(frame->registers, out, result);
            // a result that nobody reads
            const FlatInstr& i = frame->code->instrs[static_cast<size_t>(frame->pc)];
            kill(*frame->code, i, frame->registers);
            ++frame->pc;
            host_.finished(frame);
        }
        return true;
    }

    Host& host_;
};

}  // namespace weft::program
