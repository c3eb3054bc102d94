/// Reading guide: runs, calls, then exceptions. What instructions do is in instructions.cpp.
#include "native/host.h"

#include <algorithm>

#include "native/tensors.h"

namespace weft::native {

using program::FlatInstr;
using program::Verb;

Host::~Host() {
    if (error_) error_.drop();
    if (handled_) handled_.drop();
}

// ---- frames

Host::Frame* Host::new_frame(const Function& function) {
    const auto size = static_cast<size_t>(function.code.registers);
    auto* frame = new (Pool::allocate(sizeof(Frame) + size * sizeof(Raw))) Frame;
    frame->registers = reinterpret_cast<Raw*>(frame + 1);
    std::fill_n(frame->registers, size, Raw());
    frame->function = &function;
    frame->state = &context_.states_[static_cast<size_t>(function.number)];
    frame->code = &frame->state->code;
    return frame;
}

Host::Frame* Host::bind(const Function& f, const Given& given) {
    Frame* frame = new_frame(f);
    if (!given.names && given.n == f.positional && given.n == f.source.params) {
        for (int64_t k = 0; k < given.n; ++k) {
            given.args[k].hold();
            frame->registers[k] = given.args[k];
        }
        return frame;
    }
    try {
        bind_others(frame, given);
    } catch (...) {
        free(frame);
        throw;
    }
    return frame;
}

void Host::free(Frame* frame) {
    const auto size = static_cast<size_t>(frame->code->registers);
    for (size_t k = 0; k < size; ++k)
        if (frame->registers[k]) frame->registers[k].drop();
    Pool::free(frame, sizeof(Frame) + size * sizeof(Raw));
}

Host::Frame* Host::start(Frame* frame) {
    if (depth_ >= context_.depth_limit) {
        free(frame);
        raise_text(types::RecursionError, "maximum recursion depth exceeded");
    }
    ++depth_;
    if (!pause(frame)) {
        --depth_;
        free(frame);
        throw Raised{take_error()};
    }
    return frame;
}

Raw Host::run(Frame* frame) {
    constexpr int kMostRuns = 100;
    if (runs_ >= kMostRuns) {
        --depth_;
        free(frame);
        raise_text(types::RecursionError, "maximum recursion depth exceeded");
    }
    ++runs_;
    program::Machine<Host> machine(*this);
    const Raw result = machine.run(frame);
    --runs_;
    free(frame);
    return result;
}

/// Ends the run if it was interrupted; else asks on_pause.
bool Host::pause_now() {
    if (context_.interrupted_.load(std::memory_order_relaxed)) [[unlikely]] {
        context_.interrupted_ = false;
        set_error(make_error(types::KeyboardInterrupt, {}));
        return false;
    }
    try {
        context_.on_pause();
        return true;
    } catch (...) {
        failed();
        return false;
    }
}

// ---- calls

Remembered* Host::memory_of(Frame* frame, const FlatInstr* i) {
    if (!i) return nullptr;
    auto& memory = frame->state->memory;
    const auto& instrs = frame->code->instrs;
    if (!memory) memory = std::make_unique<std::unique_ptr<Remembered>[]>(instrs.size());
    auto& mine = memory[static_cast<size_t>(i - instrs.data())];
    if (!mine) mine = std::make_unique<Remembered>();
    return mine.get();
}

/// What a call of `callee` runs: a frame, or null and the result.
Host::Frame* Host::target(Frame* frame, const FlatInstr* i, Raw callee, const Given& given,
                          Thing& result) {
    switch (callee.kind()) {
        case Kind::Ops:
            result = call_ops(*callee.lasting<Ops>(), given, memory_of(frame, i));
            return nullptr;
        case Kind::Function:
            return start(bind(*callee.lasting<Function>(), given));
        case Kind::Builtin:
            result = run_builtin(*this, *callee.lasting<Builtin>(), given);
            return nullptr;
        case Kind::Type:
            result = construct(*this, *callee.lasting<Type>(), given);
            return nullptr;
        case Kind::Method: {
            const auto* m = callee.as<Method>();
            std::vector<Raw> args{m->self};
            args.insert(args.end(), given.args, given.args + given.n + given.words());
            const Given all{args.data(), given.n + 1, given.names};
            result = m->ops ? call_ops(*m->ops, all, memory_of(frame, i))
                            : run_builtin(*this, *m->builtin, all);
            return nullptr;
        }
        case Kind::Class:
            result = make_named(*callee.lasting<Class>(), given);
            return nullptr;
        default:
            break;
    }
    raise_as(types::TypeError, "'", type_name(callee), "' object is not callable");
}

Thing Host::call(const Function& function, const Given& given) {
    Thing result = Thing::steal(run(start(bind(function, given))));
    if (!result) throw Raised{take_error()};
    return result;
}

Thing Host::call(Raw callee, const Given& given) {
    if (callee.is(Kind::Function)) return call(*callee.lasting<Function>(), given);
    Thing result;
    target(nullptr, nullptr, callee, given, result);
    return result;
}

/// A method of the first argument.
Thing Host::call_method(Frame* frame, const FlatInstr& i, const Given& given) {
    const std::string& name = frame->function->names[static_cast<size_t>(i.attr)][0];
    const Raw self = given.args[0];
    if (self.is_tensor()) {
        Remembered* memory = memory_of(frame, &i);
        if (const Ops* ops = memory->method_called(context_.package(), name))
            return call_ops(*ops, given, memory);
    }
    if (const Builtin* method = method_named(self, name)) return run_builtin(*this, *method, given);
    Thing found;
    try {
        found = attribute(self, name, nullptr);
    } catch (...) {
        fails_at_lookup_ = true;
        throw;
    }
    return call(found.get(), {given.args + 1, given.n - 1, given.names});
}

Host::Frame* Host::call(Frame* frame, const FlatInstr& i, const Raw* args, Raw& result) {
    Thing made;
    Frame* inner = nullptr;
    try {
        const std::vector<std::string>* names =
            i.names < 0 ? nullptr : &frame->function->names[static_cast<size_t>(i.names)];
        const auto words = names ? static_cast<int64_t>(names->size()) : 0;
        if (i.verb == Verb::Call) {
            inner = target(frame, &i, args[0], {args + 1, i.count - 1 - words, names}, made);
        } else if (i.verb == Verb::Method) {
            made = call_method(frame, i, {args, i.count - words, names});
        } else {
            inner = call_spread(args, made);
        }
    } catch (...) {
        failed();
        return nullptr;
    }
    if (inner) inner->caller = frame;
    else result = made.release();
    return inner;
}

Host::Frame* Host::call_spread(const Raw* args, Thing& result) {
    if (!is_iterable(args[1]))
        raise_as(types::TypeError, called(args[0]), " argument after * must be an iterable, not ",
                 type_name(args[1]));
    std::vector<Thing> all = all_of(args[1]);
    const auto n = static_cast<int64_t>(all.size());
    std::vector<std::string> names;
    if (!args[2].is_none()) {
        if (!args[2].is(Kind::Dict))
            raise_as(types::TypeError, called(args[0]),
                     " argument after ** must be a mapping, not ", type_name(args[2]));
        for (const Dict::Entry& e : args[2].as<Dict>()->entries) {
            if (!e.key) continue;
            if (!e.key.is(Kind::Text)) raise_as(types::TypeError, "keywords must be strings");
            names.push_back(text_in(e.key));
            all.push_back(Thing::borrow(e.value));
        }
    }
    const std::vector<Raw> raw = borrowed(all);
    return target(nullptr, nullptr, args[0], {raw.data(), n, names.empty() ? nullptr : &names},
                  result);
}

// ---- exceptions

void Host::catch_error(Raw& error, Raw& before) {
    error = std::exchange(error_, Raw());
    before = handled_ ? handled_ : Raw::none();
    before.hold();
    handle(error);
}

void Host::handle(Raw error) {
    const Raw old = handled_;
    handled_ = error && !error.is_none() ? error : Raw();
    if (handled_) handled_.hold();
    if (old) old.drop();
}

void Host::raise(Raw error) { set_error(Thing::borrow(error)); }

void Host::unbound(Frame* frame, int32_t r) {
    const std::string& name = frame->function->source.registers[static_cast<size_t>(r)];
    const bool outer = frame->code->instrs[static_cast<size_t>(frame->pc)].verb == Verb::Outer;
    try {
        unbound_name(name, outer);
    } catch (...) {
        failed();
    }
}

void Host::note(Frame* frame, int32_t pc) {
    const FlatInstr& i = frame->code->instrs[static_cast<size_t>(pc)];
    if (i.verb == Verb::Reraise && error_ == handled_) return;
    const int32_t at = std::exchange(fails_at_lookup_, false) ? i.target : i.offset;
    constexpr size_t kMostLines = 2000;
    auto& lines = error_.as<Error>()->lines;
    if (lines.size() < kMostLines)
        lines.push_back({frame->function, frame->function->line_of(std::max(at, 0))});
}

}  // namespace weft::native
