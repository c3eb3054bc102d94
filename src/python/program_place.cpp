#include "python/program_place.h"

#include <algorithm>

#include "autograd/anomaly.h"
#include "ops/scopes.h"
#include "program/local_array.h"
#include "python/program_trace.h"

namespace weft::python {

using program::Onward;

namespace {

using Tensors = program::LocalArray<Tensor, 24>;

/// The modes in which stretches are: what else there is, they would not see.
bool may_run() {
    constexpr uint32_t kOthers = kAutocastMode | kMapMode | kWatchMode | kTraceMode;
    return !(mode & kOthers) && !ops::scopes.pack_hooks && !anomaly::on;
}

uint64_t mix(uint64_t hash, uint64_t with) {
    hash ^= with + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
    return hash;
}

uint64_t signature(uint64_t hash, PyObject* o, int depth) {
    hash = mix(hash, reinterpret_cast<uintptr_t>(Py_TYPE(o)));
    if (is_tensor(o)) {
        const Tensor t = handle(o);
        hash = mix(hash, static_cast<uint64_t>(t.dtype()) * 2 + program::wants_grad(t));
        for (int64_t n : t.shape()) hash = mix(hash, static_cast<uint64_t>(n));
    } else if (PyTuple_CheckExact(o) && depth < 3) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(o); ++k)
            hash = signature(hash, PyTuple_GET_ITEM(o, k), depth + 1);
    }
    return hash;
}

}  // namespace

// ---- credit

bool Credit::was_here(uint64_t signature) {
    if (std::find(std::begin(recent_), std::end(recent_), signature) != std::end(recent_))
        return true;
    recent_[next_++ % kRecent] = signature;
    return false;
}

bool Credit::grants(uint64_t signature, bool at_once, bool has_any) {
    const auto tries = std::count(failed_.begin(), failed_.end(), signature);
    if (was_here(signature)) {
        if (tries < kMostTries) return true;
        over_ |= ++fruitless_ >= kMostFruitless && !has_any;
    }
    return at_once && tries == 0;
}

bool Credit::begins_rest() {
    if (debt_ < kMostDebt) return false;
    debt_ = 0;
    rests_ = rest_;
    rest_ = std::min(rest_ * 2, kLongestRest);
    return true;
}

void Credit::note_failure(uint64_t signature, bool has_any) {
    failed_.push_back(signature);
    over_ |= failed_.size() >= kMostFailures && !has_any;
}

// ---- places

Onward Place::visit(Frame* frame, PyObject*& result) {
    ++visits_;
    if (reach && reach->number > newest_) begin_anew();
    if (credit_.is_over() || !enabled || !may_run()) return Onward::Here;
    if (mode & kDeferMode && (sizes_vary_ || backend_now())) return Onward::Here;
    bool gave_up = false;
    // the one that ran last, then as they were made: so come layers, and lengths
    for (size_t tried = 0; tried < stretches_.size(); ++tried, ++at_) {
        if (at_ >= stretches_.size()) at_ = 0;
        const Ref<Stretch> s = stretches_[at_];
        if (s->mode != mode) continue;
        if (s->gave_up()) {
            gave_up = true;
            continue;
        }
        Tensors tensors(s->inputs.size());
        Stretch::Differs differs;
        if (s->holds(frame, tensors.data(), differs)) {
            credit_.pay_off();
            s->last = visits_;
            if (s->pays()) [[likely]]
                return s->run(frame, tensors.data(), result);
            ++s->left;
            return Onward::Here;
        }
        if (varies(*s, differs)) {
            stretches_.erase(stretches_.begin() + static_cast<ptrdiff_t>(at_));
            --at_, --tried;
        }
    }
    if (gave_up || credit_.rests()) return Onward::Here;  // so would those over other layouts
    if (credit_.begins_rest()) {
        drop([](const Stretch& s) { return s.runs < Credit::kTraceCost / 8; });
        return Onward::Here;
    }
    return trace(frame, result);
}

/// A new stretch, if there is one, runs at once.
Onward Place::trace(Frame* frame, PyObject*& result) {
    drop([&](const Stretch& s) { return visits_ - s.last > kStale; });
    if (stretches_.size() >= kMostStretches) return Onward::Here;
    const uint64_t signature = signature_of(frame);
    // a backend is asked at once, as who wrote it expects
    if (!credit_.grants(signature, backend_now() != nullptr, !stretches_.empty()))
        return Onward::Here;
    credit_.take();
    Ref<Stretch> made = TraceHost(frame, varying_, varying_reads_).run(&ended_, &why_);
    const bool leads_further = ended_ >= 0 && add_places(frame);
    if (made) return take_up(frame, std::move(made), result);
    if (!leads_further) credit_.note_failure(signature, !stretches_.empty());
    return Onward::Here;
}

