/// The machine's host for values of this layer (program/machine.h).
#pragma once
#include "native/context.h"
#include "program/machine.h"

namespace weft::native {

/// Raises what reading a variable without a value raises.
[[noreturn]] void unbound_name(const std::string& name, bool outer);
/// A callee as messages name it.
std::string called(Raw callee);

/// One run of a function and of what it calls.
class Host {
public:
    using Raw = native::Raw;
    struct Frame : program::FrameOf<Raw> {
        const Function* function;
        Context::State* state;
    };

    explicit Host(Context& context) : context_(context) {}
    Host(const Host&) = delete;
    ~Host();

    /// A frame of `function`, bound; throws TypeError as CPython's calls do.
    Frame* bind(const Function& function, const Given& given);
    Raw run(Frame* frame);
    /// Runs a function to its end.
    Thing call(const Function& function, const Given& given);
    /// Calls any value; runs what it is of a package to its end.
    Thing call(Raw callee, const Given& given);
    /// The exception with which a run ended.
    Thing take_error() { return Thing::steal(std::exchange(error_, Raw())); }
    Context& context() { return context_; }
    int depth() const { return depth_; }
    Frame* new_frame(const Function& function);
    /// What `evaluate` gives; throws.
    Thing evaluated(Frame* frame, const program::FlatInstr& i, const Raw* args);
    /// `memory`: of the instruction, or null. Throws AttributeError.
    Thing attribute(Raw of, const std::string& name, Remembered* memory) const;

    // ---- what the machine asks for

    static void hold(Raw r) { r.hold(); }
    static void drop(Raw r) { r.drop(); }
    static Raw constant(Frame* frame, int32_t k) {
        return frame->state->constants[static_cast<size_t>(k)];
    }
    Raw evaluate(Frame* frame, const program::FlatInstr& i, const Raw* args);
    Frame* call(Frame* frame, const program::FlatInstr& i, const Raw* args, Raw& result);
    bool unpack(Frame* frame, const program::FlatInstr& i, Raw value);
    int truth(Raw value);
    Raw next(Raw iterator, bool& done);
    bool enter(Frame* frame, const program::FlatInstr& i, Raw manager);
    void catch_error(Raw& error, Raw& before);
    void handle(Raw error);
    void raise(Raw error);
    void note(Frame* frame, int32_t pc);
    void unbound(Frame* frame, int32_t r);
    void leave(Frame*, Raw&) { --depth_; }
    static void free(Frame* frame);
    static void finished(Frame*) {}
    static bool waits(const Frame*, const program::FlatInstr&, const Raw*) { return false; }
    bool pause(Frame*) {
        const bool interrupted = context_.interrupted_.load(std::memory_order_relaxed);
        if (!interrupted && ((++pauses_ & 15) || !context_.on_pause)) [[likely]]
            return true;
        return pause_now();
    }
    program::Onward at_place(Frame* frame, Raw& result);

private:
    bool pause_now();
    Frame* target(Frame* frame, const program::FlatInstr* i, Raw callee, const Given& given,
                  Thing& result);
    Thing call_method(Frame* frame, const program::FlatInstr& i, const Given& given);
    Frame* call_spread(const Raw* args, Thing& result);
    static void bind_others(Frame* frame, const Given& given);
    Frame* start(Frame* frame);
    void set_attribute(Raw of, const std::string& name, Raw value);
    void raise_from(Raw what, Raw cause, bool has_cause);
    bool matches(Raw kinds);
    Remembered* memory_of(Frame* frame, const program::FlatInstr* i);
    void failed() { set_error(caught_error()); }
    void set_error(Thing error) {
        if (error_) error_.drop();
        error_ = error.release();
    }

    Context& context_;
    Raw error_{};    ///< that is on its way
    Raw handled_{};  ///< that is being handled; empty: none
    int depth_ = 0;
    int runs_ = 0;  ///< in each other: of what builtins call
    uint32_t pauses_ = 0;
    bool fails_at_lookup_ = false;
};

}  // namespace weft::native
