/// The machine's host while a stretch is traced: Note [Stretches].
#pragma once
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "native/stretch.h"
#include "program/trace.h"

namespace weft::native {

/// Traces a stretch from where a frame is.
class TraceHost {
public:
    using Raw = native::Raw;
    using Frame = Host::Frame;

    TraceHost(Host& host, Frame* at, const std::vector<Source>& varying)
        : host_(host), at_(at), varying_(varying) {}
    TraceHost(const TraceHost&) = delete;
    ~TraceHost();

    /// The stretch, or null. `ended`: the instruction that it ends before, and why.
    Ref<Stretch> run(int32_t* ended, const char** why);

    // ---- what the machine asks

    static void hold(Raw r) { r.hold(); }
    static void drop(Raw r) { r.drop(); }
    Raw constant(Frame* frame, int32_t k) { return told(Host::constant(frame, k)); }
    Raw evaluate(Frame* frame, const program::FlatInstr& i, const Raw* args);
    Frame* call(Frame* frame, const program::FlatInstr& i, const Raw* args, Raw& result);
    bool unpack(Frame* frame, const program::FlatInstr& i, Raw value);
    int truth(Raw value);
    Raw next(Raw iterator, bool& done);
    bool enter(Frame*, const program::FlatInstr&, Raw) { throw program::Refused{"a with"}; }
    void catch_error(Raw&, Raw&) { throw program::Refused{"an exception"}; }
    void handle(Raw) { throw program::Refused{"an exception"}; }
    void raise(Raw) { throw program::Refused{"an exception"}; }
    void note(Frame*, int32_t) { throw program::Refused{"an exception"}; }
    void unbound(Frame*, int32_t) { throw program::Refused{"an unbound variable"}; }
    void leave(Frame*, Raw&) {}
    void free(Frame* frame);
    /// What the base frame has done so far may stay, whatever comes next.
    void finished(const Frame* frame) {
        if (frame == base_ && (mark_.is_over || tracer_->steps() > mark_.steps)) mark();
    }
    static bool waits(Frame*, const program::FlatInstr&, const Raw*) { return false; }
    bool pause(Frame* frame);
    program::Onward at_place(Frame*, Raw&) { return program::Onward::Here; }

private:
    friend struct Finisher;
    /// What was there at the start and has not been looked at; in registers by its address (Kind::Live).
    struct Live {
        Raw actual;  ///< whoever has it at the start keeps it
        int32_t source;
        bool is_used = false;
        Raw traced{};  ///< of a tensor that was used
    };
    using Values = std::vector<Raw>;

    // ---- what values are
    static bool is_live(Raw r) { return r.is(Kind::Live); }
    static Live& live_of(Raw r) { return *const_cast<Live*>(r.lasting<Live>()); }
    Raw live(Raw actual, Source source);
    /// The value itself: what is live becomes a condition. Refuses what cannot be one.
    Raw use(Raw r);
    /// The same, but what nothing is known of may stay as it is.
    Raw use_or_keep(Raw r);
    /// A tuple's, but no live one.
    Raw use_whole(Raw r);
    void ask(Live& live, Condition condition);
    /// Item k of a live tuple or object.
    Raw item_of(Raw live, int64_t k);
    Thing items_of(Raw live_tuple);
    /// What constants hold: tensors become inputs.
    Raw told(Raw r);
    Raw input_of(Raw tensor, int32_t source);
    Raw keep(Thing thing) {
        kept_.push_back(std::move(thing));
        return kept_.back().get();
    }
    Thing own(Thing fresh);
    /// What a call gave.
    Thing own_result(Thing made);
    void own_parts(Raw r);
    bool is_own(Raw r) const { return own_.contains(r.bits()); }
    void mutate(Raw r);
    void expect_plain(Raw r);
    void look_into(Raw container);

    // ---- instructions
    Thing evaluated(Frame* frame, const program::FlatInstr& i, const Raw* args);
    Thing attribute(Raw holder, const std::string& name);
    Thing attribute_of_object(Raw holder, const std::string& name);
    Thing get_item(Raw holder, Raw key);
    Thing operate(Frame* frame, const program::FlatInstr& i, const Raw* args);
    Thing compare(Frame* frame, const program::FlatInstr& i, const Raw* args);
    Thing iterate(Raw r);
    Frame* call_value(Frame* frame, Raw callee, const Given& given, Thing& result);
    Frame* enter_function(Frame* frame, const Function& function, const Given& given);
    Thing call_method(Raw self, const std::string& name, const Given& given);
    Thing call_ops(const Ops& ops, const Given& given);
    Thing call_builtin(const Builtin& builtin, const Given& given);
    Thing construct(const Type& type, const Given& given);
    /// The arguments, looked at; `holds`: what is called keeps them as they are.
    Values used(const Given& given, bool holds);
    Thing is_instance(Raw value, Raw kinds);
    void mark();
    /// The base: a frame with what is live where the stretch begins.
    void begin();
    /// What it returns; empty where the trace ends before, and why.
    Thing run_base(const char** why);
    Ref<Stretch> finish(Raw returned, const char** why);

    Host& host_;
    Frame* const at_;
    Frame* base_ = nullptr;
    Ref<Stretch> made_{new Stretch};
    Ref<program::Tracer> tracer_{new program::Tracer};
    const std::vector<Source>& varying_;
    std::deque<Live> lives_;
    std::unordered_map<uint64_t, Raw>
        told_;  ///< constants that hold tensors → what stands for them
    /// Of a traced input: the tensor, and where it was, or -1 where a constant told it.
    struct InputOf {
        Raw actual;
        int32_t source;
    };
    std::unordered_map<uint64_t, InputOf> actual_;
    std::unordered_map<uint64_t, Raw> inputs_;  ///< tensor → what stands for it
    std::unordered_set<uint64_t> own_;          ///< what was made here and only here is known
    std::deque<Thing> kept_;                    ///< keeps addresses from being used again
    std::vector<Frame*> open_;
    /// Where the stretch may end: the next instruction of the base, and what there is before it.
    struct Mark {
        int32_t pc = -1;
        std::vector<Thing> registers{};
        size_t steps = 0;
        bool is_over = false;  ///< what registers hold has changed since
    } mark_;
    int budget_ = kBudget, turns_ = 0;
    bool went_round_ = false;  ///< a loop of the place's own function

    static constexpr int kBudget = 20000, kMostTurns = 16, kMostDepth = 40;
};

}  // namespace weft::native