/// The instruction that ended a trace is run as it is; what comes after it may be a stretch. False: that is known.
bool Place::add_places(Frame* frame) const {
    using program::Verb;
    const program::FlatInstr& i = frame->code->instrs[static_cast<size_t>(ended_)];
    Program& program = *const_cast<Program*>(frame->program);
    bool is_new = false;
    if (i.verb == Verb::Jump || i.verb == Verb::JumpIfFalse || i.verb == Verb::Next)
        is_new |= add_place(program, i.target);
    if (i.verb != Verb::Jump && i.verb != Verb::Return) is_new |= add_place(program, ended_ + 1);
    return is_new;
}

Onward Place::take_up(Frame* frame, Ref<Stretch> made, PyObject*& result) {
    made->reach = reach ? reach->number : 0;
    made->last = visits_;
    made->find_gain();
    made->backend = reach ? reach->backend : Object();
    if (made->mode & kDeferMode) {
        for (const Ref<Stretch>& s : stretches_) sizes_vary_ |= made->is_of_other_sizes(*s);
        if (sizes_vary_) return Onward::Here;
        made->find_kept();
    }
    at_ = stretches_.size();
    stretches_.push_back(made);
    Tensors tensors(made->inputs.size());
    Stretch::Differs differs;
    if (!made->holds(frame, tensors.data(), differs)) return Onward::Here;
    if (made->backend) {
        made->made = ask_backend(made->backend.get(), made->plan->segment(), tensors.data());
        if (!made->made) {
            drop([&](const Stretch& s) { return &s == made.get(); });
            return Onward::Failed;
        }
    }
    return made->run(frame, tensors.data(), result);
}

bool Place::varies(const Stretch& s, const Stretch::Differs& differs) {
    if (differs.source >= 0 && s.sources[static_cast<size_t>(differs.source)].reg >= 0) {
        varying_.push_back(s.sources[static_cast<size_t>(differs.source)]);
        return true;
    }
    const Guards::Failure read = differs.guards ? s.guards.failure() : Guards::Failure{};
    if (!read.name || !read.value || !(is_count(read.value) || is_tensor(read.value))) return false;
    for (VaryingRead& v : varying_reads_)
        if (v.holder == read.holder && v.name.get() == read.name) return ++v.times >= 2;
    if (varying_reads_.size() >= kMostVarying) varying_reads_.erase(varying_reads_.begin());
    varying_reads_.push_back({read.holder, Object::borrow(read.name), 1});
    return false;
}

template <class F>
void Place::drop(F&& is_gone) {
    std::vector<Ref<Stretch>> kept, gone;  // what they hold may run code when it goes
    for (Ref<Stretch>& s : stretches_) (is_gone(*s) ? gone : kept).push_back(std::move(s));
    stretches_ = std::move(kept);
}

void Place::begin_anew() {
    newest_ = reach->number;
    credit_ = Credit();
    sizes_vary_ = false;
}

/// Of the registers that are read from here on.
uint64_t Place::signature_of(const Frame* frame) const {
    uint64_t hash = mix(weft::mode, 1);
    const program::Code& code = *frame->code;
    for (int32_t r = 0; r < code.registers; ++r)
        if (frame->registers[r] && code.is_live(pc_, r))
            hash = signature(mix(hash, static_cast<uint64_t>(r)), frame->registers[r], 0);
    return hash;
}

Object Place::describe(const Program& program) const {
    auto line_of = [&](int32_t pc) {
        const int32_t at = program.code.instrs[static_cast<size_t>(pc)].offset;
        return PyCode_Addr2Line(program.of, at < 0 ? 0 : at & ((1 << kInlinedShift) - 1));
    };
    Object list = Object::take(PyList_New(0));
    for (const Ref<Stretch>& s : stretches_) {
        Object one = Object::take(
            Py_BuildValue("{si sL}", "steps", s->steps, "runs", static_cast<long long>(s->runs)));
        checked(PyList_Append(list.get(), one.get()));
    }
    return Object::take(Py_BuildValue("{si sO si sz}", "line", line_of(pc_), "stretches",
                                      list.get(), "end", ended_ < 0 ? 0 : line_of(ended_), "why",
                                      why_));
}

void Place::forget(uint64_t reach) {
    drop([&](const Stretch& s) { return s.reach == reach; });
}

int Place::traverse(uint64_t reach, visitproc visit, void* arg) const {
    for (const Ref<Stretch>& s : stretches_)
        if (s->reach == reach)
            if (const int stopped = s->traverse(visit, arg)) return stopped;
    return 0;
}

bool add_place(Program& program, int32_t pc) {
    if (static_cast<size_t>(pc) >= program.code.instrs.size())
        return false;  // after what goes elsewhere
    program::FlatInstr& i = program.code.instrs[static_cast<size_t>(pc)];
    if (i.place) return false;
    program.places.push_back(std::make_unique<Place>(pc));
    i.place = program.places.back().get();
    return true;
}

Onward PythonHost::at_place(Frame* frame, PyObject*& result) {
    auto* place = static_cast<Place*>(frame->code->instrs[static_cast<size_t>(frame->pc)].place);
    return place->visit(frame, result);
}

}  // namespace weft::python
