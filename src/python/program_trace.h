/// The machine's host while a stretch is traced: Note [Stretches].
///
/// Note [Scopes]
/// `no_grad`, `enable_grad` and `set_grad_enabled` are made, entered and left while a stretch is traced as by the
/// instructions: each step knows whether it is recorded. A stretch begins and ends in one mode, so it does not end
/// within a scope that it has entered; where a trace comes to an end in there, the stretch ends before the scope,
/// and what is in it is another's. One that begins where nothing is recorded makes no nodes: where a scope would
/// turn recording on, it ends.
///
/// Note [One for each]
/// Functions of weft's that are no ops of the core are called as they are, and may ask whether two tensors are one
/// (`query is key`), as programs do. So a tensor has one stand-in, wherever it was met: that a register holds the
/// tensor of another one, or what Python told, is a condition then. And that two are not one is a condition where
/// somebody might ask, unless their layouts say so.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "program/trace.h"
#include "python/program_stretch.h"

namespace weft::python {

using program::Refused;

struct Finisher;

/// Traces a stretch from where a frame is.
class TraceHost {
public:
    using Raw = PyObject*;
    using Frame = python::Frame;

    /// `writes`: over what was made here are steps too (Note [Writes] in program/trace.h).
    TraceHost(Frame* at, const std::vector<LiveSource>& varying,
              const std::vector<VaryingRead>& varying_reads, bool writes);
    ~TraceHost();

    /// The stretch, or null. `ended`: the instruction that it ends before, and why.
    Ref<Stretch> run(int32_t* ended, const char** why);
    /// Whether there would be one if writes had not been taken.
    bool lost_by_writes() const { return lost_by_writes_; }

    // ---- what the machine asks
    static void hold(PyObject* o) { Py_INCREF(o); }
    static void drop(PyObject* o) { Py_DECREF(o); }
    static PyObject* constant(Frame* frame, int32_t k) { return PythonHost::constant(frame, k); }
    PyObject* evaluate(Frame* frame, const program::FlatInstr& i, PyObject* const* args);
    Frame* call(Frame* frame, const program::FlatInstr& i, PyObject* const* args,
                PyObject*& result);
    bool unpack(Frame* frame, const program::FlatInstr& i, PyObject* value);
    int truth(PyObject* o);
    PyObject* next(PyObject* iterator, bool& done);
    bool enter(Frame* frame, const program::FlatInstr& i, PyObject* manager);
    void catch_error(PyObject*&, PyObject*&) { throw Refused{"an exception"}; }
    void handle(PyObject*) { throw Refused{"an exception"}; }
    void raise(PyObject*) { throw Refused{"an exception"}; }
    void note(Frame*, int32_t) { throw Refused{"an exception"}; }
    void unbound(Frame*, int32_t) { throw Refused{"an unbound variable"}; }
    void leave(Frame* frame, PyObject*& result);
    void free(Frame* frame);
    /// What the base frame has done so far may stay, whatever comes next.
    void finished(const Frame* frame) {
        const bool may_end = frame == base_ && outermost_ < 0;
        if (may_end && (mark_.is_over || tracer_->steps() > mark_.steps)) mark();
    }
    /// A key of a dict or set that is traced may be one with another such key.
    static void hashed(PyObject* tensor);
    static bool waits(Frame*, const program::FlatInstr&, PyObject* const*) { return false; }
    bool pause(Frame* frame);
    program::Onward at_place(Frame*, PyObject*&) { return program::Onward::Here; }

private:
    friend struct Finisher;
    // ---- what values are
    PyObject* live(PyObject* actual, LiveSource source);
    /// The value itself, borrowed: what is live becomes a condition. Refuses what cannot be one.
    PyObject* use(PyObject* o);
    /// The same, but an object of which nothing is known may stay as it is.
    PyObject* use_or_keep(PyObject* o);
    bool is_usable(PyObject* tensor) const;
    Tensor laid_out(const Tensor& t) const;
    void ask(PyObject* live, Condition::Kind kind, PyObject* object, int32_t length = 0);
    PyObject* item_of(PyObject* live_tuple, Py_ssize_t k);
    /// What Python told: a tensor becomes an input.
    PyObject* told(PyObject* o);
    /// What stands for a tensor: one for each, wherever it was met (Note [One for each]).
    PyObject* input_of(PyObject* tensor, int32_t source);
    void require_apart(PyObject* const* args, size_t n);
    void tell_apart(PyObject* input);
    void find_inputs(PyObject* o, std::vector<PyObject*>& found) const;
    PyObject* own(PyObject* fresh);
    PyObject* of_call(PyObject* out);
    bool is_own(PyObject* o) const { return own_.contains(o); }
    void mutate(PyObject* o);
    PyObject* checked(PyObject* result);
    /// What an error in here says to explain(): calls may have been refused.
    const char* why_not() const { return tracer_->refused() ? tracer_->refused() : "an exception"; }
    void expect_plain(PyObject* o);
    void look_into(PyObject* container);

