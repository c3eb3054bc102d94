#include "python/program_place.h"

#include <algorithm>

#include "program/local_array.h"
#include "python/program_trace.h"

namespace weft::python {

using program::Onward;

namespace {

using Tensors = program::LocalArray<Tensor, 24>;

using program::mix;

uint64_t signature(uint64_t hash, PyObject* o, int depth) {
    hash = mix(hash, reinterpret_cast<uintptr_t>(Py_TYPE(o)));
    if (is_tensor(o)) {
        const Tensor t = handle(o);
        hash = mix(hash, static_cast<uint64_t>(t.dtype()) * 4 + 2 * t.has(kMeta) +
                             program::wants_grad(t));
        for (int64_t n : t.shape()) hash = mix(hash, static_cast<uint64_t>(n));
    } else if (PyTuple_CheckExact(o) && depth < 3) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(o); ++k)
            hash = signature(hash, PyTuple_GET_ITEM(o, k), depth + 1);
    }
    return hash;
}

}  // namespace

Onward Place::visit(Frame* frame, PyObject*& result) {
    ++stretches_.visits;
    if (reach && reach->number > newest_) begin_anew();
    if (stretches_.credit.is_over() || !enabled || !program::stretches_may_run())
        return Onward::Here;
    if (mode & kDeferMode && (sizes_vary_ || backend_now())) return Onward::Here;
    bool gave_up = false;
    Onward onward = Onward::Here;
    using Look = program::StretchesOf<Stretch>::Look;
    const bool ran = stretches_.any_runs([&](Stretch& s) {
        if (s.mode != mode) return Look::Passed;
        if (s.gave_up()) {
            gave_up = true;
            return Look::Passed;
        }
        Tensors tensors(s.inputs.size());
        Stretch::Differs differs;
        if (!s.holds(frame, tensors.data(), differs))
            return varies(s, differs) ? Look::Gone : Look::Passed;
        stretches_.credit.pay_off();
        s.last = stretches_.visits;
        if (s.pays()) [[likely]]
            onward = s.run(frame, tensors.data(), result);
        else ++s.left;
        return Look::Ran;
    });
    if (ran || gave_up) return onward;  // so would those over other layouts
    if (!stretches_.rests()) onward = trace(frame, result);
    if (onward != Onward::Here || !is_left(frame)) return onward;
    result = call_past_programs(frame);
    return Onward::Return;
}

/// Note [Left calls]
bool Place::is_left(const Frame* frame) const {
    if (pc_ != 0 || frame->caller || stretches_.empty() || mode & kDeferMode) return false;
    const Program& program = *frame->program;
    if (program.places.size() > 1 || program.code.comes_back || !reach || reach->full_graph)
        return false;
    return std::all_of(stretches_.all().begin(), stretches_.all().end(),
                       [](const Ref<Stretch>& s) { return s->returned >= 0; });
}

/// A new stretch, if there is one, runs at once.
Onward Place::trace(Frame* frame, PyObject*& result) {
    stretches_.drop_stale();
    if (stretches_.is_full()) return Onward::Here;
    const uint64_t signature = signature_of(frame);
    // a backend is asked at once, as who wrote it expects
    if (!stretches_.credit.grants(signature, backend_now() != nullptr, !stretches_.empty()))
        return Onward::Here;
    stretches_.credit.take();
    Ref<Stretch> made;
    for (const bool writes : {true, false}) {
        TraceHost host(frame, varying_, varying_reads_, writes);
        made = host.run(&ended_, &why_);
        if (!host.lost_by_writes()) break;
    }
    Program& program = *const_cast<Program*>(frame->program);
    const bool leads_further =
        ended_ >= 0 && program::add_places_after(*frame->code, ended_, [&](int32_t pc) {
            return add_place(program, pc);
        });
    if (made) return take_up(frame, std::move(made), result);
    if (!leads_further) stretches_.credit.note_failure(signature, !stretches_.empty());
    return Onward::Here;
}

Onward Place::take_up(Frame* frame, Ref<Stretch> made, PyObject*& result) {
    made->reach = reach ? reach->number : 0;
    made->gain = program::gain_of(made->plan->segment());
    made->backend = reach ? reach->backend : Object();
    if (made->mode & kDeferMode) {
        for (const Ref<Stretch>& s : stretches_.all()) sizes_vary_ |= made->is_of_other_sizes(*s);
        if (sizes_vary_) return Onward::Here;
        made->find_kept();
    }
    stretches_.add(made);
    Tensors tensors(made->inputs.size());
    Stretch::Differs differs;
    if (!made->holds(frame, tensors.data(), differs)) return Onward::Here;
    if (made->backend) {
        made->made = ask_backend(made->backend.get(), made->plan->segment(), tensors.data());
        if (!made->made) {
            stretches_.drop([&](const Stretch& s) { return &s == made.get(); });
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

void Place::begin_anew() {
    newest_ = reach->number;
    stretches_.credit = program::Credit();
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
    // what has no line of its own, as a loop's end, has that of what comes after it
    auto line_of = [&](int32_t pc) {
        const auto& instrs = program.code.instrs;
        auto at = instrs.begin() + pc;
        while (at->offset < 0 && at + 1 != instrs.end()) ++at;
        const int32_t offset = std::max(at->offset, 0);
        return PyCode_Addr2Line(program.of, offset & ((1 << kInlinedShift) - 1));
    };
    Object list = Object::take(PyList_New(0));
    for (const Ref<Stretch>& s : stretches_.all()) {
        Object one = Object::take(
            Py_BuildValue("{si sL}", "steps", s->steps, "runs", static_cast<long long>(s->runs)));
        checked(PyList_Append(list.get(), one.get()));
    }
    return Object::take(Py_BuildValue("{si sO si sz}", "line", line_of(pc_), "stretches",
                                      list.get(), "end", ended_ < 0 ? 0 : line_of(ended_), "why",
                                      why_));
}

void Place::forget(uint64_t reach) {
    stretches_.drop([&](const Stretch& s) { return s.reach == reach; });
}

int Place::traverse(uint64_t reach, visitproc visit, void* arg) const {
    for (const Ref<Stretch>& s : stretches_.all())
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
