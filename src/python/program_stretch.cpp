#include "python/program_stretch.h"

#include <algorithm>

#include "autograd/anomaly.h"
#include "ops/pointwise.h"
#include "ops/random.h"
#include "ops/scopes.h"
#include "program/local_array.h"
#include "python/program_trace.h"

namespace weft::python {

using program::Onward;

namespace {

using Tensors = program::LocalArray<Tensor, 24>;

PyObject* value_of(const Frame* frame, const std::vector<LiveSource>& sources, int32_t source) {
    const LiveSource& s = sources[static_cast<size_t>(source)];
    if (s.reg >= frame->code->registers) return PyCell_GET(frame->registers[s.reg]);
    if (s.reg >= 0) return frame->registers[s.reg];
    return PyTuple_GET_ITEM(value_of(frame, sources, s.parent), s.item);
}

bool is_count(PyObject* o) { return PyLong_CheckExact(o) || PyFloat_CheckExact(o); }

bool equal(PyObject* a, PyObject* b) {
    if (a == b) return true;
    if (Py_TYPE(a) != Py_TYPE(b)) return false;
    if (PyFloat_CheckExact(a)) {
        const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return std::memcmp(&x, &y, sizeof x) == 0;
    }
    if (PyComplex_CheckExact(a)) return false;
    const int is = PyObject_RichCompareBool(a, b, Py_EQ);
    if (is < 0) PyErr_Clear();
    return is > 0;
}

bool meets(const Condition& c, PyObject* value) {
    using Kind = Condition::Kind;
    switch (c.kind) {
        case Kind::Tensor:
        case Kind::Type:
            return reinterpret_cast<PyObject*>(Py_TYPE(value)) == c.object.get();
        case Kind::Equal:
            return equal(value, c.object.get());
        case Kind::Identity:
            return value == c.object.get();
        case Kind::Tuple:
            return PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == c.length;
    }
    return false;
}

/// The modes in which stretches are: what else there is, they would not see.
bool may_run() {
    constexpr uint32_t kOthers = kAutocastMode | kMapMode | kWatchMode | kTraceMode;
    return !(mode & kOthers) && !ops::scopes.pack_hooks && !anomaly::on;
}

/// The user's backend of the call that runs, borrowed; or null.
PyObject* backend_now() { return reach ? reach->backend.get() : nullptr; }

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

void release(Stretch* stretch) { delete stretch; }

bool Stretch::holds(Frame* frame, Tensor* tensors, Differs& differs) {
    if (mode != weft::mode || globals != frame->globals || dtype != ops::default_dtype)
        return false;
    if (backend.get() != backend_now() || (backend && mode & kDeferMode)) return false;
    for (const Condition& c : conditions) {
        PyObject* value = value_of(frame, sources, c.source);
        if (!value) return false;
        if (!meets(c, value)) {
            if (c.kind == Condition::Kind::Equal && is_count(value) &&
                Py_TYPE(value) == Py_TYPE(c.object.get()))
                differs.source = c.source;
            return false;
        }
    }
    for (size_t k = 0; k < inputs.size(); ++k) {
        const Input& in = inputs[k];
        tensors[k] =
            handle(in.source < 0 ? in.captured.get() : value_of(frame, sources, in.source));
    }
    const bool fits = mode & kDeferMode ? program::alike(plan->segment(), tensors, inputs.size())
                                        : plan->fits(tensors, inputs.size());
    if (!fits) return false;
    differs.guards = !guards.hold();
    return !differs.guards;
}

namespace {

PyObject* make(const Recipe& r, const Stretch& s, const Frame* frame, const Tensor* outputs,
               const std::vector<Object>& made) {
    using Kind = Recipe::Kind;
    auto part = [&](size_t k) { return made[static_cast<size_t>(r.parts[k])].get(); };
    const auto n = static_cast<Py_ssize_t>(r.parts.size());
    switch (r.kind) {
        case Kind::Source:
            return Py_NewRef(value_of(frame, s.sources, r.number));
        case Kind::Output:
            return wrap(outputs[r.number]);
        case Kind::Captured:
            return Py_NewRef(r.object.get());
        case Kind::Copy:
            return PyObject_CallMethod(r.object.get(), "clone", nullptr);
        case Kind::Tuple: {
            PyObject* out = PyTuple_New(n);
            for (Py_ssize_t k = 0; out && k < n; ++k)
                PyTuple_SET_ITEM(out, k, Py_NewRef(part(static_cast<size_t>(k))));
            return out;
        }
        case Kind::List: {
            PyObject* out = PyList_New(n);
            for (Py_ssize_t k = 0; out && k < n; ++k)
                PyList_SET_ITEM(out, k, Py_NewRef(part(static_cast<size_t>(k))));
            return out;
        }
        case Kind::Dict: {
            Object out = Object::take(PyDict_New());
            for (size_t k = 0; k < r.parts.size(); k += 2)
                checked(PyDict_SetItem(out.get(), part(k), part(k + 1)));
            return out.release();
        }
        case Kind::Slice:
            return PySlice_New(part(0), part(1), part(2));
        case Kind::Method:
            return PyMethod_New(r.object.get(), part(0));
        case Kind::Iterator: {
            Object it = Object::take(PyObject_GetIter(part(0)));
            Object::take(PyObject_CallMethod(it.get(), "__setstate__", "i", r.number));
            return it.release();
        }
    }
    return nullptr;
}

/// False: a call of it raised.
bool run_plan(program::DifferentiablePlan& plan, const Tensor* tensors, Tensor* outputs) {
    try {
        plan.run(tensors, outputs);
        return true;
    } catch (const Error&) {
        return false;
    }
}
/// The same where calls draw random numbers: those of a run that raised are drawn again.
bool run_drawing(program::DifferentiablePlan& plan, const Tensor* tensors, Tensor* outputs) {
    const kernels::Generator before = ops::generator();
    const bool ran = run_plan(plan, tensors, outputs);
    if (!ran) ops::generator() = before;
    return ran;
}

}  // namespace

Onward Stretch::run(Frame* frame, const Tensor* tensors, PyObject*& result) {
    Tensors given(plan->segment().outputs.size());
    Tensor* const outputs = given.data();
    if (made) {
        if (!run_backend(made.get(), plan->segment(), tensors, outputs)) {
            // where the calls raise, the instructions do so in their place; else it is the backend's fault
            Object error = take_exception();
            Tensors tried(given.size());
            if (!run_drawing(*plan, tensors, tried.data())) return Onward::Here;
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
            return Onward::Failed;
        }
    } else if (mode & kDeferMode) {
        if (!kept) return Onward::Here;
        try {
            kept->run(tensors, outputs);
        } catch (const Error&) {
            return Onward::Here;
        } catch (const PythonError&) {  // an example that waited is not wanted any more
            return Onward::Failed;
        }
    } else if (!(draws ? run_drawing(*plan, tensors, outputs)
                       : run_plan(*plan, tensors, outputs))) {
        return Onward::Here;
    }
    ++runs;
    frame->gained = true;
    if (returned >= 0 && recipes.size() == 1) {  // the common end
        result = checked(make(recipes[0], *this, frame, outputs, {}));
        return Onward::Return;
    }
    std::vector<Object> values;
    values.reserve(recipes.size());
    for (const Recipe& r : recipes)
        values.push_back(Object::take(make(r, *this, frame, outputs, values)));
    if (returned >= 0) {
        result = values[static_cast<size_t>(returned)].release();
        return Onward::Return;
    }
    for (auto [reg, recipe] : writes)
        Py_XSETREF(frame->registers[reg], Py_NewRef(values[static_cast<size_t>(recipe)].get()));
    for (int32_t reg : clears) Py_CLEAR(frame->registers[reg]);
    frame->pc = pc;
    return Onward::Jump;
}

bool Stretch::is_of_other_sizes(const Stretch& s) const {
    if (mode != s.mode || inputs.size() != s.inputs.size()) return false;
    bool differs = false;
    for (size_t k = 0; k < inputs.size(); ++k) {
        const Input &a = inputs[k], &b = s.inputs[k];
        const auto layout = [k](const Stretch& of) {
            return of.plan->segment().layout(of.plan->segment().inputs[k]);
        };
        if (a.source != b.source || a.captured.get() != b.captured.get()) return false;
        if (layout(*this).dtype() != layout(s).dtype()) return false;
        differs |= !weft::equal(layout(*this).shape(), layout(s).shape());
    }
    return differs;
}

void Stretch::find_kept() {
    std::vector<uint8_t> captured;
    for (const Input& in : inputs) captured.push_back(in.source < 0);
    kept = program::KeptSegment::make(*plan, captured);
}

int Stretch::traverse(visitproc visit, void* arg) const {
    for (const Condition& c : conditions) Py_VISIT(c.object.get());
    for (const Input& in : inputs) Py_VISIT(in.captured.get());
    for (const Recipe& r : recipes) Py_VISIT(r.object.get());
    Py_VISIT(backend.get());
    Py_VISIT(made.get());
    return guards.traverse(visit, arg);
}

// ---- places

Onward Place::visit(Frame* frame, PyObject*& result) {
    ++visits_;
    if (reach && reach->number > newest_) begin_anew();
    if (off_ || !enabled || !may_run()) return Onward::Here;
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
            debt_ -= debt_ > 0;
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
    if (gave_up || !has_credit()) return Onward::Here;  // so would those over other layouts
    // a backend is asked at once, as who wrote it expects
    const bool is_due = seen_before(frame) || (backend_now() && tries(last_) == 0);
    return is_due ? trace(frame, result) : Onward::Here;
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

void Place::drop_stale() {
    drop([&](const Stretch& s) { return visits_ - s.last > kStale; });
}

void Place::begin_anew() {
    newest_ = reach->number;
    debt_ = rests_ = 0;
    rest_ = kFirstRest;
    fruitless_ = 0;
    sizes_vary_ = false;
    failed_.clear();
    off_ = false;
}

/// Whether it may trace; at the end of its credit it begins to rest, without what hardly ran.
bool Place::has_credit() {
    if (rests_ > 0) return --rests_, false;
    if (debt_ < kMostDebt) {
        drop_stale();
        return stretches_.size() < kMostStretches;
    }
    drop([](const Stretch& s) { return s.runs < kTraceCost / 8; });
    debt_ = 0;
    rests_ = rest_;
    rest_ = std::min(rest_ * 2, kLongestRest);
    return false;
}

/// Whether registers of this signature were here lately, and it is not known that no trace begins with them.
bool Place::seen_before(const Frame* frame) {
    uint64_t hash = mix(weft::mode, 1);
    const program::Code& code = *frame->code;
    for (int32_t r = 0; r < code.registers; ++r)
        if (frame->registers[r] && code.is_live(pc_, r))
            hash = signature(mix(hash, static_cast<uint64_t>(r)), frame->registers[r], 0);
    last_ = hash;
    if (std::find(std::begin(recent_), std::end(recent_), hash) != std::end(recent_)) {
        if (tries(hash) < kMostTries) return true;
        if (++fruitless_ >= kMostFruitless && stretches_.empty()) off_ = true;
        return false;
    }
    recent_[next_++ % kRecent] = hash;
    return false;
}

Onward Place::trace(Frame* frame, PyObject*& result) {
    int32_t ended = -1;
    debt_ += kTraceCost;
    bool is_new_end = false;
    const uint64_t hash = last_;
    Ref<Stretch> made = TraceHost(frame, varying_, varying_reads_).run(&ended, &why_);
    ended_ = ended;
    if (ended >= 0) {
        // the instruction itself is run as it is; what comes after it may be a stretch
        const program::FlatInstr& i = frame->code->instrs[static_cast<size_t>(ended)];
        Program& program = *const_cast<Program*>(frame->program);
        if (i.verb == program::Verb::Jump || i.verb == program::Verb::JumpIfFalse ||
            i.verb == program::Verb::Next)
            is_new_end |= add_place(program, i.target);
        if (i.verb != program::Verb::Jump && i.verb != program::Verb::Return)
            is_new_end |= add_place(program, ended + 1);
    }
    if (!made) {
        if (!is_new_end) failed_.push_back(hash);  // else it has led further
        if (failed_.size() >= kMostFailures && stretches_.empty()) off_ = true;
        return Onward::Here;
    }
    made->reach = reach ? reach->number : 0;
    made->last = visits_;
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