    // ---- instructions
    PyObject* note_of_class(PyObject* name);
    void note_special(std::string_view before, std::string_view name);
    void note_operator(const program::FlatInstr& i, PyObject* const* used);
    PyObject* attribute(PyObject* holder, PyObject* name);
    PyObject* get_item(PyObject* holder, PyObject* key);
    PyObject* operate(Frame* frame, const program::FlatInstr& i, PyObject* const* args);
    PyObject* compare(Frame* frame, const program::FlatInstr& i, PyObject* const* args);
    PyObject* iterate(PyObject* o);
    PyObject* values_of_module(PyObject* module);
    Frame* call_object(Frame* frame, PyObject* callee, PyObject* const* args, size_t n,
                       PyObject* names, PyObject*& result);
    Frame* enter_program(Frame* frame, const Target& target, PyObject* const* args, size_t n,
                         PyObject* names);
    /// A method of a traced tensor that was looked up before.
    PyObject* call_bound(PyObject* method, PyObject* const* args, size_t n, PyObject* names);
    PyObject* call_builtin(PyObject* callee, PyObject* const* args, size_t n, PyObject* names);
    PyObject* call_method(PyObject* holder, PyObject* name, PyObject* const* args, size_t n,
                          PyObject* names, bool& found);
    PyObject* is_instance(PyObject* o, PyObject* kinds);
    // ---- scopes (Note [Scopes])
    PyObject* make_scope(PyObject* type, PyObject* const* args, size_t n);
    PyObject* leave_scope(Frame* frame, const program::FlatInstr& i, PyObject* const* args);
    /// Whether the mode is another than where the stretch begins.
    bool differs() const;
    void note_mode();
    void mark();
    /// The base: a frame with what is live where the stretch begins.
    void begin();
    /// What it returns; empty where the trace ends before, and why.
    Object run_base(const char** why);
    Ref<Stretch> finish(PyObject* returned, const char** why);
    void end_at_mark(Stretch& stretch, Finisher& finisher) const;
    void expect_fixed(PyObject* holder, PyObject* name, PyObject* found) const;

    Frame* const at_;
    Frame* base_ = nullptr;
    Ref<Stretch> made_{new Stretch};
    Ref<program::Tracer> tracer_{new program::Tracer};
    const std::vector<LiveSource>& varying_;
    const std::vector<VaryingRead>& varying_reads_;
    std::unordered_map<PyObject*, PyObject*> inputs_;  ///< actual tensor → traced, borrowed
    /// Of a traced input: the tensor, and where it was met first, or -1 where Python told it.
    struct InputOf {
        PyObject* actual;
        int32_t source;
    };
    std::unordered_map<PyObject*, InputOf> actual_;
    std::unordered_set<PyObject*> apart_;          ///< stand-ins that are in a Distinct
    std::unordered_map<PyObject*, Object> cells_;  ///< of the base → what is live in it
    std::unordered_set<PyObject*> own_;            ///< what was made here and only here is known
    std::vector<Object> kept_;                     ///< keeps addresses from being used again
    std::vector<Frame*> open_;
    /// Where the stretch may end: the next instruction of the base, and what there is before it.
    struct Mark {
        int32_t pc = -1;
        std::vector<Object> registers{};
        size_t guards = 0, steps = 0, writes = 0;
        bool is_over = false;  ///< what registers hold has changed since
    } mark_;
    static inline thread_local TraceHost* current_ = nullptr;
    int budget_ = kBudget, turns_ = 0;
    bool went_round_ = false;  ///< a loop of the place's own function
    bool lost_by_writes_ = false;
    int depth_ = 0;           ///< scopes that the base frame is in
    int32_t outermost_ = -1;  ///< where it entered the first of these

    static constexpr int kBudget = 20000, kMostTurns = 16, kMostDepth = 40;
};

void init_trace(PyObject* module);

}  // namespace weft::python
